// Constraints of requests, over the fake device.
#include "engine/constraint.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/engine/engine_run.h"

namespace sluice {
namespace {

// Allows every token whose number is a multiple of `step` and `first` more; all of them for the first `free` tokens.
class EveryFew final : public Constraint {
 public:
  EveryFew(uint32_t vocabulary, int32_t step, int free = 0, int32_t first = 0)
      : bits_(mask_words(vocabulary)), step_(step), free_(free), first_(first) {
    for (auto token = static_cast<uint32_t>(first); token < vocabulary; token += static_cast<uint32_t>(step))
      bits_[token / 32] |= 1u << (token % 32);
  }
  Result<std::span<const uint32_t>> mask() override {
    if (fail) return error(ErrorKind::unsupported, "the grammar is too ambiguous");
    if (free_ > 0) return std::span<const uint32_t>();
    return std::span<const uint32_t>(bits_);
  }
  bool accept(int32_t token) override {
    accepted.push_back(token);
    return free_-- > 0 || token % step_ == first_;
  }

  std::vector<int32_t> accepted;
  bool fail = false;

 private:
  std::vector<uint32_t> bits_;
  int32_t step_;
  int free_;
  int32_t first_;
};

Request constrained(std::shared_ptr<Constraint> constraint, uint32_t tokens = 12) {
  Request request = greedy(prompt_of(70, 1), tokens);
  request.constraint = std::move(constraint);
  return request;
}

EngineOptions options(uint32_t sequences) {
  EngineOptions options;
  options.sequences = sequences;
  options.prompt_chunk = 128;
  return options;
}

TEST(Constraint, SamplesOnlyAllowedTokensAndTellsWhichCame) {
  FakeEngine fake(options(1));
  const auto constraint = std::make_shared<EveryFew>(fake::kVocabulary, 3);
  const std::vector<int32_t> tokens = tokens_of(fake.answer(constrained(constraint)));
  EXPECT_EQ(tokens.size(), 12u);
  for (const int32_t token : tokens) EXPECT_EQ(token % 3, 0);
  EXPECT_EQ(constraint->accepted, tokens);
}

TEST(Constraint, BeginsWhereItsMaskBegins) {
  FakeEngine fake(options(1));
  const std::vector<int32_t> free = tokens_of(fake.answer(greedy(prompt_of(70, 1), 4)));
  const std::vector<int32_t> tokens =
      tokens_of(fake.answer(constrained(std::make_shared<EveryFew>(fake::kVocabulary, 5, 4))));
  EXPECT_TRUE(std::equal(free.begin(), free.end(), tokens.begin()));
  for (size_t i = 4; i < tokens.size(); ++i) EXPECT_EQ(tokens[i] % 5, 0);
}

TEST(Constraint, ChangesNoOtherAnswerOfTheBatchAndIsChangedByNone) {
  const Request plain = greedy(prompt_of(40, 9), 12);
  FakeEngine alone(options(1));
  const std::vector<int32_t> plain_alone = tokens_of(alone.answer(plain));
  const std::vector<int32_t> masked_alone =
      tokens_of(alone.answer(constrained(std::make_shared<EveryFew>(fake::kVocabulary, 7))));
  FakeEngine together(options(3));
  const RequestId first = together.submit(plain);
  const RequestId second = together.submit(constrained(std::make_shared<EveryFew>(fake::kVocabulary, 7)));
  const RequestId third = together.submit(constrained(std::make_shared<EveryFew>(fake::kVocabulary, 3)));
  while (together.engine->step() != StepState::idle) {
  }
  EXPECT_EQ(tokens_of(together.collect(first)), plain_alone);
  EXPECT_EQ(tokens_of(together.collect(second)), masked_alone);
  for (const SampleResult& one : together.collect(third).tokens) EXPECT_EQ(one.token % 3, 0);
}

TEST(Constraint, IsTheSameWithDraftsAsked) {
  fake::Script script;
  script.repetitive = true;
  EngineOptions drafting = options(1);
  drafting.draft = {.kind = DraftKind::ngram, .always = true};
  FakeEngine with(drafting, script), without(options(1), script);
  const auto ask = [&](FakeEngine& fake) {
    return fake.answer(constrained(std::make_shared<EveryFew>(fake::kVocabulary, 2), 40));
  };
  const Progress drafted = ask(with);
  EXPECT_EQ(tokens_of(drafted), tokens_of(ask(without)));
  EXPECT_EQ(drafted.drafted, 0u);
}

// As EveryFew, but nothing is masked before the first `free` tokens are there, and drafts may reach so far.
class FreeAtFirst final : public Constraint {
 public:
  FreeAtFirst(uint32_t vocabulary, size_t free) : masked_(vocabulary, 3), free_(free) {}
  Result<std::span<const uint32_t>> mask() override { return free_ > 0 ? std::span<const uint32_t>() : masked_.mask(); }
  std::optional<size_t> free_guesses(std::span<const int32_t> guesses) const override {
    return free_ == 0 ? 0 : std::min(guesses.size(), free_ - 1);
  }
  bool accept(int32_t token) override {
    if (free_ == 0) return masked_.accept(token);
    --free_;
    return true;
  }

