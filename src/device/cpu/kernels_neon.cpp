// All kernels (kernels/table.h), compiled for NEON.
#include "device/cpu/isa/neon.h"
#include "device/cpu/kernels/table.h"

namespace sluice::cpu {

constinit const Kernels kNeonKernels = make_kernels<Neon<false>>();

}  // namespace sluice::cpu
