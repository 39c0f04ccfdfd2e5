// A name that Vulkan's driver knows this program by. Dawn's instance names its engine, but no application.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace sluice::webgpu {

// The sentence where Vulkan has no GPU for us.
Error no_gpu(const std::string& why);

// A Vulkan instance of that name (pApplicationName of VkApplicationInfo), which computes nothing. NVIDIA's driver has
// settings for programs by their names. It takes those of any instance for the whole process, for as long as the
// instance lives, and for devices that are made later. So this one comes before Dawn's and outlives it.
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
