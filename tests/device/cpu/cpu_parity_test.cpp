#include "device/cpu/cpu.h"
#include "tests/device/parity.h"

namespace sluice {
namespace {

// Two threads, so that work is shared out; tests/device/cpu/cpu_bits_test.cpp compares other numbers.
ThreadPool& pool() {
  static ThreadPool two(2);
  return two;
}

// cpu.h: weights that are not quantised meet activations of f32; kernels/quantise.h: blocks of 32.
constexpr FastProducts kFast{.activations = Format::f32, .block = 32};

std::vector<ParityDevice> levels() {
  std::vector<ParityDevice> devices;
  for (const SimdLevel level : simd_levels()) {
    devices.push_back(
        {cat("cpu_", simd_name(level)), [level] { return make_cpu_device({.pool = &pool(), .limit = level}); }, kFast});
  }
  return devices;
}

INSTANTIATE_TEST_SUITE_P(Cpu, Parity, testing::ValuesIn(parity_params(levels())), parity_name);
INSTANTIATE_TEST_SUITE_P(Cpu, EightBitActivations, testing::ValuesIn(levels()), device_name);

}  // namespace
}  // namespace sluice
