// The CPU device: uses weights in place, on one thread pool, with kernels of the processor's widest instruction set.
//
//   exact   weights decoded to f32 as they are read; f32 activations, sums and caches
//   fast    the same for f32, f16 and bf16 weights; integer formats times activations in 8-bit blocks; f16 caches.
//           Under PlanRequest::round_to_bf16, on levels that have instructions for it, bf16 weights times activations
//           in bf16, and attention of rows without positions in bf16
//
// Both token classes run the same kernels in the same order, so their results are the same bits. A step is computed
// within Runner::start, or piece by piece within Runner::poll (StartOptions::in_pieces).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads.h"
#include "device/device.h"

namespace sluice {

// In ascending order. A level includes the features of the levels before it on the same kind of processor, but for
// AVX-VNNI, which processors with AVX-512 may lack.
enum class SimdLevel : uint8_t {
  scalar,
  avx2,         // AVX2, FMA, F16C
  avx_vnni,     // and VNNI for its registers
  avx512,       // AVX2 and AVX-512 F, BW, DQ, VL
  avx512_vnni,  // and VNNI
  avx512_bf16,  // and BF16
  amx,          // and AMX with 8-bit integers and bf16
  simd128,      // WebAssembly's
  neon,         // Arm's NEON with DotProd
  neon_i8mm,    // and I8MM
};
inline constexpr int kSimdLevels = 10;

const char* simd_name(SimdLevel level);  // as --simd takes it: "avx512vnni"
Result<SimdLevel> parse_simd_level(std::string_view name);
const std::vector<SimdLevel>& simd_levels();  // that this processor and its system support, ascending from scalar
bool simd_proven(SimdLevel level);            // tested on a real processor, not only under an emulator
SimdLevel default_simd_level();               // the widest proven level of this processor

struct CpuOptions {
  ThreadPool* pool = nullptr;                // belongs to the process, outlives the device
  SimdLevel limit = default_simd_level();    // one of simd_levels()
  uint64_t piece_flops = uint64_t{2} << 30;  // of a step that is played in pieces; a piece has at least one op
};

std::unique_ptr<Device> make_cpu_device(const CpuOptions& options);

}  // namespace sluice
