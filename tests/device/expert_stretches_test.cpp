// How a step is played in stretches around experts that are read, on a device that only writes down what it is told.
#include "device/expert_stretches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "graph/late_experts.h"
#include "graph/recorder.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

constexpr uint32_t kExperts = 6, kChosen = 2;

// Two layers, each a router, its experts and a shared expert, which is one product here and comes before the experts.
Program two_layers() {
  Recorder r;
  Value x = r.input("x", {.width = 32});
  for (const char* layer : {"0.", "1."}) {
    const auto matrix = [&](const char* name, WeightShape shape) { return r.weight(cat(layer, name), shape); };
    const WeightShape square{.experts = kExperts, .rows = 32, .columns = 32};
    const Weight gate = matrix("gate", square), up = matrix("up", square), down = matrix("down", square);
    const Value logits = linear(x, matrix("router", {.rows = kExperts, .columns = 32}));
    const Value y = experts(x, route(logits, {.k = kChosen}), gate, up, down, ActivationKind::silu);
    x = add(y, linear(x, matrix("shared", {.rows = 32, .columns = 32})));
  }
  r.output(x, "out");
  return with_late_experts(unwrap(r.finish()));
}
constexpr uint32_t kOp = 3, kLayerOps = 5;  // linear, route, linear, experts, add

// The calls as words, and choices handed out as the test says.
class Notes final : public StretchPlayer {
 public:
  explicit Notes(const Program& program) : program_(program) {}

  bool play_to(uint32_t end) override {
    if (end > next_) text += cat(" ops-", end);
    return std::exchange(next_, end) < end;
  }
  void play_present(uint32_t op, std::span<const uint32_t> slots) override {
    text += cat(" experts(", op);
    for (uint32_t expert = 0; expert < slots.size(); ++expert)
      if (slots[expert] != kNone) {
        text += cat(" ", expert, "@", slots[expert]);
        EXPECT_TRUE(played.insert({op, expert}).second) << "twice";
      }
    text += ")";
  }
  void submit_choice(ValueId choice, std::span<uint32_t> into) override {
    EXPECT_EQ(program_.values[choice].type.element, Element::i32);
    into_ = into;
    text += " choose;";
  }
  void submit_stretch() override { text += " submit;"; }
  void submit_end(std::vector<ExpertUse> used) override {
    text += " end.";
    at_end = std::move(used);
    ended = true;
  }

  void choose(const std::vector<uint32_t>& experts) {
    ASSERT_EQ(into_.size(), experts.size());
    std::ranges::copy(experts, into_.begin());
  }
  void restart() {
    text.clear();
    played.clear();
    ended = false;
    next_ = 0;
  }
  std::string taken() { return std::exchange(text, ""); }

  std::string text;
  std::set<ExpertId> played;
  std::vector<ExpertUse> at_end;
  bool ended = false;

 private:
  const Program& program_;
  uint32_t next_ = 0;
  std::span<uint32_t> into_;
};

class Stretches : public testing::Test {
 protected:
  void begin(uint32_t rows, uint32_t slots) {
    step_.reset(TokenClass::decode, text_counts(rows, 0), 1, 0);
    stretches_.emplace(program_, slots, notes_);
    stretches_->start(7, step_);
  }
  SlotTable& slots() { return stretches_->slots(); }
  static ExpertId first(uint32_t expert) { return {kOp, expert}; }
  static ExpertId second(uint32_t expert) { return {kLayerOps + kOp, expert}; }

  const Program program_ = two_layers();
  StepBuffer step_{program_, {.counts = text_counts(8, 8), .sequences = 1}};
  Notes notes_{program_};
  std::optional<ExpertStretches> stretches_;
};

TEST_F(Stretches, WithoutSlotsAStepIsOne) {
  begin(1, 0);
  EXPECT_EQ(notes_.taken(), " ops-10 end.");
  EXPECT_TRUE(notes_.at_end.empty());
}

TEST_F(Stretches, AStepWithAllExpertsInSlotsDoesNotStop) {
  begin(1, 4);
  EXPECT_EQ(notes_.taken(), " ops-2 choose; ops-3 submit;") << "the shared expert, while the choice is read back";
  slots().fill(0, first(5));
  slots().fill(2, first(1));
  slots().fill(3, second(0));
  slots().fill(1, second(1));
  notes_.choose({5, 1});
  EXPECT_FALSE(stretches_->chosen());
  EXPECT_EQ(notes_.taken(), " experts(3 1@2 5@0) ops-7 choose; ops-8 submit;");
  notes_.choose({0, 1});
  EXPECT_FALSE(stretches_->chosen());
  EXPECT_EQ(notes_.taken(), " experts(8 0@3 1@1) ops-10 end.");
  ASSERT_EQ(notes_.at_end.size(), 2u);
  EXPECT_EQ(notes_.at_end[0].op, kOp);
  EXPECT_EQ(notes_.at_end[0].experts, (std::vector<uint32_t>{1, 5}));
}

