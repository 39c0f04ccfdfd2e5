#include "engine/draft/draft.h"

#include <gtest/gtest.h>

#include "engine/session.h"
#include "tests/engine/engine_run.h"

namespace sluice {
namespace {

TEST(DraftLength, GrowsWhileDraftsAreRight) {
  DraftLength length(8);
  EXPECT_EQ(length.length(), 8u);
  length.learn(8, 1);
  EXPECT_EQ(length.length(), 2u);
  length.learn(0, 0);
  EXPECT_EQ(length.length(), 2u);
  length.learn(2, 2);
  length.learn(4, 4);
  length.learn(8, 8);
  EXPECT_EQ(length.length(), 8u);
  length.learn(8, 0);
  EXPECT_EQ(length.length(), 1u);
}

// Steps until the mode changes.
int last(DraftGauge& gauge, uint64_t tokens, double seconds) {
  const DraftGauge::Mode mode = gauge.mode();
  int steps = 0;
  for (; gauge.mode() == mode; ++steps) gauge.learn(tokens, seconds);
  return steps;
}

TEST(DraftGauge, KeepsTheWayWithMoreTokensASecond) {
  using Mode = DraftGauge::Mode;
  DraftGauge gauge;
  EXPECT_FALSE(gauge.drafts());
  EXPECT_EQ(last(gauge, 1, 1.0), 4);
  EXPECT_TRUE(gauge.drafts());
  EXPECT_EQ(last(gauge, 3, 2.0), 12) << "1.5 tokens a second against 1";
  EXPECT_EQ(gauge.mode(), Mode::on);
  EXPECT_EQ(last(gauge, 1, 2.0), 64);
  for (const int off : {64, 128, 256, 512, 1024, 1024}) {
    EXPECT_EQ(last(gauge, 1, 1.0), 4);
    EXPECT_EQ(last(gauge, 3, 4.0), 12);
    EXPECT_EQ(gauge.mode(), Mode::off);
    EXPECT_FALSE(gauge.drafts());
    EXPECT_EQ(last(gauge, 1, 1.0), off) << "tried less often each time";
  }
  EXPECT_EQ(last(gauge, 2, 1.0), 4);
  EXPECT_EQ(last(gauge, 4, 2.0), 12);
  EXPECT_EQ(gauge.mode(), Mode::on) << "as fast";
}

EngineOptions drafting(uint32_t sequences, uint32_t tokens) {
  EngineOptions options;
  options.sequences = sequences;
  options.draft = {.kind = DraftKind::ngram, .tokens = tokens, .always = true};
  return options;
}

fake::Script repetitive(bool slots) {
  fake::Script script;
  script.slots = slots;
  script.repetitive = true;
  return script;
}

std::vector<int32_t> wanted(const Request& request, bool slots) {
  History history;
  return oracle_answer(history, request, false, slots, true);
}

class Drafting : public testing::TestWithParam<bool> {};  // with slots

TEST_P(Drafting, SequencesOfABatchDraftToDifferentLengths) {
  FakeEngine fake(drafting(4, 6), repetitive(GetParam()));
  std::vector<Request> requests;
  for (int32_t i = 0; i < 4; ++i) {
    Request request = greedy(prompt_of(20 + 40 * static_cast<size_t>(i), i), 300);
    request.sampling.temperature = i % 2 == 0 ? 0.0f : 1.0f;
    request.sampling.repeat_penalty = i == 1 ? 1.2f : 1.0f;
    request.sampling.presence_penalty = i == 3 ? 0.7f : 0.0f;
    request.sampling.seed = static_cast<uint64_t>(i);
    requests.push_back(request);
  }
  std::vector<RequestId> ids;
  for (const Request& request : requests) ids.push_back(fake.submit(request));
  fake.run();
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(tokens_of(fake.collect(ids[i])), wanted(requests[i], GetParam()));
  const EngineStats stats = fake.engine->stats();
  EXPECT_GT(stats.accepted, 300u);
  EXPECT_GT(stats.drafted, stats.accepted);
  bool different = false;
  for (const auto& step : fake.script.steps)
    different |= step.rows_of.size() == 4 && step.rows_of[0] != step.rows_of[2] && step.rows_of[0] > 1;
  EXPECT_TRUE(different);
  EXPECT_EQ(fake.held_pages(), 0u);
}

TEST_P(Drafting, MaxTokensAStopTokenOrTheSinkMayEndAnAnswerInsideADraft) {
  const std::vector<int32_t> all = wanted(greedy(prompt_of(40, 1), 120), GetParam());
  for (uint32_t length = 40; length < 120; length += 7) {
    FakeEngine fake(drafting(1, 8), repetitive(GetParam()));
    Session session(*fake.engine);
    Request request = greedy(prompt_of(40, 1), length);
    const Result<Answer> answer = session.run(request);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->tokens.size(), length);
    EXPECT_EQ(session.history()->size(), 40 + length);

    session.clear();
    request.max_tokens = 500;
    uint32_t seen = 0;
    const Result<Answer> stopped = session.run(request, [&](const SampleResult& result) {
      EXPECT_EQ(result.token, all[seen]);
      return ++seen < length;
    });
    ASSERT_TRUE(stopped);
    EXPECT_EQ(stopped->tokens.size(), length);
    EXPECT_EQ(session.history()->size(), 40 + length);
    EXPECT_EQ(stopped->finish, Finish::cancelled);

    session.clear();
    request.stop_tokens = {all[length]};
    const auto first = std::find(all.begin(), all.end(), all[length]);
    const Result<Answer> ended = session.run(request);
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->finish, Finish::stop_token);
    EXPECT_EQ(static_cast<std::ptrdiff_t>(ended->tokens.size()), first - all.begin() + 1);

