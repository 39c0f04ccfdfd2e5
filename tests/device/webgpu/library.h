// Where tests find Dawn's C interface and a Vulkan driver: as SLUICE_WEBGPU_LIBRARY and the environment say, else what
// tools/fetch_webgpu.sh left in the build folder.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace sluice {

std::string webgpu_test_library();  // "": there is none, or no GPU that it knows
// Whether there is a library file: no driver is opened for the answer.
bool webgpu_test_library_is_here();
// One device for all tests, so that its pipelines are made once; null where there is none.
Device* webgpu_test_device();
// Whether fast arithmetic multiplies matrices of f16 there.
bool webgpu_test_has_matrices();
// Hands out the one device as if it were of the caller's own; null where there is none.
std::unique_ptr<Device> shared_webgpu_device();

}  // namespace sluice
