#include "device/cpu/cpu.h"
#include "device/cpu/simd_level.h"
#include "tests/device/changed_requests.h"
#include "tests/device/parity.h"

namespace sluice {
namespace {

// Two threads, so that work is shared out; tests/device/cpu/cpu_bits_test.cpp compares other numbers.
ThreadPool& pool() {
  static ThreadPool two(2);
  return two;
}

// cpu.h: bf16 weights meet activations in bf16 where a level can and the request allows it, else those of f32;
// kernels/quantise.h: blocks of 32.
FastProducts fast_of(SimdLevel level) {
  const bool rounds = cpu::simd_info(level).bf16 != nullptr;
  return {.activations = rounds ? Format::bf16 : Format::f32, .block = 32};
}

std::vector<ParityDevice> levels() {
  std::vector<ParityDevice> devices;
  for (const SimdLevel level : simd_levels()) {
    const auto make = [level] {
      return std::make_unique<ChangedRequests>(make_cpu_device({.pool = &pool(), .limit = level}),
                                               [](PlanRequest& request) { request.round_to_bf16 = true; });
    };
    devices.push_back({cat("cpu_", simd_name(level)), make, fast_of(level)});
  }
  return devices;
}

INSTANTIATE_TEST_SUITE_P(Cpu, Parity, testing::ValuesIn(parity_params(levels())), parity_name);
INSTANTIATE_TEST_SUITE_P(Cpu, EightBitActivations, testing::ValuesIn(levels()), device_name);

}  // namespace
}  // namespace sluice
