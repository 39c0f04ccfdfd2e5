#include "engine/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "device/reference/interpreter.h"

namespace sluice {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::string problem(const SamplingSettings& settings) {
  const Status status = check_sampling(settings, 100);
  return status ? "" : status.error().text;
}

History history(std::vector<int32_t> tokens) {
  History out;
  for (const int32_t token : tokens) out.push_back({token, TokenClass::prompt});
  return out;
}

TEST(Sampling, RefusesSettingsOutOfRangeByName) {
  EXPECT_EQ(problem({}), "");
  EXPECT_EQ(problem({.temperature = -1}), "temperature is -1: want a number from 0 to 100");
  EXPECT_EQ(problem({.temperature = std::nanf("")}), "temperature is nan: want a number from 0 to 100");
  EXPECT_EQ(problem({.top_p = 1.5f}), "top-p is 1.5: want a number from 0 to 1");
  EXPECT_EQ(problem({.min_p = -0.5f}), "min-p is -0.5: want a number from 0 to 1");
  EXPECT_EQ(problem({.repeat_penalty = 0}), "repeat penalty is 0: want a number from 0.01 to 100");
  EXPECT_EQ(problem({.presence_penalty = kInfinity}), "presence penalty is inf: want a number from -100 to 100");
  EXPECT_EQ(problem({.frequency_penalty = -101}), "frequency penalty is -101: want a number from -100 to 100");
  EXPECT_EQ(problem({.repeat_penalty = 1.1f, .penalty_window = 5000}),
            "penalty window is 5000 tokens: want at most 1024");
  EXPECT_EQ(problem({.logit_bias = {{100, 1.0f}}}), "logit bias names token 100: want one from 0 to 99");
  EXPECT_EQ(problem({.logit_bias = {{7, kInfinity}}}), "logit bias of token 7 is inf: want a number or -inf");
  EXPECT_EQ(problem({.logit_bias = {{7, -kInfinity}}}), "");
  EXPECT_EQ(problem({.candidates = kCandidates}), "");
  EXPECT_EQ(problem({.candidates = kCandidates + 1}),
            cat("candidates is ", kCandidates + 1, ": want at most ", kCandidates));
}

TEST(Sampling, PenaltiesCountTheWindowExactly) {
  const SamplingSettings settings{
      .repeat_penalty = 1.5f, .presence_penalty = 0.25f, .frequency_penalty = 0.5f, .penalty_window = 5};
  const std::vector<Adjustment> made = sample_adjustments(settings, history({9, 9, 3, 8, 3, 1, 3}), {});
  ASSERT_EQ(made.size(), 3u);  // the window is 3 8 3 1 3
  EXPECT_EQ(made[0].token, 1);
  EXPECT_EQ(made[0].repeat, 1.5f);
  EXPECT_EQ(made[0].add, -0.75f);
  EXPECT_EQ(made[1].token, 3);
  EXPECT_EQ(made[1].add, -1.75f);
  EXPECT_EQ(made[2].token, 8);
  EXPECT_LE(made.size(), most_adjustments(settings, {}));
}

TEST(Sampling, BiasesAddToPenaltiesAndSuppressedTokensAreNeverSampled) {
  const SamplingSettings settings{.presence_penalty = 1.0f, .logit_bias = {{5, 2.0f}, {3, 4.0f}, {5, 3.0f}}};
  const std::vector<int32_t> suppressed{3, 50};
  const std::vector<Adjustment> made = sample_adjustments(settings, history({5}), suppressed);
  ASSERT_EQ(made.size(), 3u);
  EXPECT_EQ(made[0].token, 3);
  EXPECT_EQ(made[0].add, -kInfinity);
  EXPECT_EQ(made[1].token, 5);
  EXPECT_EQ(made[1].add, 2.0f) << "the last bias of token 5, less the penalty";
  EXPECT_EQ(made[1].repeat, 1.0f);
  EXPECT_EQ(made[2].token, 50);
  EXPECT_EQ(made[2].add, -kInfinity);
}

TEST(Sampling, WithoutSettingsNothingIsAdjusted) {
  EXPECT_TRUE(sample_adjustments({}, history({1, 2, 3}), {}).empty());
  EXPECT_EQ(most_adjustments({}, {}), 0u);
}

// 20,000 draws of four tokens with probabilities 1/2, 1/4, 1/8, 1/8: each share within five standard deviations.
TEST(Sampling, DrawsHaveTheDistributionOfTheLogits) {
  const std::vector<float> logits{std::log(4.0f), std::log(2.0f), 0.0f, 0.0f};
  const SampleRow row = sample_row({.temperature = 1.0f, .seed = 42}, 0);
  std::vector<int> counts(4);
  constexpr int kDraws = 20000;
  for (int position = 0; position < kDraws; ++position) {
    ++counts[static_cast<size_t>(
        reference::sample_row(std::span<const float>(logits), row, {}, {}, static_cast<uint32_t>(position)).token)];
  }
  const double want[] = {0.5, 0.25, 0.125, 0.125};
  for (size_t i = 0; i < 4; ++i) {
    const double deviation = std::sqrt(want[i] * (1 - want[i]) / kDraws);
    EXPECT_NEAR(counts[i] / double{kDraws}, want[i], 5 * deviation) << "token " << i;
  }
}

TEST(Sampling, ASeedHasAllItsBits) {
  const SampleRow row = sample_row({.seed = 0x0123456789abcdefull}, 7);
  EXPECT_EQ(row.seed_low, 0x89abcdefu);
  EXPECT_EQ(row.seed_high, 0x01234567u);
  EXPECT_EQ(row.choice, 7u);
}

}  // namespace
}  // namespace sluice
