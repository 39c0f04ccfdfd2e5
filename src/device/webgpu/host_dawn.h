// The native host: Dawn's C interface in a library that is looked for and opened at run time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/webgpu/host.h"

namespace sluice::webgpu {

// One adapter; opens hosts on it, each with a GPU device of its own, so that a lost one is replaced by the next.
class HostFactory {
 public:
  virtual ~HostFactory() = default;
  virtual const Adapter& adapter() const = 0;
  virtual Result<std::unique_ptr<Host>> open() = 0;
};

// The first library of `paths` that can be opened must be the release that dawn.h declares.
Result<std::unique_ptr<HostFactory>> find_dawn(const std::vector<std::string>& paths);

}  // namespace sluice::webgpu
