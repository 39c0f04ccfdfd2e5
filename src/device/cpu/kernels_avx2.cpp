// All kernels (kernels/table.h), compiled for AVX2.
#include "device/cpu/isa/avx2.h"
#include "device/cpu/kernels/table.h"

namespace sluice::cpu {

constinit const Kernels kAvx2Kernels = make_kernels<Avx2<false>>();

}  // namespace sluice::cpu
