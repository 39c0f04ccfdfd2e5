// Matrix units and subgroups where there are none: kernels for GPUs that have them, played by plain WGSL. So their
// numbers are held to the reference on any machine. A thread keeps what it needs of each matrix: a row of the left one,
// eight columns of the right one, and eight sums.
#pragma once

#include <memory>
#include <string>

#include "device/webgpu/host.h"

namespace sluice::webgpu {

// The text of a kernel that uses matrices of subgroups of 32 threads, without them.
std::string without_matrices(const std::string& wgsl);

// The same adapter with matrix units, whose hosts play their kernels so.
std::unique_ptr<HostFactory> with_emulated_matrices(std::unique_ptr<HostFactory> factory);

}  // namespace sluice::webgpu
