// The parity suite on the WebGPU device.
#include "tests/device/parity.h"

#include "device/webgpu/dawn/host_dawn.h"
#include "device/webgpu/webgpu.h"
#include "library.h"

namespace sluice {
namespace {

// Weights that are not quantised meet activations of f32 (weight_format.h); integer_tiles.h: scales of 16 columns.
constexpr FastProducts kFast{.activations = Format::f32, .block = 16};
// A GPU with no more workgroup memory than every WebGPU has, so that tiles of experts are the narrow ones.
class SmallWorkgroups final : public webgpu::HostFactory {
 public:
  explicit SmallWorkgroups(std::unique_ptr<webgpu::HostFactory> factory)
      : factory_(std::move(factory)), adapter_(factory_->adapter()) {
    adapter_.is_software = false;
    adapter_.workgroup_bytes = 16384;
  }
  const webgpu::Adapter& adapter() const override { return adapter_; }
  Result<std::unique_ptr<webgpu::Host>> open() override { return factory_->open(); }

 private:
  std::unique_ptr<webgpu::HostFactory> factory_;
  webgpu::Adapter adapter_;
};

std::unique_ptr<Device> device_of_small_workgroups() {
  if (webgpu_test_device() == nullptr) return nullptr;
  Result<std::unique_ptr<webgpu::HostFactory>> factory = webgpu::find_dawn({webgpu_test_library()});
  CHECK(factory);
  return make_webgpu_device(std::make_unique<SmallWorkgroups>(*std::move(factory)));
}

// Tests run in a child process, and a GPU's driver that was opened before a fork fails behind it: so nothing is opened
// while tests are listed.
std::vector<ParityDevice> devices() {
  if (!webgpu_test_library_is_here()) return {};
  return {{"webgpu", shared_webgpu_device, kFast}};
}

INSTANTIATE_TEST_SUITE_P(WebGpu, Parity, testing::ValuesIn(parity_params(devices())), parity_name);
INSTANTIATE_TEST_SUITE_P(WebGpu, EightBitActivations, testing::ValuesIn(devices()), device_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EightBitActivations);

std::vector<ParityParam> experts_of_small_workgroups() {
  if (!webgpu_test_library_is_here()) return {};
  return {{.device = {"webgpu_16k", device_of_small_workgroups, kFast}, .subject = "experts"}};
}
INSTANTIATE_TEST_SUITE_P(SmallWorkgroups, Parity, testing::ValuesIn(experts_of_small_workgroups()), parity_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Parity);

}  // namespace
}  // namespace sluice
