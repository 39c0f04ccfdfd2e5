// The compiler's own _Float16 is the oracle of f16; bf16 is checked against the definition in double arithmetic.
#include "format/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sluice {
namespace {

__extension__ using Native = _Float16;

float native_from_f16(uint16_t bits) { return static_cast<float>(std::bit_cast<Native>(bits)); }
uint16_t native_from_f32(float value) { return std::bit_cast<uint16_t>(static_cast<Native>(value)); }

TEST(Half, EveryF16DecodesAsTheCompilerSays) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float ours = f32_from_f16(static_cast<uint16_t>(bits));
    const float theirs = native_from_f16(static_cast<uint16_t>(bits));
    if (std::isnan(theirs))
      ASSERT_TRUE(std::isnan(ours)) << bits;
    else
      ASSERT_EQ(std::bit_cast<uint32_t>(ours), std::bit_cast<uint32_t>(theirs)) << bits;
  }
}

TEST(Half, EveryF16RoundTrips) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f32_from_f16(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(f16_from_f32(value), bits);
  }
}

// Every f16, the middles between neighbours, and the f32 numbers next to those: all ties and their neighbours.
TEST(Half, EncodesF16ToNearestEvenAtEveryTie) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const double low = f32_from_f16(static_cast<uint16_t>(bits));
    const double high = bits == 0x7bff ? 65536.0 : f32_from_f16(static_cast<uint16_t>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    for (const float value : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) {
      ASSERT_EQ(f16_from_f32(value), native_from_f32(value)) << value;
      ASSERT_EQ(f16_from_f32(-value), native_from_f32(-value)) << -value;
    }
  }
}

TEST(Half, EncodesF16AcrossTheWholeRangeOfF32) {
  uint32_t bits = 12345;
  for (int i = 0; i < 200000; ++i) {
    bits = bits * 1664525 + 1013904223;
    const auto value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    ASSERT_EQ(f16_from_f32(value), native_from_f32(value)) << value;
  }
}

TEST(Half, KeepsInfinitiesAndNaN) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(f16_from_f32(kInfinity), 0x7c00);
  EXPECT_EQ(f16_from_f32(-kInfinity), 0xfc00);
  EXPECT_EQ(bf16_from_f32(kInfinity), 0x7f80);
  EXPECT_EQ(bf16_from_f32(-kInfinity), 0xff80);
  // The payload of this NaN lies in bits that both formats drop.
  const auto nan = std::bit_cast<float>(0x7f800001u);
  EXPECT_TRUE(std::isnan(f32_from_f16(f16_from_f32(nan))));
  EXPECT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(nan))));
}

TEST(Half, EncodesBf16ToNearestEven) {
  EXPECT_EQ(bf16_from_f32(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie: even below
  EXPECT_EQ(bf16_from_f32(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // tie: even above
  EXPECT_EQ(bf16_from_f32(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(bf16_from_f32(std::bit_cast<float>(0x3f817fffu)), 0x3f81);
  EXPECT_EQ(bf16_from_f32(std::bit_cast<float>(0x7f7fffffu)), 0x7f80);  // beyond the largest bf16
  EXPECT_EQ(bf16_from_f32(std::bit_cast<float>(0x00008001u)), 0x0001);  // subnormal
}

TEST(Half, Bf16IsTheNearestOfItsNeighbours) {
  uint32_t bits = 99;
  for (int i = 0; i < 200000; ++i) {
    bits = bits * 1664525 + 1013904223;
    const auto value = std::bit_cast<float>(bits & 0xbfffffffu);  // away from the top, where the upper one is infinite
    const uint16_t rounded = bf16_from_f32(value);
    const double error = std::abs(double{f32_from_bf16(rounded)} - value);
    const auto below = static_cast<uint16_t>(bits >> 16 & 0xbfff);
    for (const uint16_t other : {below, static_cast<uint16_t>(below + 1)})
      ASSERT_LE(error, std::abs(double{f32_from_bf16(other)} - value)) << value;
  }
}

}  // namespace
}  // namespace sluice
