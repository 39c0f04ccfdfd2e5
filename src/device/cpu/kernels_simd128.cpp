// All kernels (kernels/table.h), compiled for WebAssembly's SIMD.
#include "device/cpu/isa/simd128.h"
#include "device/cpu/kernels/table.h"

namespace sluice::cpu {

constinit const Kernels kSimd128Kernels = make_kernels<Simd128>();

}  // namespace sluice::cpu
