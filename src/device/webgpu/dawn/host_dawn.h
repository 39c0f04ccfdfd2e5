// The native host: Dawn's C interface in a library that is looked for and opened at run time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/webgpu/host.h"

namespace sluice::webgpu {

// The first library of `paths` that can be opened must be the release that dawn.h declares. not_found: none could be.
Result<std::unique_ptr<HostFactory>> find_dawn(const std::vector<std::string>& paths);

}  // namespace sluice::webgpu
