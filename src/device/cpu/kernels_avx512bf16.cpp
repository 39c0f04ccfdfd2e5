// Products of bf16 weights, compiled for AVX-512 with BF16. All other kernels of that level are those of VNNI.
#include "device/cpu/isa/avx512.h"
#include "device/cpu/kernels/product_bf16.h"

namespace sluice::cpu {

using Bf16 = ProductBf16<Avx512<true, false, true>>;
constinit const Bf16Kernels kAvx512Bf16Kernels = {
    .row_bytes = Bf16::row_bytes, .round = Bf16::round, .product = Bf16::product};

}  // namespace sluice::cpu
