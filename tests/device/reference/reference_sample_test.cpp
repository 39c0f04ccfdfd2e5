// sample on the reference device: each step of graph/ops/sample.h.
#include <cmath>
#include <limits>
#include <set>

#include "base/random.h"
#include "reference_run.h"

namespace sluice {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

SampleResult sampled(const std::vector<float>& logits, const SampleRow& row,
                     const std::vector<Adjustment>& adjustments = {}) {
  ReferenceRun run;
  run.integers("wanted", 1, Symbol::wanted);
  const auto vocabulary = static_cast<uint32_t>(logits.size());
  const Value x = run.recorder.input("logits", {.extent = {.symbol = Symbol::wanted}, .width = vocabulary});
  run.recorder.output(sample(x), "sample");
  run.begin(6);
  run.step->reset(TokenClass::decode, text_counts(6, 1), 1, static_cast<uint32_t>(adjustments.size()));
  run.step->positions()[5] = 41;
  run.set_integers(0, {5});
  run.set(1, logits);
  run.step->sample_rows()[0] = row;
  run.step->sample_rows()[0].candidates = kCandidates;
  run.step->sample_rows()[0].adjustments = static_cast<uint32_t>(adjustments.size());
  std::copy(adjustments.begin(), adjustments.end(), run.step->adjustments().begin());
  const std::vector<int32_t> words = run.output<int32_t>();
  SampleResult result;
  std::memcpy(static_cast<void*>(&result), words.data(), sizeof result);
  return result;
}

// The tokens that 200 seeds choose.
std::set<int32_t> reachable(const std::vector<float>& logits, SampleRow row,
                            const std::vector<Adjustment>& adjustments = {}) {
  std::set<int32_t> tokens;
  for (row.seed_low = 0; row.seed_low < 200; ++row.seed_low) tokens.insert(sampled(logits, row, adjustments).token);
  return tokens;
}

TEST(ReferenceSample, GreedyTakesTheFirstOfTheLargest) { EXPECT_EQ(sampled({1, 3, 2, 3}, {}).token, 1); }

TEST(ReferenceSample, TellsOfTheDistributionTheModelGave) {
  const SampleResult result = sampled({1, 2, 3, -1}, {}, {{.token = 2, .add = kNever}});
  EXPECT_EQ(result.finite, 1);
  EXPECT_EQ(result.token, 1);
  EXPECT_FLOAT_EQ(result.log_sum_exp, 3.4197166463153392f);
  EXPECT_FLOAT_EQ(result.log_prob, 2 - 3.4197166463153392f);
  const int32_t order[] = {2, 1, 0, 3, -1};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(result.candidates[i].token, order[i]);
  EXPECT_EQ(result.candidates[0].logit, 3.0f);
  EXPECT_EQ(result.candidates[3].logit, -1.0f);
}

TEST(ReferenceSample, ChoosesTheLargestSumOfLogitAndNoise) {
  const std::vector<float> logits = {0.1f, 0.7f, -0.3f, 0.2f, 0.5f};
  for (uint32_t seed = 0; seed < 20; ++seed) {
    int32_t best = 0;
    float best_value = kNever;
    for (int32_t token = 0; token < 5; ++token) {
      const float noise = gumbel(uint64_t{3} << 32 | seed, 2, 41, static_cast<uint32_t>(token));
      const float value = logits[static_cast<size_t>(token)] / 0.8f + noise;
      if (value > best_value) best = token, best_value = value;
    }
    const SampleRow row{.temperature = 0.8f, .seed_low = seed, .seed_high = 3, .choice = 2};
    EXPECT_EQ(sampled(logits, row).token, best) << seed;
  }
}

TEST(ReferenceSample, TokensComeAsOftenAsTheirProbabilitySays) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  int counts[3] = {};
  for (uint32_t seed = 0; seed < 2000; ++seed) ++counts[sampled(logits, {.temperature = 1.0f, .seed_low = seed}).token];
  EXPECT_NEAR(counts[0], 1000, 5 * std::sqrt(2000 * 0.25));  // five standard deviations
  EXPECT_NEAR(counts[1], 600, 5 * std::sqrt(2000 * 0.21));
  EXPECT_NEAR(counts[2], 400, 5 * std::sqrt(2000 * 0.16));
}

TEST(ReferenceSample, TopKKeepsTheFirstOfEqualOnes) {
  const SampleRow row{.temperature = 1.0f, .top_k = 2};
  EXPECT_EQ(reachable({1, 0.9f, 1, 1}, row), (std::set<int32_t>{0, 2}));
}

// Probabilities 0.5, 0.3, 0.2: the shortest prefix that reaches 0.6 has two tokens, one that reaches 0.5 has one.
TEST(ReferenceSample, TopPKeepsTheShortestPrefixThatReachesIt) {
  const std::vector<float> logits = {std::log(0.3f), std::log(0.5f), std::log(0.2f)};
  EXPECT_EQ(reachable(logits, {.temperature = 1.0f, .top_p = 0.6f}), (std::set<int32_t>{0, 1}));
  EXPECT_EQ(reachable(logits, {.temperature = 1.0f, .top_p = 0.49f}), (std::set<int32_t>{1}));
  EXPECT_EQ(reachable(logits, {.temperature = 1.0f, .top_p = 0.0f}), (std::set<int32_t>{1}));
  EXPECT_EQ(reachable(logits, {.temperature = 1.0f}), (std::set<int32_t>{0, 1, 2}));
}

// After top_k two tokens share all probability: 0.5 / 0.8 = 0.625.
TEST(ReferenceSample, TopPCountsTheProbabilityThatTopKLeaves) {
  const std::vector<float> logits = {std::log(0.3f), std::log(0.5f), std::log(0.2f)};
  EXPECT_EQ(reachable(logits, {.temperature = 1.0f, .top_k = 2, .top_p = 0.6f}), (std::set<int32_t>{1}));
}

TEST(ReferenceSample, MinPIsAShareOfTheBest) {
  const std::vector<float> logits = {std::log(0.3f), std::log(0.5f), std::log(0.2f)};
  EXPECT_EQ(reachable(logits, {.temperature = 1.0f, .min_p = 0.5f}), (std::set<int32_t>{0, 1}));
  EXPECT_EQ(reachable(logits, {.temperature = 1.0f, .min_p = 1.0f}), (std::set<int32_t>{1}));
}

TEST(ReferenceSample, AdjustmentsComeBeforeTheChoice) {
  EXPECT_EQ(sampled({2, 1.5f}, {}, {{.token = 0, .repeat = 1.5f}}).token, 1);    // 2 / 1.5
  EXPECT_EQ(sampled({-1, -1.2f}, {}, {{.token = 0, .repeat = 1.5f}}).token, 1);  // -1 * 1.5
  EXPECT_EQ(sampled({2, 1}, {}, {{.token = 1, .add = 1.5f}}).token, 1);
  EXPECT_EQ(reachable({2, 1, 0}, {.temperature = 1.0f}, {{.token = 0, .add = kNever}, {.token = 2, .add = kNever}}),
            (std::set<int32_t>{1}));
}

TEST(ReferenceSample, ALogitThatIsNotFiniteIsSaid) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -kNever, kNever})
    EXPECT_EQ(sampled({1, bad, 2}, {.temperature = 1.0f}).finite, 0);
}

}  // namespace
}  // namespace sluice
