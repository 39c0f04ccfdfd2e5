#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>

namespace sluice {
namespace {

// Known answers of the authors' Random123 (kat_vectors, philox4x32 10).
TEST(Philox, GivesThePublishedAnswers) {
  constexpr PhiloxCounter kZero = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  static_assert(philox4x32({0, 0, 0, 0}, {0, 0}) == kZero);
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Python's decimal, 60 digits: -ln(-ln(1 - (bits + 1/2) / 2^32)).
TEST(Gumbel, IsFiniteAndRightAtTheEndsOfTheDraw) {
  EXPECT_FLOAT_EQ(gumbel_from_bits(0), 22.8738569584199875f);
  EXPECT_FLOAT_EQ(gumbel_from_bits(0xffffffff), -3.12999464088481590f);
  EXPECT_FLOAT_EQ(gumbel_from_bits(0x80000000), 0.366512920245760712f);
  EXPECT_FLOAT_EQ(gumbel_from_bits(0x00001234), 13.7338312178631854f);
}

// Mean: Euler's constant; variance: pi^2 / 6. Bars are five standard errors.
TEST(Gumbel, HasTheMomentsOfItsDistribution) {
  constexpr int kDraws = 100000;
  double sum = 0, squares = 0;
  for (int token = 0; token < kDraws; ++token) {
    const double g = gumbel(42, 0, 7, static_cast<uint32_t>(token));
    sum += g;
    squares += g * g;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 0.5772156649, 5 * 1.2825 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws - mean * mean, 1.6449340668, 5 * 3.45 / std::sqrt(kDraws));
}

TEST(Gumbel, DependsOnEveryPartOfItsKey) {
  std::set<float> seen;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32})
    for (const uint32_t choice : {0u, 1u})
      for (const uint32_t position : {0u, 1u})
        for (uint32_t token = 0; token < 5; ++token) seen.insert(gumbel(seed, choice, position, token));
  EXPECT_EQ(seen.size(), 3u * 2 * 2 * 5);
}

}  // namespace
}  // namespace sluice
