// AnswerQueue: the answers of many clients in the engines of a shelf's models. A bounded number of requests wait for a
// model, and AnswerPlaces says who is next; of one client's parts the urgent ones, then the oldest. Each part is a
// ChatSession of its own while it runs.
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
#include "serve/answer_places.h"
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
  // `waiting`: parts and loads behind the running ones, for each model. `clients`: that claims may name.
  AnswerQueue(ModelShelf& shelf, uint32_t waiting, size_t clients = 1);

  // The most parts that a request for a model may have.
  size_t most_parts(size_t recipe) const;
  // Loads a model, unless it is loaded, and tells of it. Refused while there is no place for another request for it.
  Outcome<uint64_t> want(ModelPlace place, Claim claim, ModelSink sink);
  // All parts of a request, for one model. Refused while there is no place for them. Both return the request's number.
  Outcome<uint64_t> submit(std::vector<AnswerJob> jobs, Claim claim, AnswerSink sink);
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
    Claim claim;
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
    size_t client = 0;
    ModelSink sink;
  };
  struct OfModel {
    AnswerPlaces places;  // a load that somebody waits for holds one
    uint64_t held_pages = 0;
  };

  bool take_commands();
  void wait_for_work(std::unique_lock<std::mutex>& lock);
  AnswerPlaces& places_of(size_t recipe) { return models_.at(recipe).places; }
  AnswerPlaces new_places(size_t recipe) const;
  Checked take_places(size_t recipe, size_t client, size_t parts);
  void load_next();
  void start_waiting();
  std::list<Part>::iterator next_waiting(size_t recipe);
  void begin(Part& part);
  void step();
  bool step_engines();
  void count(const std::list<Part>& ended);
  static void collect(Part& part);
  static void tell(Part& part);

  ModelShelf* shelf_;
  uint32_t waiting_limit_;
  size_t clients_;

  mutable std::mutex mutex_;  // guards what follows, up to the empty line
  std::condition_variable wake_;
  std::vector<Part> submitted_;
  std::list<Want> wanted_;
  std::vector<uint64_t> cancelled_;
  std::vector<std::function<void()>> tasks_;
  uint64_t last_request_ = 0;
  std::map<size_t, OfModel> models_;  // by recipe
  bool shelf_changed_ = false;
  bool closed_ = false;

  // Of run()'s thread.
  std::list<Part> waiting_, running_;
  Clock::time_point next_page_count_;
};

}  // namespace sluice
