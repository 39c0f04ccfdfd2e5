#include "engine/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Pending prompt(uint64_t id, uint32_t next, uint32_t end) { return {.id = id, .next = next, .end = end}; }
Pending answer(uint64_t id, uint32_t position) {
  return {.id = id, .next = position, .end = position + 1, .token_class = TokenClass::decode, .generating = true};
}

std::string text(const Batch& batch) {
  std::string out = batch.token_class == TokenClass::prompt ? "prompt" : "decode";
  for (const Portion& portion : batch.portions)
    out += cat(" ", portion.of, ":", portion.begin, "-", portion.end, portion.complete ? "" : "?");
  return out;
}

constexpr Schedule::Limits kLimits{.chunk = 256, .sequences = 4, .logits = 8, .adjustments = 1000};

TEST(Schedule, NothingPendingGivesNoRows) { EXPECT_THAT(Schedule(kLimits).next({}).portions, IsEmpty()); }

TEST(Schedule, DecodeStepsAndPromptChunksTakeTurns) {
  Schedule schedule(kLimits);
  const std::vector<Pending> pending{answer(1, 70), prompt(2, 0, 1000), answer(3, 5)};
  EXPECT_EQ(text(schedule.next(pending)), "decode 0:70-71 2:5-6");
  EXPECT_EQ(text(schedule.next(pending)), "prompt 1:0-256");
  EXPECT_EQ(text(schedule.next(pending)), "decode 0:70-71 2:5-6");
  EXPECT_EQ(text(schedule.next(pending)), "prompt 1:0-256");
}

TEST(Schedule, ChunksAreShorterWhileASequenceGenerates) {
  Schedule schedule({.chunk = 1024, .beside = 256, .sequences = 4, .logits = 8, .adjustments = 1000});
  EXPECT_EQ(text(schedule.next(std::vector{prompt(2, 0, 2000)})), "prompt 0:0-1024");
  const std::vector<Pending> pending{answer(1, 70), prompt(2, 1024, 2000)};
  EXPECT_EQ(text(schedule.next(pending)), "decode 0:70-71");
  EXPECT_EQ(text(schedule.next(pending)), "prompt 1:1024-1280");
}

TEST(Schedule, PromptsAreCutAtAbsoluteMultiplesOf64Only) {
  Schedule schedule(kLimits);
  EXPECT_EQ(text(schedule.next(std::vector{prompt(1, 10, 1000)})), "prompt 0:10-256") << "not 10 to 266";
  EXPECT_EQ(text(schedule.next(std::vector{prompt(1, 256, 300)})), "prompt 0:256-300");
  EXPECT_EQ(text(schedule.next(std::vector{prompt(1, 300, 301)})), "prompt 0:300-301");
}

TEST(Schedule, RaggedPromptsShareAChunkRoundRobin) {
  Schedule schedule(kLimits);
  const std::vector<Pending> pending{prompt(1, 0, 1000), prompt(2, 0, 3), prompt(3, 100, 1000)};
  EXPECT_EQ(text(schedule.next(pending)), "prompt 0:0-128 1:0-3 2:100-192");
  EXPECT_EQ(text(schedule.next(pending)), "prompt 0:0-128 1:0-3 2:100-192");
}

TEST(Schedule, MorePromptsThanAChunkHoldsComeOneAfterAnother) {
  Schedule schedule({.chunk = 128, .sequences = 8, .logits = 1, .adjustments = 0});
  const std::vector<Pending> pending{prompt(1, 0, 500), prompt(2, 0, 500), prompt(3, 0, 500)};
  EXPECT_EQ(text(schedule.next(pending)), "prompt 0:0-64 1:0-64");
  EXPECT_EQ(text(schedule.next(pending)), "prompt 0:0-64 2:0-64");
  EXPECT_EQ(text(schedule.next(pending)), "prompt 1:0-64 2:0-64");
}

TEST(Schedule, AChunkHasOneClass) {
  Schedule schedule(kLimits);
  Pending again = prompt(2, 130, 140);  // an answer that is computed again
  again.token_class = TokenClass::decode;
  const std::vector<Pending> pending{prompt(1, 0, 100), again};
  EXPECT_EQ(text(schedule.next(pending)), "prompt 0:0-100");
  EXPECT_EQ(text(schedule.next(pending)), "decode 1:130-140");
}

TEST(Schedule, NoMoreSequencesThanAStepHolds) {
  Schedule schedule({.chunk = 512, .sequences = 2, .logits = 1, .adjustments = 0});
  const std::vector<Pending> pending{answer(1, 5), answer(2, 5), answer(3, 5)};
  EXPECT_EQ(text(schedule.next(pending)), "decode 0:5-6 1:5-6");
  EXPECT_EQ(text(schedule.next(pending)), "decode 0:5-6 2:5-6");
  EXPECT_EQ(text(schedule.next(pending)), "decode 1:5-6 2:5-6");
}

TEST(Schedule, NoMoreAdjustmentsThanAStepHolds) {
  Schedule schedule({.chunk = 512, .sequences = 4, .logits = 1, .adjustments = 100});
  std::vector<Pending> pending{answer(1, 5), answer(2, 5), answer(3, 5)};
  for (Pending& one : pending) one.adjustments = 60;
  EXPECT_EQ(text(schedule.next(pending)), "decode 0:5-6");
  EXPECT_EQ(text(schedule.next(pending)), "decode 1:5-6");
  std::vector<Pending> prompts{prompt(1, 0, 10), prompt(2, 0, 10), prompt(3, 0, 100)};
  for (Pending& one : prompts) one.adjustments = 60;
  EXPECT_EQ(text(schedule.next(prompts)), "prompt 0:0-10 2:0-64") << "the first block of the third samples nothing";
}

TEST(Schedule, ABlockWithMoreLogitsThanAStepHoldsComesAgain) {
  Schedule schedule({.chunk = 512, .sequences = 4, .logits = 3, .adjustments = 0});
  const std::vector<uint32_t> at{10, 11, 12, 13, 70};
  Pending pending = prompt(1, 0, 100);
  pending.logits_at = at;
  const Batch first = schedule.next(std::span(&pending, 1));
  EXPECT_EQ(text(first), "prompt 0:0-64?");
  EXPECT_EQ(first.portions[0].logits, 3u);
  pending.logits_at = pending.logits_at.subspan(3);
  const Batch second = schedule.next(std::span(&pending, 1));
  EXPECT_EQ(text(second), "prompt 0:0-100");
  EXPECT_EQ(second.portions[0].logits, 2u);
}

}  // namespace
}  // namespace sluice
