#include "base/checked.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

constexpr uint64_t kMax = UINT64_MAX;

TEST(CheckedSize, AddsAndMultiplies) {
  EXPECT_EQ((CheckedSize(3) * 4 + 5).value(), 17u);
  EXPECT_EQ((CheckedSize(kMax) * 1 + 0).value(), kMax);
  EXPECT_EQ((CheckedSize(0) * kMax).value(), 0u);
  EXPECT_EQ((CheckedSize(uint64_t{1} << 32) * ((uint64_t{1} << 32) - 1)).value(), kMax - (uint64_t{1} << 32) + 1);
}

TEST(CheckedSize, OverflowSticks) {
  const CheckedSize sum = CheckedSize(kMax) + 1;  // wraps to 0
  EXPECT_EQ(sum.value(), std::nullopt);
  EXPECT_EQ((sum * 0).value(), std::nullopt);
  EXPECT_EQ((CheckedSize(5) + sum).value(), std::nullopt);
  EXPECT_EQ(sum.aligned(32).value(), std::nullopt);
  EXPECT_FALSE(sum.fits(kMax));
  const CheckedSize product = CheckedSize(uint64_t{1} << 32) * (uint64_t{1} << 32);  // wraps to 0
  EXPECT_EQ(product.value(), std::nullopt);
}

TEST(CheckedSize, AlignsUpwards) {
  EXPECT_EQ(CheckedSize(0).aligned(32).value(), 0u);
  EXPECT_EQ(CheckedSize(1).aligned(32).value(), 32u);
  EXPECT_EQ(CheckedSize(32).aligned(32).value(), 32u);
  EXPECT_EQ(CheckedSize(kMax - 15).aligned(32).value(), std::nullopt);
}

TEST(CheckedSize, FitsUpToAndWithTheLimit) {
  EXPECT_TRUE(CheckedSize(10).fits(10));
  EXPECT_FALSE(CheckedSize(11).fits(10));
}

}  // namespace
}  // namespace sluice
