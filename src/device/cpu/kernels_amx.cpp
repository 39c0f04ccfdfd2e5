// All kernels (kernels/table.h), compiled for AVX-512 with AMX.
#include "device/cpu/isa/avx512.h"
#include "device/cpu/kernels/attend_pairs.h"
#include "device/cpu/kernels/product_tiles_bf16.h"
#include "device/cpu/kernels/table.h"

namespace sluice::cpu {

constinit const Kernels kAmxKernels = make_kernels<Avx512<true, true>>();
constinit const Bf16Kernels kAmxBf16Kernels = {.row_bytes = ProductBf16<Avx512<true, true>>::row_bytes,
                                               .round = ProductBf16<Avx512<true, true>>::round,
                                               .product = ProductTilesBf16<Avx512<true, true>>::product,
                                               .lay_out = AttendPairs<Avx512<true, true>>::lay_out,
                                               .attend = AttendPairs<Avx512<true, true>>::attend};

}  // namespace sluice::cpu
