#include "app/verify/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace sluice {
namespace {

TEST(CompareLogits, EqualRowsHaveNoError) {
  const std::vector<float> rows = {1, 2, 3, -4, 5, 0};
  const LogitErrors errors = compare_logits(rows, rows, 3);
  EXPECT_EQ(errors.largest, 0);
  EXPECT_EQ(errors.relative, 0);
  EXPECT_EQ(errors.kl, 0);
  EXPECT_EQ(errors.top_equal, 1);
  EXPECT_EQ(errors.rows, 2u);
}

TEST(CompareLogits, DivergenceIsFromTheJudgeToOurs) {
  // Judge: (1/2, 1/2). Ours: (3/4, 1/4). KL(judge || ours) = ln 2 - ln(3) / 2.
  const std::vector<float> want = {0, 0}, got = {std::log(3.0f), 0};
  const LogitErrors errors = compare_logits(got, want, 2);
  EXPECT_NEAR(errors.kl, std::log(2.0) - std::log(3.0) / 2, 1e-7);
  EXPECT_NEAR(errors.largest, std::log(3.0), 1e-7);
}

TEST(CompareLogits, DivergenceIsTheMeanOverRows) {
  const std::vector<float> want = {0, 0, 0, 0}, got = {std::log(3.0f), 0, 0, 0};
  const LogitErrors errors = compare_logits(got, want, 2);
  EXPECT_NEAR(errors.kl, (std::log(2.0) - std::log(3.0) / 2) / 2, 1e-7);
}

TEST(CompareLogits, TopTokensAreCountedByRow) {
  const std::vector<float> want = {1, 2, 2, 1}, got = {1, 3, 1, 2};
  EXPECT_EQ(compare_logits(got, want, 2).top_equal, 0.5);
}

TEST(CompareLogits, AValueThatIsNotFiniteSpoilsEveryNumber) {
  const std::vector<float> want = {1, 2}, got = {1, std::numeric_limits<float>::quiet_NaN()};
  const LogitErrors errors = compare_logits(got, want, 2);
  EXPECT_TRUE(std::isnan(errors.largest));
  EXPECT_TRUE(std::isnan(errors.kl));
  EXPECT_TRUE(std::isnan(errors.relative));
}

TEST(RelativeNorm, IsOfTheWholeAndZeroForEqualZeros) {
  EXPECT_NEAR(relative_norm(std::vector<float>{3, 4.5f}, std::vector<float>{3, 4}), 0.1, 1e-12);
  EXPECT_EQ(relative_norm(std::vector<float>{0, 0}, std::vector<float>{0, 0}), 0);
  EXPECT_TRUE(std::isinf(relative_norm(std::vector<float>{1}, std::vector<float>{0})));
}

TEST(ArgMax, TiesGoToTheLowerIndex) { EXPECT_EQ(arg_max(std::vector<float>{1, 3, 3}), 1); }

TEST(BestMargin, IsBestMinusSecond) {
  EXPECT_EQ(best_margin(std::vector<float>{1, 5, 3}), 2);
  EXPECT_EQ(best_margin(std::vector<float>{4, 4}), 0);
  EXPECT_EQ(best_margin(std::vector<float>{4}), 0);
}

TEST(Perplexity, OfUniformRowsIsTheVocabulary) {
  const std::vector<float> rows(3 * 4, 0.25f);
  const std::vector<int32_t> tokens = {0, 3, 1, 2};
  EXPECT_NEAR(perplexity_of(rows, tokens, 4), 4, 1e-9);
}

TEST(Perplexity, ARowPredictsTheNextToken) {
  // Row 0 gives token 1 three quarters, row 1 gives token 0 one quarter.
  const std::vector<float> rows = {0, std::log(3.0f), 0, std::log(3.0f)};
  EXPECT_NEAR(perplexity_of(rows, std::vector<int32_t>{0, 1, 0}, 2), 1 / std::sqrt(0.75 * 0.25), 1e-6);
}

TEST(CompareGreedy, PartsAtTheFirstDifferenceWithTheJudgesMargin) {
  const GreedyResult result =
      compare_greedy(std::vector<int32_t>{5, 6, 9}, std::vector<int32_t>{5, 6, 7}, std::vector<float>{1, 2, 0.25f});
  EXPECT_EQ(result.equal, 2u);
  EXPECT_TRUE(result.parted);
  EXPECT_EQ(result.margin, 0.25f);
}

TEST(CompareGreedy, FewerTokensThanTheJudgePart) {
  const GreedyResult result = compare_greedy({}, std::vector<int32_t>{5}, std::vector<float>{1});
  EXPECT_TRUE(result.parted);
  EXPECT_EQ(result.equal, 0u);
}

TEST(GlobMatches, StarsAndQuestionMarks) {
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("chat*", "chat_violin"));
  EXPECT_TRUE(glob_matches("*_?", "ragged_a"));
  EXPECT_TRUE(glob_matches("*a*b*c", "xxaxbxbxc"));
  EXPECT_FALSE(glob_matches("chat", "chat_violin"));
  EXPECT_FALSE(glob_matches("?", ""));
  EXPECT_FALSE(glob_matches("*a*b", "ba"));
}

}  // namespace
}  // namespace sluice
