// The SIMD levels: their names, their kernels, and the levels that this processor supports.
#pragma once

#include "device/cpu/cpu.h"
#include "device/cpu/kernels.h"

namespace sluice::cpu {

struct SimdInfo {
  SimdLevel level{};
  const char* name = "";   // of options and numerics ids: "avx512vnni"
  const char* title = "";  // for people: "AVX-512 VNNI"
  const Kernels* kernels = nullptr;
  const Bf16Kernels* bf16 = nullptr;  // null: bf16 weights meet f32 activations
  bool proven = false;                // the tests have run on such a processor
};

const SimdInfo& simd_info(SimdLevel level);
std::string processor_name();  // "AMD EPYC"
// Whether this processor reads weights faster if instructions prefetch them: one of Intel's, which stops its own
// prefetching at the end of a page, or of AMD's from Zen 5 on. Zen 4 then reads at a third of its speed
// (docs/experiments.md).
bool reads_ahead();
inline ProductKernel packed_product(const FormatKernels& format) {
  return reads_ahead() ? format.product_packed_ahead : format.product_packed;
}

}  // namespace sluice::cpu
