// The parity suite on the WebGPU device.
#include "tests/device/parity.h"

#include "library.h"

namespace sluice {
namespace {

std::vector<ParityDevice> devices() {
  if (webgpu_test_device() == nullptr) return {};
  return {{"webgpu", shared_webgpu_device}};
}

INSTANTIATE_TEST_SUITE_P(WebGpu, Parity, testing::ValuesIn(parity_params(devices())), parity_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Parity);

}  // namespace
}  // namespace sluice
