#include "model/rope.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

namespace sluice {
namespace {

uint32_t bits(float value) {
  uint32_t word = 0;
  std::memcpy(&word, &value, 4);
  return word;
}

// Bits of 1.0 / (base ** (torch.arange(0, d, 2).float() / d)) by PyTorch 2.11.0 on a processor with AVX-512.
constexpr uint32_t kBase1e4Width32[] = {0x3f800000, 0x3f0ff59a, 0x3ea1e89b, 0x3e361887, 0x3dcccccd, 0x3d6655c2,
                                        0x3d0186e3, 0x3c91ad39, 0x3c23d70a, 0x3bb8449c, 0x3b4f3e38, 0x3ae91528,
                                        0x3a83126f, 0x3a136a16, 0x39a5cb60, 0x393a7753};
constexpr uint32_t kBase1e6Width64[] = {
    0x3f800000, 0x3f263de0, 0x3ed7e89b, 0x3e8c3504, 0x3e361887, 0x3dec7fd6, 0x3d99940d, 0x3d47763f,
    0x3d0186e3, 0x3ca8398b, 0x3c5a7bf2, 0x3c0de12d, 0x3bb8449c, 0x3b6f520e, 0x3b1b690d, 0x3ac9d75c,
    0x3a83126f, 0x3a2a3b44, 0x39dd1725, 0x398f9272, 0x393a7753, 0x38f22ce2, 0x389d43a4, 0x384c3fbe,
    0x3804a2b2, 0x37ac431d, 0x375fba4f, 0x371148e3, 0x36bcb0c1, 0x36751070, 0x361f23e4, 0x35ceaf79};

TEST(Rope, FrequenciesAreTheBitsOfPyTorch) {
  const std::vector<float> narrow = inverse_frequencies(1e4f, 32);
  ASSERT_EQ(narrow.size(), std::size(kBase1e4Width32));
  for (size_t i = 0; i < narrow.size(); ++i) EXPECT_EQ(bits(narrow[i]), kBase1e4Width32[i]) << i;
  const std::vector<float> wide = inverse_frequencies(1e6f, 64);
  ASSERT_EQ(wide.size(), std::size(kBase1e6Width64));
  for (size_t i = 0; i < wide.size(); ++i) EXPECT_EQ(bits(wide[i]), kBase1e6Width64[i]) << i;
}

// The formula in f64: pairs 0 to 2 turn as they are, 6 and 7 forty times slower, those between in part.
TEST(Rope, YarnSlowsPairsThatTurnLessThanOnceInTheOriginalContext) {
  const std::vector<float> narrow = yarn_frequencies(1e4f, 16, {.factor = 40, .original_context = 4096});
  const float want[] = {1.0f,      0.31622776601683794f,  0.1f,    0.023914724805023366f,
                        0.005125f, 0.000849862121170252f, 2.5e-5f, 7.905694150420949e-6f};
  ASSERT_EQ(narrow.size(), std::size(want));
  for (size_t i = 0; i < narrow.size(); ++i) EXPECT_NEAR(narrow[i], want[i], 1e-6f * want[i]) << i;
  const std::vector<float> real = yarn_frequencies(1e4f, 64, {.factor = 40, .original_context = 4096});
  EXPECT_NEAR(real[10], 0.05623413251903491f, 1e-7f);
  EXPECT_NEAR(real[11], 0.03900692656714386f, 1e-7f);
  EXPECT_NEAR(real[22], 0.0001778279410038922f, 1e-9f);
  EXPECT_NEAR(real[23], 3.33380358040831e-5f, 1e-10f);
  EXPECT_EQ(yarn_frequencies(1e4f, 64, {}), inverse_frequencies(1e4f, 64));
}

// Published formula (arXiv:2309.00071 as transformers' type yarn has it), in Python's f64:
//   pair = lambda turns: dim * log(original / (turns * 2 * pi)) / (2 * log(base))
//   low, high = max(floor(pair(32)), 0), min(ceil(pair(1)), dim - 1)
//   own = base ** (-2 * i / dim); ramp = min(max((i - low) / (high - low), 0), 1)
//   own / factor * ramp + own * (1 - ramp)
TEST(Rope, YarnOfTheQuarterOfAHeadThatTurns) {  // Qwen3.5: 64 of 256 elements, four times 262,144 positions
  const std::vector<float> got = yarn_frequencies(1e7f, 64, {.factor = 4, .original_context = 262144});
  const std::pair<size_t, float> kWant[] = {
      {0, 1.0f},
      {10, 0.006493816315762113f},
      {14, 0.0008659643233600654f},
      {15, 0.0004742398226801046f},
      {16, 0.00025693505988868084f},
      {18, 7.217387404309113e-05f},
      {20, 1.8449222025000472e-05f},
      {21, 8.759770071179003e-06f},
      {22, 3.84981631514873e-06f},
      {31, 4.1370427498579534e-08f},
  };
  ASSERT_EQ(got.size(), 32u);
  for (const auto& [pair, want] : kWant) EXPECT_NEAR(got[pair], want, 1e-6f * want) << pair;
  EXPECT_NEAR(yarn_magnitude(4), 1.138629436111989, 1e-15);
  EXPECT_EQ(yarn_magnitude(1), 1);
}

TEST(Rope, YarnKeepsStillPairsStillAndDividesByFactors) {
  const std::vector<float> factors = {1.0f, 2.0f, kStillFactor, 1.0f};
  const Yarn yarn{.factor = 40, .original_context = 64};
  const std::vector<float> plain = yarn_frequencies(100.0f, 8, yarn), got = yarn_frequencies(100.0f, 8, yarn, factors);
  EXPECT_EQ(got[0], plain[0]);
  EXPECT_EQ(got[1], plain[1] / 2.0f);
  EXPECT_EQ(bits(got[2]), 0u);
  EXPECT_EQ(got[3], plain[3]);
  EXPECT_EQ(yarn_frequencies(100.0f, 8, {}, factors), inverse_frequencies(100.0f, 8, factors));
}

// The same program at width 512, base 1e6: entry 29 is one of the few where PyTorch's power is not the rounded one.
TEST(Rope, ElsewhereTheyAreWithinAUnitInTheLastPlace) {
  const std::vector<float> frequencies = inverse_frequencies(1e6f, 512);
  EXPECT_EQ(bits(frequencies[28]), 0x3e61f835u);
  EXPECT_NEAR(static_cast<double>(bits(frequencies[29])), static_cast<double>(0x3e561912u), 1.0);
  EXPECT_EQ(bits(frequencies[255]), 0x358da8f9u);
}

TEST(Rope, FactorsDivideAndStillPairsDoNotTurn) {
  const std::vector<float> factors = {1.0f, 2.0f, kStillFactor, 8.0f};
  const std::vector<float> plain = inverse_frequencies(100.0f, 8);
  const std::vector<float> scaled = inverse_frequencies(100.0f, 8, factors);
  EXPECT_EQ(scaled[0], plain[0]);
  EXPECT_EQ(scaled[1], plain[1] / 2.0f);
  EXPECT_EQ(bits(scaled[2]), 0u);
  EXPECT_EQ(scaled[3], plain[3] / 8.0f);
}

}  // namespace
}  // namespace sluice
