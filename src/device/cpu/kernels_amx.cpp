// All kernels (kernels/table.h), compiled for AVX-512 with AMX.
#include "device/cpu/isa/avx512.h"
#include "device/cpu/kernels/table.h"

namespace sluice::cpu {

constinit const Kernels kAmxKernels = make_kernels<Avx512<true, true>>();

}  // namespace sluice::cpu
