// A name that Vulkan's driver knows this program by. Dawn's instance names its engine, but no application.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace sluice::webgpu {

// The sentence where Vulkan has no GPU for us.
Error no_gpu(const std::string& why);

// A Vulkan instance of that name (pApplicationName of VkApplicationInfo), which computes nothing. NVIDIA's driver has
// settings for programs by their names, and a process has those of every instance that is open. So this one is opened
// before Dawn's and closed after it.
class NamedInstance {
 public:
  // Fails with no_gpu() where there is no Vulkan, or no driver of it.
  static Result<std::unique_ptr<const NamedInstance>> open(const std::string& name);
  NamedInstance(const NamedInstance&) = delete;
  NamedInstance& operator=(const NamedInstance&) = delete;
  ~NamedInstance();

 private:
  NamedInstance() = default;
  void* instance_ = nullptr;
  void (*destroy_)(void*, const void*) = nullptr;
};

}  // namespace sluice::webgpu
