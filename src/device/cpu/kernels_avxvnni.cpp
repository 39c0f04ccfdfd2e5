// All kernels (kernels/table.h), compiled for AVX2 with AVX-VNNI.
#include "device/cpu/isa/avx2.h"
#include "device/cpu/kernels/table.h"

namespace sluice::cpu {

constinit const Kernels kAvxVnniKernels = make_kernels<Avx2<true>>();

}  // namespace sluice::cpu
