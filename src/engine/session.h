// Session: one conversation on an Engine, for callers that may wait. Waiting is a loop over Engine::step().
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace sluice {

// Called for each new token; false stops the answer (Finish::cancelled).
using TokenSink = std::function<bool(const SampleResult&)>;
// Called after every step of the engine, with the counts so far: also while a prompt is read. False stops likewise.
using ProgressSink = std::function<bool(const Progress&)>;

struct Answer {
  std::vector<SampleResult> tokens;
  std::vector<float> logits;  // rows of Request::logits_at
  Finish finish = Finish::running;
  uint32_t prompt_tokens = 0, reused_tokens = 0, restored_tokens = 0, computed_prompt_tokens = 0;
  uint32_t drafted = 0, accepted = 0, undrafted_steps = 0;
  double prompt_seconds = 0;  // submit to first token, or to the end where none came
  double answer_seconds = 0;  // first token to last
};

class Session {
 public:
  explicit Session(Engine& engine) : engine_(&engine) {}
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Runs `request` on this session's sequence (its `sequence` and `keep_sequence` are set here), then keeps its state.
  // A failed answer is an Error; the history then stands as it was before.
  Result<Answer> run(Request request, const TokenSink& sink = {}, const ProgressSink& watch = {});

  Result<History> history() const;
  Status truncate(size_t tokens);
  Status save(const std::string& path);
  Status load(const std::string& path, std::string* note);  // replaces this session's sequence
  void clear();

 private:
  Engine* engine_;
  SequenceId sequence_ = kNewSequence;
};

}  // namespace sluice
