// Products of bf16 weights and attention of towers, compiled for AVX-512 with BF16. All other kernels of that level are
// those of VNNI.
#include "device/cpu/isa/avx512.h"
#include "device/cpu/kernels/attend_pairs.h"
#include "device/cpu/kernels/product_bf16.h"

namespace sluice::cpu {

using Isa = Avx512<true, false, true>;
constinit const Bf16Kernels kAvx512Bf16Kernels = {.row_bytes = ProductBf16<Isa>::row_bytes,
                                                  .round = ProductBf16<Isa>::round,
                                                  .product = ProductBf16<Isa>::product,
                                                  .lay_out = AttendPairs<Isa>::lay_out,
                                                  .attend = AttendPairs<Isa>::attend};

}  // namespace sluice::cpu
