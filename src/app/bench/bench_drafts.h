// The speed of an answer with and without drafts. The answer is a recorded text, so that guesses are as often right as
// on text of its kind, whatever the weights are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/bench/bench_runs.h"
#include "base/result.h"
#include "engine/engine.h"
#include "model/model.h"

namespace sluice {

struct RecordedFiles {
  std::string prompt, answer;
  std::string tokenizer;  // a model's name or path; empty: the measured model's
};

struct RecordedTest {
  std::vector<int32_t> prompt, answer;
  uint32_t rounds = 3;
  uint32_t tokens() const { return static_cast<uint32_t>(prompt.size() + answer.size()); }
};
// Tokens that the model does not have are an error.
Result<RecordedTest> read_recorded(const RecordedFiles& files, const Model& model, uint32_t rounds);

struct RecordedResult {
  uint32_t prompt = 0, answer = 0;    // tokens
  Spread plain, drafted;              // tokens a second behind the first token
  Spread ratio;                       // round by round: with drafts over without
  uint64_t guessed = 0, right = 0;    // tokens, of all rounds
  uint64_t steps = 0, undrafted = 0;  // of the rounds with drafts; those that guesses would have slowed
};
// The first turn of either kind does not count.
Result<RecordedResult> bench_recorded(Engine& engine, const RecordedTest& test);
std::string recorded_text(const RecordedResult& result);

}  // namespace sluice
