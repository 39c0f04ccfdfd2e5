// Where the budget of a thought closes it.
#include "chat/thought_budget.h"

#include <gtest/gtest.h>

#include "tests/unwrap.h"
#include "text/grammar/token_trie.h"

namespace sluice {
namespace {

enum : int32_t { kOpen, kClose, kCallOpen, kCallClose, kA };

Tokenizer thinking_tokenizer(bool has_markers = true) {
  GgufVocabulary gguf;
  gguf.model = "gpt2";
  gguf.pre = "qwen2";
  gguf.tokens = {has_markers ? "<think>" : "x", has_markers ? "</think>" : "y", "<tool_call>", "</tool_call>", "a"};
  gguf.token_type = {3, 3, 3, 3, 1};
  return Tokenizer(unwrap(vocabulary_from_gguf(std::move(gguf))));
}

class ThoughtBudgetTest : public testing::Test {
 protected:
  std::shared_ptr<Constraint> bound(uint32_t budget, bool begun, std::shared_ptr<Constraint> inner = nullptr) {
    return bound_thought(budget, tokenizer, *find_dialect("think"),
                         detect_tool_syntax("<tool_call>", [](auto) { return true; }), begun, std::move(inner));
  }
  const Tokenizer tokenizer = thinking_tokenizer();
};

// The only token that may come is also the only one of the mask.
bool must_close(Constraint& of) {
  const auto mask = unwrap(of.mask());
  const bool forced = of.forced() == kClose;
  EXPECT_EQ(forced, !mask.empty());
  for (int32_t token = 0; forced && token <= kA; ++token) EXPECT_EQ(has_bit(mask, token), token == kClose);
  return forced;
}

TEST_F(ThoughtBudgetTest, ClosesAThoughtThatThePromptHasBegun) {
  const auto of = bound(2, /*begun=*/true);
  EXPECT_FALSE(must_close(*of));
  EXPECT_TRUE(of->accept(kA));
  EXPECT_FALSE(must_close(*of));
  EXPECT_TRUE(of->accept(kA));
  EXPECT_TRUE(must_close(*of));
  EXPECT_FALSE(bound(0, /*begun=*/true)->accept(kA));
  EXPECT_TRUE(of->accept(kClose));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(of->accept(kA)) << "the answer is free";
  EXPECT_FALSE(must_close(*of));
}

TEST_F(ThoughtBudgetTest, CountsAllThoughtsOfAnAnswerTogether) {
  const auto of = bound(2, /*begun=*/false);
  for (const int32_t token : {kA, kA, kA, kOpen, kA, kClose, kA, kOpen}) EXPECT_TRUE(of->accept(token));
  EXPECT_FALSE(must_close(*of));
  EXPECT_TRUE(of->accept(kA));
  EXPECT_TRUE(must_close(*of));
  EXPECT_TRUE(of->accept(kClose));
  EXPECT_TRUE(of->accept(kOpen));
  EXPECT_TRUE(must_close(*of)) << "nothing is left for another thought";
}

TEST_F(ThoughtBudgetTest, LeavesCallsAlone) {
  const auto of = bound(1, /*begun=*/true);
  for (const int32_t token : {kCallOpen, kA, kOpen, kA, kA, kCallClose, kA}) EXPECT_TRUE(of->accept(token));
  EXPECT_FALSE(must_close(*of));
}

class OnlyA final : public Constraint {
 public:
  Result<std::span<const uint32_t>> mask() override { return std::span<const uint32_t>(bits_); }
  std::optional<int32_t> forced() override { return kA; }
  bool accept(int32_t token) override { return token != kCallOpen; }

 private:
  TokenBits bits_ = {1U << kA};
};

TEST_F(ThoughtBudgetTest, KeepsWhatElseHoldsForTheAnswer) {
  const auto of = bound(1, /*begun=*/true, std::make_shared<OnlyA>());
  EXPECT_EQ(of->forced(), kA);
  EXPECT_TRUE(has_bit(unwrap(of->mask()), kA));
  EXPECT_TRUE(of->accept(kA));
  EXPECT_EQ(of->forced(), kClose);
  EXPECT_TRUE(of->accept(kClose));
  EXPECT_EQ(of->forced(), kA);
  EXPECT_FALSE(of->accept(kCallOpen));
}

// A guess may not stand where only the closing marker may follow, because it is sampled with no mask behind it.
TEST_F(ThoughtBudgetTest, FreesTheGuessesBeforeItsEnd) {
  const auto free = [](const Constraint& of, const std::vector<int32_t>& guesses) { return of.free_guesses(guesses); };
  const auto thought = bound(3, /*begun=*/true);
  EXPECT_EQ(free(*thought, {}), 0u) << "it frees some, none of which is given";
  EXPECT_EQ(free(*thought, {kA, kA, kA, kA}), 2u);
  EXPECT_EQ(free(*thought, {kA, kClose, kA, kA, kA}), 5u);
  EXPECT_EQ(free(*thought, {kA, kCallOpen, kA, kA, kA}), 5u);
  EXPECT_EQ(must_close(*thought), false) << "guessing changes nothing";
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(thought->accept(kA));
  EXPECT_EQ(free(*thought, {kClose, kA}), 0u) << "the marker is taken, not sampled";
  EXPECT_TRUE(thought->accept(kClose));
  EXPECT_EQ(free(*thought, {kA, kA, kOpen, kA}), 2u) << "another thought would have to be closed at once";
  EXPECT_EQ(free(*bound(1, true, std::make_shared<OnlyA>()), {kA}), std::nullopt);
}

TEST_F(ThoughtBudgetTest, IsNoneWithoutMarkers) {
  const Tokenizer without = thinking_tokenizer(/*has_markers=*/false);
  EXPECT_EQ(bound_thought(1, without, *find_dialect("think"), nullptr, false, nullptr), nullptr);
  EXPECT_EQ(bound_thought(1, tokenizer, *find_dialect("plain"), nullptr, false, nullptr), nullptr);
}

}  // namespace
}  // namespace sluice
