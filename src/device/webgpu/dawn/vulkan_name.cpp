#include "device/webgpu/dawn/vulkan_name.h"

#include <dlfcn.h>

#include <cstdint>

#include "base/text.h"

namespace sluice::webgpu {
namespace {

// Of Vulkan 1.0's vulkan_core.h: the library is opened at run time, as Dawn is.
struct VulkanApplication {
  int32_t type = 0;  // VK_STRUCTURE_TYPE_APPLICATION_INFO
  const void* next = nullptr;
  const char* application = nullptr;
  uint32_t application_version = 0;
  const char* engine = nullptr;
  uint32_t engine_version = 0;
  uint32_t api_version = (1u << 22) | (1u << 12);  // 1.1, which Dawn wants
};
struct VulkanInstanceInfo {
  int32_t type = 1;  // VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO
  const void* next = nullptr;
  uint32_t flags = 0;
  const VulkanApplication* application = nullptr;
  uint32_t layer_count = 0;
  const char* const* layers = nullptr;
  uint32_t extension_count = 0;
  const char* const* extensions = nullptr;
};
static_assert(sizeof(VulkanApplication) == 48 && sizeof(VulkanInstanceInfo) == 64);

using CreateInstance = int32_t(const VulkanInstanceInfo*, const void*, void**);
using DestroyInstance = void(void*, const void*);

}  // namespace

Error no_gpu(const std::string& why) {
  return error(ErrorKind::unsupported, "webgpu: found no GPU that Vulkan drives (", why, "): want a Vulkan 1.1 driver");
}

// The loader stays loaded: Dawn uses it, too.
Result<std::unique_ptr<const NamedInstance>> NamedInstance::open(const std::string& name) {
  void* const loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  auto* const create =
      loader == nullptr ? nullptr : reinterpret_cast<CreateInstance*>(dlsym(loader, "vkCreateInstance"));
  auto* const destroy =
      loader == nullptr ? nullptr : reinterpret_cast<DestroyInstance*>(dlsym(loader, "vkDestroyInstance"));
  if (create == nullptr || destroy == nullptr) return no_gpu("there is no libvulkan.so.1");
  const VulkanApplication application{.application = name.c_str()};
  const VulkanInstanceInfo info{.application = &application};
  std::unique_ptr<NamedInstance> named(new NamedInstance);
  if (const int32_t status = create(&info, nullptr, &named->instance_); status != 0)
    return no_gpu(cat("it gives no instance: status ", status));
  named->destroy_ = destroy;
  return std::unique_ptr<const NamedInstance>(std::move(named));
}

NamedInstance::~NamedInstance() {
  if (destroy_ != nullptr) destroy_(instance_, nullptr);
}

}  // namespace sluice::webgpu