    // What was cut off goes on as if nothing had been drafted behind it.
    History history = *session.history();
    const Request next = greedy(prompt_of(9, 2), 60);
    const std::vector<int32_t> want = oracle_answer(history, next, false, GetParam(), true);
    const Result<Answer> going_on = session.run(next);
    ASSERT_TRUE(going_on);
    EXPECT_GE(going_on->reused_tokens, 40 + ended->tokens.size() - 1);
    std::vector<int32_t> tokens;
    for (const SampleResult& result : going_on->tokens) tokens.push_back(result.token);
    EXPECT_EQ(tokens, want);
  }
}

TEST_P(Drafting, ForksOfAnAnswerThatEndedInsideADraftKeepApart) {
  for (uint32_t length = 20; length < 50; ++length) {
    FakeEngine fake(drafting(2, 8), repetitive(GetParam()));
    Request request = greedy(prompt_of(40, 1), length);
    request.keep_sequence = true;
    History history;
    oracle_answer(history, request, false, GetParam(), true);
    const SequenceId one = fake.answer(request).sequence;
    const SequenceId two = *fake.engine->fork(one);
    std::vector<Request> nexts;
    std::vector<RequestId> ids;
    for (const SequenceId sequence : {one, two}) {
      Request next = greedy(prompt_of(70, static_cast<int32_t>(sequence)), 30);
      next.sequence = sequence;
      nexts.push_back(next);
      ids.push_back(fake.submit(next));
    }
    fake.run();
    for (size_t i = 0; i < 2; ++i) {
      History own = history;
      EXPECT_EQ(tokens_of(fake.collect(ids[i])), oracle_answer(own, nexts[i], false, GetParam(), true)) << length;
    }
  }
}

// Rows of drafts may be what is not finite: that fails nobody who does not come to it.
TEST_P(Drafting, ADraftThatIsNotFiniteIsNotAccepted) {
  FakeEngine fake(drafting(1, 4), repetitive(GetParam()));
  Request request = greedy({3, 4, 5, 3, 4}, 30);
  const std::vector<int32_t> want = wanted(request, GetParam());
  EXPECT_EQ(tokens_of(fake.answer(request)), want);
  request.prompt = {3, 4, fake::kPoison};
  const Progress failed = fake.answer(request);
  ASSERT_TRUE(failed.failure);
  EXPECT_EQ(failed.failure->text, "token 2: layer 3, rms_norm: result is not finite");
}

TEST_P(Drafting, ARecordedTextTakesThePlaceOfTheAnswer) {
  FakeEngine fake(drafting(1, 4), repetitive(GetParam()));
  Request request = greedy(prompt_of(40, 1), 60);
  for (int32_t i = 0; i < 60; ++i) request.recorded.push_back(i % 7);
  const Progress drafted = fake.answer(request);
  EXPECT_EQ(tokens_of(drafted), request.recorded);
  EXPECT_GT(drafted.accepted, 30u);
  request.may_guess = false;
  const Progress plain = fake.answer(request);
  EXPECT_EQ(tokens_of(plain), request.recorded);
  EXPECT_EQ(plain.drafted, 0u);
}

TEST_P(Drafting, AutomaticGuessesByNgramsForFewSequences) {
  for (const uint32_t sequences : {1u, 4u, 5u}) {
    EngineOptions options = drafting(sequences, 4);
    options.draft.kind = DraftKind::automatic;
    FakeEngine fake(options, repetitive(GetParam()));
    const Request request = greedy(prompt_of(40, 1), 120);
    EXPECT_EQ(tokens_of(fake.answer(request)), wanted(request, GetParam()));
    EXPECT_EQ(fake.engine->stats().drafted > 0, sequences <= 4) << sequences;
  }
}

TEST_P(Drafting, SwitchingDraftsOffGivesTheSameTokens) {
  EngineOptions options = drafting(1, 4);
  options.draft.always = false;
  FakeEngine fake(options, repetitive(GetParam()));
  const Request request = greedy(prompt_of(40, 3), 400);
  EXPECT_EQ(tokens_of(fake.answer(request)), wanted(request, GetParam()));
  EXPECT_GT(fake.engine->stats().drafted, 0u) << "it was tried";
}

TEST(Drafts, AreAtMost16) {
  fake::Script script;
  const std::unique_ptr<Device> device = fake::make_device(script);
  Budget budget;
  for (const uint32_t tokens : {0u, 17u}) {
    const auto made = create_engine(fake::model(), *device, budget, drafting(1, tokens));
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().text, cat("draft tokens are ", tokens, ": want 1 to 16"));
  }
}

INSTANTIATE_TEST_SUITE_P(Slots, Drafting, testing::Bool(),
                         [](const auto& variant) { return std::string(variant.param ? "with_slots" : "pages_only"); });

}  // namespace
}  // namespace sluice
