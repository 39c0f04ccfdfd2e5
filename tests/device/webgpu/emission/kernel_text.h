// What can be told of a kernel's WGSL without a compiler for it: whether all names in it are known, and what it asks of
// an adapter. No more of WGSL is understood than our kernels use; what is not understood is a fault.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/webgpu/host.h"

namespace sluice::webgpu {

// Each a sentence: a placeholder that stayed, a name that nothing declares, that is declared twice or
// that WGSL reserves, brackets that do
// not match, bindings that are not those said, a feature or a size that the adapter has not. Empty: none.
std::vector<std::string> faults_of(const PipelineText& text, const Adapter& adapter);

// Bytes of workgroup memory, as WebGPU counts them; none where the text does not say.
std::optional<uint64_t> workgroup_bytes_of(const std::string& wgsl);

}  // namespace sluice::webgpu
