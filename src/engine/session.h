// Session: one sequence of an Engine, request after request. begin() and collect() never wait, for callers that step
// the engine themselves. run() waits: it loops over Engine::step() and collect().
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace sluice {

// Called for each new token; false stops the answer (Finish::cancelled).
using TokenSink = std::function<bool(const SampleResult&)>;
// Called after every step of the engine with the counts so far, also during the prompt. False stops likewise.
using ProgressSink = std::function<bool(const Progress&)>;

struct Answer {
  std::vector<SampleResult> tokens;
  std::vector<float> logits;  // rows of Request::logits_at
  Finish finish = Finish::running;
  uint32_t prompt_tokens = 0, reused_tokens = 0, restored_tokens = 0, computed_prompt_tokens = 0;
  uint32_t drafted = 0, accepted = 0, undrafted_steps = 0;
  double prompt_seconds = 0;  // submit to first token, or to the end if there was none
  double answer_seconds = 0;  // first token to last
};

class Session {
 public:
  explicit Session(Engine& engine) : engine_(&engine) {}
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Submits `request` on this session's sequence; sets its `sequence` and `keep_sequence`. Fails while another request
  // runs.
  Status begin(Request request);
  // The running request's new results since the last call. A failed request has ended and is an error; the history is
  // as it was before the request. At the end of an answer the engine's state store, if any, keeps the sequence's state.
  Result<Progress> collect();
  void cancel();  // as Engine::cancel
  bool running() const { return running_.has_value(); }
  // Of the running request so far, else of the last one.
  const Answer& answer() const { return answer_; }

  // begin() and collect() to the end.
  Result<Answer> run(Request request, const TokenSink& sink = {}, const ProgressSink& watch = {});

  Result<History> history() const;
  SequenceId sequence() const { return sequence_; }
  Status truncate(size_t tokens);
  Status save(const std::string& path);
  Status load(const std::string& path, std::string* note);  // replaces this session's sequence
  void adopt(SequenceId sequence);                          // likewise, with an idle one of the engine
  // Closes the sequence. Cancels a running request and waits for its step.
  void clear();
  // Leaves the sequence to the engine: for a host that may not wait and destroys the engine next.
  void abandon();

 private:
  using Clock = std::chrono::steady_clock;

  Engine* engine_;
  SequenceId sequence_ = kNewSequence;
  std::optional<RequestId> running_;
  Answer answer_;
  Clock::time_point start_, answer_start_;  // of the request, of the answer's first token
};

}  // namespace sluice
