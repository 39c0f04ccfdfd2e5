// The native host: Dawn's C interface, in a library that is opened at run time. Its parts:
//   dawn.h         declarations of the interface, and opening the library
//   connection.h   instance and adapter
//   vulkan_name.h  the program's name for Vulkan's driver
//   gpu_device.h   the device of one host, and its failure
//   pipelines.h    pipelines and bindings
//   uploads.h      uploads to the GPU
//   commands.h     command streams as command buffers
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/webgpu/host.h"

namespace sluice::webgpu {

// The first library of `paths` that can be opened must be the release that dawn.h declares. not_found: none could be.
// `application`: what vulkan_name.h makes of it; "": nothing.
Result<std::unique_ptr<HostFactory>> find_dawn(const std::vector<std::string>& paths,
                                               const std::string& application = {});

}  // namespace sluice::webgpu
