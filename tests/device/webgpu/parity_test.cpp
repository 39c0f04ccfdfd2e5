// The parity suite on the WebGPU device.
#include "tests/device/parity.h"

#include <algorithm>
#include <initializer_list>

#include "device/webgpu/dawn/host_dawn.h"
#include "device/webgpu/webgpu.h"
#include "emulated_matrices.h"
#include "library.h"

namespace sluice {
namespace {

// Weights that are not quantised meet activations of f32 (weight_format.h); integer_tiles.h: scales of 16 columns.
constexpr FastProducts kFast{.activations = Format::f32, .block = 16};
// Of GPUs with matrix units (matrix_tiles.h).
FastProducts fast_of_opened() {
  FastProducts fast = kFast;
  if (webgpu_test_has_matrices()) fast.activations = Format::f16;
  return fast;
}
// The tiles of a GPU with that much workgroup memory, also where the tests' GPU is a processor, whose tiles are
// smaller.
class AsGpu final : public webgpu::HostFactory {
 public:
  AsGpu(std::unique_ptr<webgpu::HostFactory> factory, uint32_t workgroup_bytes)
      : factory_(std::move(factory)), adapter_(factory_->adapter()) {
    adapter_.is_software = false;
    adapter_.workgroup_bytes = std::min(adapter_.workgroup_bytes, workgroup_bytes);
  }
  const webgpu::Adapter& adapter() const override { return adapter_; }
  Result<std::unique_ptr<webgpu::Host>> open() override { return factory_->open(); }

 private:
  std::unique_ptr<webgpu::HostFactory> factory_;
  webgpu::Adapter adapter_;
};

template <uint32_t workgroup_bytes>
std::unique_ptr<Device> device_as_gpu() {
  if (webgpu_test_device() == nullptr) return nullptr;
  Result<std::unique_ptr<webgpu::HostFactory>> factory = webgpu::find_dawn({webgpu_test_library()});
  CHECK(factory);
  return make_webgpu_device(std::make_unique<AsGpu>(*std::move(factory), workgroup_bytes));
}

// Tests run in a child process, and a GPU's driver that was opened before a fork fails behind it: so nothing is opened
// while tests are listed.
std::vector<ParityDevice> devices() {
  if (!webgpu_test_library_is_here()) return {};
  return {{"webgpu", shared_webgpu_device, kFast, fast_of_opened}};
}

INSTANTIATE_TEST_SUITE_P(WebGpu, Parity, testing::ValuesIn(parity_params(devices())), parity_name);
INSTANTIATE_TEST_SUITE_P(WebGpu, EightBitActivations, testing::ValuesIn(devices()), device_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EightBitActivations);

std::vector<ParityParam> params_of(const ParityDevice& device, std::initializer_list<const char*> subjects) {
  std::vector<ParityParam> params;
  if (!webgpu_test_library_is_here()) return params;
  for (const char* const subject : subjects) params.push_back({.device = device, .subject = subject});
  return params;
}
// No more workgroup memory than every WebGPU has.
std::vector<ParityParam> small_workgroups() {
  return params_of({"webgpu_16k", device_as_gpu<16384>, kFast, fast_of_opened}, {"experts", "delta_rule_backward"});
}
// Training's tiles of a GPU. `make test-webgpu` runs them: some five minutes on lavapipe, half of it results alone.
std::vector<ParityParam> large_workgroups() {
  return params_of({"webgpu_32k", device_as_gpu<32768>, kFast, fast_of_opened},
                   {"linear_transposed", "outer_sum", "expert_linear", "expert_linear_transposed", "expert_outer_sum",
                    "cross_entropy", "attention_backward", "delta_rule_backward"});
}
// Products of matrix units, by plain WGSL.
std::vector<ParityParam> matrices() {
  FastProducts fast = kFast;
  fast.activations = Format::f16;
  return params_of({"webgpu_matrices", webgpu_device_with_matrices, fast},
                   {"linear", "linear_transposed", "cross_entropy"});
}
INSTANTIATE_TEST_SUITE_P(Matrices, Parity, testing::ValuesIn(matrices()), parity_name);
INSTANTIATE_TEST_SUITE_P(SmallWorkgroups, Parity, testing::ValuesIn(small_workgroups()), parity_name);
INSTANTIATE_TEST_SUITE_P(LargeWorkgroups, Parity, testing::ValuesIn(large_workgroups()), parity_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Parity);

}  // namespace
}  // namespace sluice
