// All kernels (kernels/table.h), compiled for plain C++.
#include "device/cpu/isa/scalar.h"
#include "device/cpu/kernels/table.h"

namespace sluice::cpu {

constinit const Kernels kScalarKernels = make_kernels<Scalar>();

}  // namespace sluice::cpu
