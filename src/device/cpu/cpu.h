// The CPU device: weights where they lie, one thread pool, kernels of the widest instruction set the processor has.
//
//   exact   weights decoded to f32 as they are read, f32 activations, sums and caches
//   fast    the same for f32, f16 and bf16 weights; q8_0 weights against activations in 8-bit blocks; f16 caches
//
// Both token classes run the same kernels in the same order, so their results are the same bits. A step is computed
// within Runner::start.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/threads.h"
#include "device/device.h"

namespace sluice {

// In ascending order; each needs what those before it on the same kind of processor need.
enum class SimdLevel : uint8_t {
  scalar,
  avx2,         // AVX2, FMA, F16C
  avx512,       // AVX-512 F, BW, DQ, VL
  avx512_vnni,  // and VNNI
  amx,          // and AMX with 8-bit integers
  simd128,      // WebAssembly's
};
inline constexpr int kSimdLevels = 6;

const char* simd_name(SimdLevel level);  // as --simd takes it: "avx512vnni"
Result<SimdLevel> parse_simd_level(std::string_view name);
SimdLevel widest_simd_level();  // that this processor and its system support

struct CpuOptions {
  ThreadPool* pool = nullptr;                                 // belongs to the process, outlives the device
  SimdLevel limit = static_cast<SimdLevel>(kSimdLevels - 1);  // none
};

std::unique_ptr<Device> make_cpu_device(const CpuOptions& options);

}  // namespace sluice
