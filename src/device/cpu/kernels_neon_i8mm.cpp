// All kernels (kernels/table.h), compiled for NEON with I8MM.
#include "device/cpu/isa/neon.h"
#include "device/cpu/kernels/table.h"

namespace sluice::cpu {

constinit const Kernels kNeonI8mmKernels = make_kernels<Neon<true>>();

}  // namespace sluice::cpu
