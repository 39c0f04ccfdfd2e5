// Experts that come and go on the GPU: whatever the slots are, and in whatever order experts come, the bits are those
// of experts that are all at hand.
#include <gtest/gtest.h>

#include "graph/late_experts.h"
#include "library.h"
#include "tests/device/slot_cases.h"

namespace sluice {
namespace {

class WebGpuSlots : public testing::Test {
 protected:
  void SetUp() override {
    if (webgpu_test_device() == nullptr) GTEST_SKIP() << "webgpu: no library or no GPU here: tools/fetch_webgpu.sh";
  }
};

TEST_F(WebGpuSlots, GiveTheBitsOfExpertsAtHand) {
  for (const OpCase& one : cases_with_experts()) {
    expect_resident_bits(one, *webgpu_test_device(), Arithmetic::fast);
    expect_resident_bits(one, *webgpu_test_device(), Arithmetic::exact);
  }
}

TEST_F(WebGpuSlots, GiveThemBehindASharedExpert) {
  OpCase one = shared_expert_case();
  one.program = with_late_experts(std::move(one.program));
  expect_resident_bits(one, *webgpu_test_device(), Arithmetic::fast);
}

TEST_F(WebGpuSlots, AreFilledWhileAnOpIsLookedFor) {
  expect_resident_finding(shared_expert_case(), *webgpu_test_device());
}

}  // namespace
}  // namespace sluice
