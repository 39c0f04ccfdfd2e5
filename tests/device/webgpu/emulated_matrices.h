// Plays kernels for GPUs with matrix units by plain WGSL, so that the numbers of their products are held to the
// reference on any machine. A thread keeps what it needs of each matrix: a row of the left one, eight columns of the
// right one, and eight sums. Attention by matrix units uses other operations of subgroups, too, and is not played so.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"
#include "device/webgpu/host.h"

namespace sluice::webgpu {

// The adapter of `factory` with matrix units. Its hosts replace what they have of them in a kernel's text.
std::unique_ptr<HostFactory> with_emulated_matrices(std::unique_ptr<HostFactory> factory);

}  // namespace sluice::webgpu

namespace sluice {

// With the tests' library; null where there is none, or no GPU.
std::unique_ptr<Device> webgpu_device_with_matrices();

}  // namespace sluice
