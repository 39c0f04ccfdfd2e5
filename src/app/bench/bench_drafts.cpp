#include "app/bench/bench_drafts.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <tuple>

#include "app/bench/bench_report.h"
#include "app/cli/interrupt.h"
#include "app/open/open.h"
#include "base/files/file.h"
#include "base/text.h"
#include "chat/text_parts.h"
#include "checkpoint/checkpoint.h"
#include "engine/session.h"
#include "text/tokenizer.h"

namespace sluice {
namespace {

constexpr uint64_t kMostBytes = 16u << 20;  // of a recorded text

struct Turn {
  double tokens_per_second = 0;
  uint64_t guessed = 0, right = 0, steps = 0, undrafted = 0;
};

Result<Turn> turn(Engine& engine, const RecordedTest& test, bool may_guess) {
  Request request;
  request.prompt = test.prompt;
  request.recorded = test.answer;
  request.max_tokens = static_cast<uint32_t>(test.answer.size());
  request.may_guess = may_guess;
  request.sampling.temperature = 0;
  const uint64_t steps = engine.stats().steps;
  Session session(engine);
  TRY(const Answer answer, session.run(
                               std::move(request), [](const SampleResult&) { return !interrupted(); },
                               [](const Progress&) { return !interrupted(); }));
  if (answer.finish == Finish::cancelled) return error(ErrorKind::cancelled, "bench: stopped");
  return Turn{static_cast<double>(answer.tokens.size() - 1) / answer.answer_seconds, answer.drafted, answer.accepted,
              engine.stats().steps - steps, answer.undrafted_steps};
}

}  // namespace

Result<RecordedTest> read_recorded(const RecordedFiles& files, const Model& model, uint32_t rounds) {
  std::optional<Checkpoint> other;
  if (!files.tokenizer.empty()) {
    TRY(const std::string path, model_path(files.tokenizer));
    TRY_ASSIGN(other, open_checkpoint(path));
  }
  TRY(Vocabulary vocabulary, read_vocabulary(other ? *other : model.checkpoint()));
  const Tokenizer tokenizer(std::move(vocabulary));
  RecordedTest test{.prompt = {}, .answer = {}, .rounds = rounds};
  for (const auto& [file, tokens, least] :
       {std::tuple(&files.prompt, &test.prompt, size_t{1}), std::tuple(&files.answer, &test.answer, size_t{2})}) {
    TRY(const std::string text, read_file(*file, kMostBytes));
    *tokens = tokenizer.encode(text);
    if (tokens->size() < least)
      return error(ErrorKind::invalid, printable(*file), ": has ", tokens->size(), " tokens: want at least ", least);
    const int32_t largest = std::ranges::max(*tokens);
    if (static_cast<uint32_t>(largest) >= model.facts().vocabulary)
      return error(ErrorKind::invalid, printable(*file), ": has token ", largest, ": want those of a vocabulary of ",
                   model.facts().vocabulary, ", the model's");
  }
  return test;
}

Result<RecordedResult> bench_recorded(Engine& engine, const RecordedTest& test) {
  RecordedResult result;
  result.prompt = static_cast<uint32_t>(test.prompt.size());
  result.answer = static_cast<uint32_t>(test.answer.size());
  for (const bool may_guess : {false, true}) TRY_STATUS(turn(engine, test, may_guess));
  std::vector<double> plain, drafted, ratio;
  for (uint32_t i = 0; i < test.rounds; ++i) {
    TRY(const Turn without, turn(engine, test, false));
    TRY(const Turn with, turn(engine, test, true));
    plain.push_back(without.tokens_per_second);
    drafted.push_back(with.tokens_per_second);
    ratio.push_back(with.tokens_per_second / without.tokens_per_second);
    result.guessed += with.guessed;
    result.right += with.right;
    result.steps += with.steps;
    result.undrafted += with.undrafted;
  }
  result.plain = spread_of(std::move(plain));
  result.drafted = spread_of(std::move(drafted));
  result.ratio = spread_of(std::move(ratio));
  return result;
}

std::string recorded_text(const RecordedResult& result) {
  char ratios[96];
  std::snprintf(ratios, sizeof ratios, "%.2f (%.2f to %.2f)", result.ratio.median, result.ratio.least,
                result.ratio.most);
  return cat("\nrecorded  an answer of ", result.answer, " tokens behind ", result.prompt, "\nwithout   ",
             spread_text(result.plain, 1, " tokens/s"), "\nwith      ", spread_text(result.drafted, 1, " tokens/s"),
             "\nratio     ", ratios, "\nguesses   ", result.guessed, ", ", result.right, " of them right, in ",
             result.steps, " steps; ", result.undrafted, " steps would have been slowed\n");
}

}  // namespace sluice