 private:
  EveryFew masked_;
  size_t free_;
};

TEST(Constraint, IsTheSameWithDraftsAsFarAsItIsFree) {
  fake::Script script;
  script.repetitive = true;
  for (const size_t free : {0, 1, 2, 7, 70, 100}) {
    EngineOptions drafting = options(2);
    drafting.draft = {.kind = DraftKind::ngram, .tokens = 5, .always = true};
    FakeEngine with(drafting, script), without(options(2), script);
    const auto ask = [&](FakeEngine& fake) {
      fake.submit(greedy(prompt_of(40, 9), 20));
      return fake.answer(constrained(std::make_shared<FreeAtFirst>(fake::kVocabulary, free), 100));
    };
    const Progress drafted = ask(with);
    EXPECT_EQ(tokens_of(drafted), tokens_of(ask(without))) << free;
    EXPECT_EQ(drafted.accepted > 0, free >= 70) << free << ": the fake repeats itself only later";
  }
}

// Leaves a choice at every fourth token; between them only one token may come.
class MostlyForced final : public Constraint {
 public:
  MostlyForced(uint32_t vocabulary, bool tells) : vocabulary_(vocabulary), tells_(tells) {}
  Result<std::span<const uint32_t>> mask() override {
    if (accepted_ % 4 == 0) return std::span<const uint32_t>();
    bits_.assign(mask_words(vocabulary_), 0);
    bits_[next() / 32] |= 1u << (next() % 32);
    return std::span<const uint32_t>(bits_);
  }
  std::optional<int32_t> forced() override {
    return tells_ && accepted_ % 4 != 0 ? std::optional(static_cast<int32_t>(next())) : std::nullopt;
  }
  bool accept(int32_t token) override { return accepted_++ % 4 == 0 || token % 7 == 3; }

 private:
  uint32_t next() const { return accepted_ % 4 * 7 + 3; }

  uint32_t vocabulary_;
  bool tells_;
  uint32_t accepted_ = 0;
  std::vector<uint32_t> bits_;
};

TEST(Constraint, ComputesForcedTokensTogetherAndChangesNoToken) {
  const auto ask = [](bool tells, float temperature, uint64_t* steps) {
    FakeEngine fake(options(2));
    Request request = constrained(std::make_shared<MostlyForced>(fake::kVocabulary, tells), 41);
    request.sampling.temperature = temperature;
    const RequestId other = fake.submit(greedy(prompt_of(40, 9), 20));
    const RequestId id = fake.submit(std::move(request));
    fake.run();
    std::vector<int32_t> tokens = tokens_of(fake.collect(id));
    for (const int32_t token : tokens_of(fake.collect(other))) tokens.push_back(token);
    *steps = fake.engine->stats().steps;
    return tokens;
  };
  for (const float temperature : {0.0f, 1.0f}) {
    uint64_t with = 0, without = 0;
    const std::vector<int32_t> tokens = ask(true, temperature, &with);
    EXPECT_EQ(tokens.size(), 61u);
    EXPECT_EQ(tokens, ask(false, temperature, &without));
    EXPECT_LE(with + 10, without);
  }
}

TEST(Constraint, AForcedRunEndsWithTheAnswersLimit) {
  FakeEngine fake(options(1));
  const auto constraint = std::make_shared<MostlyForced>(fake::kVocabulary, true);
  EXPECT_EQ(fake.answer(constrained(constraint, 3)).tokens.size(), 3u);
  Request stopped = constrained(std::make_shared<MostlyForced>(fake::kVocabulary, true), 12);
  stopped.stop_tokens = {2 * 7 + 3};
  const Progress progress = fake.answer(std::move(stopped));
  EXPECT_EQ(progress.tokens.size(), 3u);
  EXPECT_EQ(progress.finish, Finish::stop_token);
}

TEST(Constraint, FailsItsRequestAlone) {
  FakeEngine fake(options(2));
  const auto constraint = std::make_shared<EveryFew>(fake::kVocabulary, 3);
  constraint->fail = true;
  const RequestId failing = fake.submit(constrained(constraint));
  const RequestId other = fake.submit(greedy(prompt_of(40, 9), 3));
  while (fake.engine->step() != StepState::idle) {
  }
  const Progress progress = fake.collect(failing);
  EXPECT_EQ(progress.finish, Finish::failed);
  EXPECT_EQ(progress.failure->text, "the grammar is too ambiguous");
  EXPECT_EQ(fake.collect(other).tokens.size(), 3u);
}

TEST(Constraint, FailsWhereEveryAllowedTokenIsForbiddenOtherwise) {
  FakeEngine fake(options(1));
  Request request = constrained(std::make_shared<EveryFew>(fake::kVocabulary, 1000, 0, 1));
  request.sampling.logit_bias = {{1, -std::numeric_limits<float>::infinity()}};
  const Progress progress = fake.answer(request);
  EXPECT_EQ(progress.finish, Finish::failed);
  EXPECT_EQ(progress.failure->text, "no token that the constraint allows can be sampled here");
}

}  // namespace
}  // namespace sluice