TEST_F(Stretches, AStepStopsUntilAllThatItChoseHaveBeenPlayed) {
  begin(2, 2);
  notes_.taken();
  slots().fill(0, first(2));
  notes_.choose({4, 2, 2, 0});  // of two rows
  std::optional<Completion> stops = stretches_->chosen();
  ASSERT_TRUE(stops && stops->stopped);
  EXPECT_EQ(stops->ticket, 7u);
  EXPECT_EQ(stops->missing, (std::vector<ExpertId>{first(0), first(4)}));
  ASSERT_EQ(stops->used.size(), 1u);
  EXPECT_EQ(stops->used[0].experts, (std::vector<uint32_t>{0, 2, 4}));
  EXPECT_EQ(notes_.taken(), "") << "nothing is played before it is resumed";

  slots().fill(1, first(4));
  stops = stretches_->resume(7);
  EXPECT_EQ(notes_.taken(), " experts(3 2@0 4@1) submit;");
  ASSERT_TRUE(stops && stops->stopped);
  EXPECT_EQ(stops->missing, (std::vector<ExpertId>{first(0)}));
  EXPECT_TRUE(stops->used.empty()) << "was said before";

  EXPECT_EQ(slots().release(0), first(2));
  slots().fill(0, first(0));
  EXPECT_FALSE(stretches_->resume(7));
  EXPECT_EQ(notes_.taken(), " experts(3 0@0) ops-7 choose; ops-8 submit;");
}

TEST_F(Stretches, AStepThatStoppedIsForgottenByTheNext) {
  begin(1, 2);
  notes_.choose({1, 2});
  ASSERT_TRUE(stretches_->chosen());
  slots().fill(0, first(1));
  stretches_->drop();
  EXPECT_EQ(slots().slot_of(first(1)), 0u) << "slots are the runner's, not the step's";
  EXPECT_EQ(slots().slot_of(first(2)), std::nullopt);
}

TEST_F(Stretches, AStepWithoutRowsChoosesNoExpert) {
  begin(0, 2);
  notes_.choose({});
  EXPECT_FALSE(stretches_->chosen());
  notes_.choose({});
  EXPECT_FALSE(stretches_->chosen());
  EXPECT_TRUE(notes_.ended && notes_.played.empty());
}

// Experts come in any order into any number of slots: each that was chosen is played once, and no other.
TEST_F(Stretches, EachChosenExpertIsPlayedOnceInAnyOrder) {
  std::mt19937 random(1);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (int round = 0; round < 200; ++round) {
    notes_.restart();
    const uint32_t rows = 1 + below(4), count = 1 + below(5);
    begin(rows, count);
    std::set<ExpertId> chosen;
    for (uint32_t layer = 0; layer < 2; ++layer) {
      const uint32_t op = layer * kLayerOps + kOp;
      std::vector<uint32_t> choice(rows * kChosen);
      for (uint32_t& expert : choice) chosen.insert({op, expert = below(kExperts)});
      notes_.choose(choice);
      for (std::optional<Completion> stops = stretches_->chosen(); stops; stops = stretches_->resume(7)) {
        ASSERT_FALSE(stops->missing.empty() && notes_.ended);
        std::vector<ExpertId> missing = stops->missing;
        std::ranges::shuffle(missing, random);
        for (uint32_t slot = 0; slot < count && !missing.empty(); ++slot) {
          if (slot > 0 && below(2) == 0) continue;
          slots().release(slot);
          if (!slots().slot_of(missing.back())) slots().fill(slot, missing.back());
          missing.pop_back();
        }
      }
    }
    EXPECT_TRUE(notes_.ended);
    EXPECT_EQ(notes_.played, chosen);
  }
}

TEST(SlotTable, HoldsOneExpertASlot) {
  SlotTable table(2);
  EXPECT_EQ(table.release(0), std::nullopt);
  table.fill(1, {3, 4});
  EXPECT_EQ(table.slot_of({3, 4}), 1u);
  EXPECT_EQ(table.release(1), (ExpertId{3, 4}));
  EXPECT_EQ(table.slot_of({3, 4}), std::nullopt);
  EXPECT_EQ(table.size(), 2u);
}

}  // namespace
}  // namespace sluice
