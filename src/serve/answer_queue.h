// AnswerQueue: the answers of many clients in the engines of a shelf's models. Requests for a model wait in the order
// of submission, a bounded number of them; each of their parts is a ChatSession of its own while it runs.
//
// One thread owns all engines and calls run(). It loads models when somebody asks for them, and plays a step of every
// model that answers in turn, because the engines share the device and its threads. submit(), want(), cancel(), close()
// and the counts are for any thread. A cancelled answer leaves its engine between two steps, and no other answer
// notices.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "chat/chat_session.h"
#include "chat/turn.h"
#include "engine/engine.h"
#include "serve/model_shelf.h"
#include "serve/request_memory.h"

namespace sluice {

// One answer of a request: one of its prompts, one of the choices to it.
struct AnswerJob {
  ChatPrompt prompt;
  TurnSettings settings;
  std::vector<uint32_t> message_ends = {};  // as ChatSession::begin() takes them
  std::shared_ptr<ModelUse> use = {};       // of the model that answers; never null in a submitted job
  std::shared_ptr<MemoryLease> lease = {};  // of the prompt's pictures and sounds, until the answer has ended
};

// What has happened to a part of a request. The last news of a part has a DoneEvent or a failure.
struct AnswerNews {
  size_t part = 0;
  std::vector<TurnEvent> events = {};
  Usage usage = {};
  std::optional<Error> failure = {};
  double queued_seconds = 0;  // before the part began

  bool is_last() const {
    return failure.has_value() || (!events.empty() && std::holds_alternative<DoneEvent>(events.back()));
  }
};
// Both are called on the engines' thread.
using AnswerSink = std::function<void(AnswerNews)>;
using ModelSink = std::function<void(Outcome<std::shared_ptr<ModelUse>>)>;

class AnswerQueue {
 public:
  // `waiting`: parts and loads behind the running ones, for each model.
  AnswerQueue(ModelShelf& shelf, uint32_t waiting);

  // The most parts of a model that are known at a time.
  size_t room(size_t recipe) const;
  // Loads a model, unless it is loaded, and tells of it. None: there is no room for another request for it now, or the
  // queue is closed.
  std::optional<uint64_t> want(ModelPlace place, ModelSink sink);
  // All parts of a request, for one model. None: there is no room for them now, or the queue is closed.
  std::optional<uint64_t> submit(std::vector<AnswerJob> jobs, AnswerSink sink);
  // Runs a task on the engines' thread, between two steps. False: the queue is closed, and the task never runs.
  bool post(std::function<void()> task);
  // No news of the request comes after the engine's present step. Does nothing to a request that has ended.
  void cancel(uint64_t request);
  // run() returns when the answers that are known by now have ended.
  void close();
  uint32_t running(size_t recipe) const;
  uint32_t waiting(size_t recipe) const;
  // EngineStats::held_pages when the model's last answer ended, or some moments ago while answers run.
  uint64_t held_pages(size_t recipe) const;

  void run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Part {
    uint64_t request = 0;
    size_t index = 0;
    size_t recipe = 0;
    AnswerJob job;
    std::shared_ptr<AnswerSink> sink;  // null after the request was cancelled
    Clock::time_point submitted;
    double queued_seconds = 0;
    std::unique_ptr<ChatSession> session = {};  // once it runs
    AnswerNews news = {};                       // that are not told yet
  };
  struct Want {
    uint64_t request = 0;
    ModelPlace place;
    ModelSink sink;
  };
  struct Count {
    uint32_t known = 0;  // parts that have not ended, and loads that somebody waits for
    uint32_t runs = 0;   // of those
  };

  bool take_commands();
  void wait_for_work(std::unique_lock<std::mutex>& lock);
  bool has_room(size_t recipe, size_t parts) const;
  Count count_of(size_t recipe) const;
  void forget(size_t recipe, size_t parts);
  void load_next();
  void start_waiting();
  void begin(Part& part);
  void step();
  bool step_engines();
  void count(const std::list<Part>& ended);
  static void collect(Part& part);
  static void tell(Part& part);

  ModelShelf* shelf_;
  uint32_t waiting_limit_;

  mutable std::mutex mutex_;  // guards what follows, up to the empty line
  std::condition_variable wake_;
  std::vector<Part> submitted_;
  std::list<Want> wanted_;
  std::vector<uint64_t> cancelled_;
  std::vector<std::function<void()>> tasks_;
  uint64_t last_request_ = 0;
  std::map<size_t, Count> counts_;         // by recipe; none of 0 known
  std::map<size_t, uint64_t> held_pages_;  // by recipe
  bool shelf_changed_ = false;
  bool closed_ = false;

  // Of run()'s thread.
  std::list<Part> waiting_, running_;
  Clock::time_point next_page_count_;
};

}  // namespace sluice
