// AnswerQueue: the answers of many clients in one engine's batch. Requests wait in the order of submission, a bounded
// number of them; each of their parts is a ChatSession of its own while it runs.
//
// One thread owns the engine and calls run(). submit(), cancel(), close() and the counts are for any thread. A
// cancelled answer leaves the engine between two steps, and no other answer notices.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "chat/chat_session.h"
#include "chat/text_parts.h"
#include "chat/turn.h"
#include "engine/engine.h"
#include "serve/request_memory.h"

namespace sluice {

// One answer of a request: one of its prompts, one of the choices to it.
struct AnswerJob {
  ChatPrompt prompt;
  TurnSettings settings;
  std::vector<uint32_t> message_ends = {};  // as ChatSession::begin() takes them
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
using AnswerSink = std::function<void(AnswerNews)>;  // called on the engine's thread

class AnswerQueue {
 public:
  struct Limits {
    uint32_t running = 1;   // parts in the engine at once
    uint32_t waiting = 64;  // parts behind them
  };
  // Both outlive the queue. The engine takes at least `running` sequences.
  AnswerQueue(const TextParts& text, Engine& engine, Limits limits) : text_(&text), engine_(&engine), limits_(limits) {}

  // All parts of a request. None: there is no room for them now, or the queue is closed.
  std::optional<uint64_t> submit(std::vector<AnswerJob> jobs, AnswerSink sink);
  // No news of the request comes after the engine's present step. Does nothing to a request that has ended.
  void cancel(uint64_t request);
  // run() returns when the answers that are known by now have ended.
  void close();
  const Limits& limits() const { return limits_; }
  uint32_t running() const;
  uint32_t waiting() const;

  void run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Part {
    uint64_t request = 0;
    size_t index = 0;
    AnswerJob job;
    std::shared_ptr<AnswerSink> sink;  // null after the request was cancelled
    Clock::time_point submitted;
    double queued_seconds = 0;
    std::unique_ptr<ChatSession> session = {};  // once it runs
  };

  bool take_commands();
  void start_waiting();
  void step();
  void collect(Part& part);
  void tell(Part& part, AnswerNews news) const;

  const TextParts* text_;
  Engine* engine_;
  Limits limits_;

  mutable std::mutex mutex_;  // guards what follows, up to the empty line
  std::condition_variable wake_;
  std::vector<Part> submitted_;
  std::vector<uint64_t> cancelled_;
  uint64_t last_request_ = 0;
  uint32_t known_ = 0;  // parts that have not ended
  uint32_t runs_ = 0;   // of those
  bool closed_ = false;

  std::list<Part> waiting_, running_;  // of run()'s thread
};

}  // namespace sluice
