// The parity suite on the WebGPU device.
#include "tests/device/parity.h"

#include "library.h"

namespace sluice {
namespace {

// Weights that are not quantised meet activations of f32 (weight_format.h); integer_tiles.h: scales of 16 columns.
constexpr FastProducts kFast{.activations = Format::f32, .block = 16};

std::vector<ParityDevice> devices() {
  if (webgpu_test_device() == nullptr) return {};
  return {{"webgpu", shared_webgpu_device, kFast}};
}

INSTANTIATE_TEST_SUITE_P(WebGpu, Parity, testing::ValuesIn(parity_params(devices())), parity_name);
INSTANTIATE_TEST_SUITE_P(WebGpu, EightBitActivations, testing::ValuesIn(devices()), device_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EightBitActivations);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Parity);

}  // namespace
}  // namespace sluice
