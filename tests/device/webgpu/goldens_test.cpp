// The goldens on the WebGPU device.
#include "library.h"
#include "tests/app/verify/device_goldens.h"

namespace sluice {
namespace {

const GoldenDevice kDevice{
    .words = [] { return std::vector<std::string>{"--device", "webgpu", "--webgpu-library", webgpu_test_library()}; },
    .absent =
        [] {
          return webgpu_test_device() == nullptr ? "webgpu: no library or no GPU here: tools/fetch_webgpu.sh" : "";
        }};

INSTANTIATE_TEST_SUITE_P(WebGpu, DeviceGoldens, testing::ValuesIn(golden_params(kDevice)), golden_name);

}  // namespace
}  // namespace sluice
