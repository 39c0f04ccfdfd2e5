// Experts that come and go on the GPU: whatever the slots are, and in whatever order experts come, the bits are those
// of experts that are all at hand.
#include <gtest/gtest.h>

#include "device/webgpu/dawn/host_dawn.h"
#include "device/webgpu/formats/weight_format.h"
#include "device/webgpu/webgpu.h"
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

TEST_F(WebGpuSlots, GiveTheBitsOfResidentExperts) {
  for (const OpCase& one : cases_with_experts()) {
    expect_resident_bits(one, *webgpu_test_device(), Arithmetic::fast);
    expect_resident_bits(one, *webgpu_test_device(), Arithmetic::exact);
  }
}

TEST_F(WebGpuSlots, GiveTheSameBitsBehindASharedExpert) {
  OpCase one = shared_expert_case();
  one.program = with_late_experts(std::move(one.program));
  expect_resident_bits(one, *webgpu_test_device(), Arithmetic::fast);
}

// A GPU that binds less of a buffer at once than it can.
class SmallBindings final : public webgpu::HostFactory {
 public:
  SmallBindings(std::unique_ptr<webgpu::HostFactory> factory, uint64_t bytes)
      : factory_(std::move(factory)), adapter_(factory_->adapter()) {
    adapter_.binding_bytes = bytes;
  }
  const webgpu::Adapter& adapter() const override { return adapter_; }
  Result<std::unique_ptr<webgpu::Host>> open() override { return factory_->open(); }

 private:
  std::unique_ptr<webgpu::HostFactory> factory_;
  webgpu::Adapter adapter_;
};

TEST_F(WebGpuSlots, LieInSeveralBuffersIfBindingsAreSmall) {
  constexpr uint32_t kRows = 128, kColumns = 256;
  constexpr uint64_t kBindingBytes = 256 << 10;
  const webgpu::WeightFormat& format = *webgpu::weight_format(Format::q8_0);
  const uint64_t slot = 4 * (2 * kRows * format.row_words(kColumns) + kColumns * format.row_words(kRows));
  ASSERT_EQ(kBindingBytes / slot, 2u) << "two slots in a buffer";
  CaseBuilder c("large experts");
  const Value x = c.input(kColumns);
  const WeightShape inward{.experts = 6, .rows = kRows, .columns = kColumns};
  const WeightShape outward{.experts = 6, .rows = kColumns, .columns = kRows};
  const Weight gate = c.weight(inward, Format::q8_0), up = c.weight(inward, Format::q8_0);
  const Weight down = c.weight(outward, Format::q8_0);
  const Routed routed = route(linear(x, c.weight({.rows = 6, .columns = kColumns})), {.k = 3});
  c.output(experts(x, routed, gate, up, down, ActivationKind::silu));
  c.row_steps({1, 5});
  auto factory = webgpu::find_dawn({webgpu_test_library()});
  ASSERT_TRUE(factory) << factory.error().text;
  const auto device = make_webgpu_device(std::make_unique<SmallBindings>(*std::move(factory), kBindingBytes));
  expect_resident_bits(c.done(), *device, Arithmetic::fast);  // with up to seven slots
}

TEST_F(WebGpuSlots, AreFilledDuringTheSearchForNonFiniteResults) {
  expect_resident_finding(shared_expert_case(), *webgpu_test_device());
}

}  // namespace
}  // namespace sluice
