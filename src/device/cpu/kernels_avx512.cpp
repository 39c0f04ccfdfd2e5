// All kernels (kernels/table.h), compiled for AVX-512.
#include "device/cpu/isa/avx512.h"
#include "device/cpu/kernels/table.h"

namespace sluice::cpu {

constinit const Kernels kAvx512Kernels = make_kernels<Avx512<false>>();

}  // namespace sluice::cpu
