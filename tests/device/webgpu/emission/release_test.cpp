// Which releases of Dawn are opened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/webgpu/dawn/dawn.h"
#include "device/webgpu/dawn/host_dawn.h"

namespace sluice::webgpu {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

TEST(Release, IsToldByTheFunctionThatSaysItsLimits) {
  const auto first = dawn::Library::open(STUB_first);
  ASSERT_TRUE(first) << first.error().text;
  EXPECT_EQ((*first)->features.shader_f16, 10u);
  EXPECT_FALSE((*first)->features.subgroup_matrix);
  const auto later = dawn::Library::open(STUB_later);
  ASSERT_TRUE(later) << later.error().text;
  EXPECT_EQ((*later)->features.shader_f16, 11u);
  EXPECT_TRUE((*later)->features.subgroup_matrix);
}

TEST(Release, OfOtherLimitsIsRefused) {
  const auto unknown = dawn::Library::open(STUB_unknown);
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().text, HasSubstr(": found another release of Dawn (status 1, 63 waits): want "));
}

TEST(Release, WithoutAnInstanceIsRefused) {
  const auto factory = find_dawn({STUB_later});
  ASSERT_FALSE(factory);
  EXPECT_THAT(factory.error().text, EndsWith(": gives no instance"));
}

}  // namespace
}  // namespace sluice::webgpu
