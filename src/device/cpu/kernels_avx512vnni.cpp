// All kernels (kernels/table.h), compiled for AVX-512 with VNNI.
#include "device/cpu/isa/avx512.h"
#include "device/cpu/kernels/table.h"

namespace sluice::cpu {

constinit const Kernels kAvx512VnniKernels = make_kernels<Avx512<true>>();

}  // namespace sluice::cpu
