// Adapters that kernels are emitted for: what any WebGPU has, and what GPUs have beyond it.
#pragma once

#include <string>
#include <vector>

#include "device/webgpu/host.h"

namespace sluice::webgpu {

// The limits that every adapter has (https://www.w3.org/TR/webgpu/#limits), and no feature.
inline Adapter default_adapter() {
  return {.description = "default limits",
          .driver = "none",
          .buffer_bytes = uint64_t{256} << 20,
          .binding_bytes = uint64_t{128} << 20,
          .uniform_alignment = 256,
          .storage_alignment = 256,
          .workgroup_bytes = 16384,
          .workgroup_threads = 256,
          .workgroups = 65535};
}

struct NamedAdapter {
  std::string name;  // letters, digits and _
  Adapter adapter;
};

inline std::vector<NamedAdapter> test_adapters() {
  Adapter f16 = default_adapter();
  f16.f16 = true;
  Adapter large = f16;  // of 32 lanes, with all that a desktop GPU has
  large.buffer_bytes = large.binding_bytes = (uint64_t{4} << 30) - 4;
  large.uniform_alignment = large.storage_alignment = 64;
  large.workgroup_bytes = 49152;
  large.workgroup_threads = 1024;
  large.subgroups = true;
  large.subgroup_least = large.subgroup_most = 32;
  Adapter matrices = large;
  matrices.matrices = true;
  Adapter wide = large;
  wide.subgroup_least = wide.subgroup_most = 64;
  wide.workgroup_bytes = 32768;
  Adapter varying = large;  // whose subgroups have several sizes
  varying.subgroup_least = 8;
  varying.f16 = false;
  Adapter software = large;  // as lavapipe says of itself
  software.is_software = true;
  software.subgroup_least = software.subgroup_most = 4;
  return {{"default", default_adapter()}, {"f16", f16},           {"subgroups_32", large},
          {"matrices", matrices},         {"subgroups_64", wide}, {"subgroups_vary", varying},
          {"software", software}};
}

}  // namespace sluice::webgpu
