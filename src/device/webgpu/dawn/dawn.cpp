#include "device/webgpu/dawn/dawn.h"

#include <dlfcn.h>

#include <cstring>
#include <vector>

namespace sluice::webgpu::dawn {
namespace {

constexpr const char* kWanted = "want that of npm's bun-webgpu-linux-x64 0.1.7";

// Dawn has no function that returns its release. Instead we ask an instance for its limits, which needs no GPU. The
// releases that dawn.h declares answer 64, the most futures of one wait, each by a function and in a struct of its own.
// A release with another limit, another layout of that struct or another number of the status is refused here. A
// release that differs elsewhere gets through. connect() then refuses limits that no adapter has, and a GPU that the
// program itself chooses must first compute products correctly (app/open/self_check.h).
Status check_release(const Library& library, const std::string& path) {
  constexpr size_t kMostFuturesOfAWait = 64;
  InstanceCapabilities capabilities;
  InstanceLimits limits;
  const bool is_later = library.get_instance_limits != nullptr;
  const uint32_t status =
      is_later ? library.get_instance_limits(&limits) : library.get_instance_capabilities(&capabilities);
  const size_t most = is_later ? limits.timed_wait_most : capabilities.timed_wait_most;
  if (status == kSuccess && most == kMostFuturesOfAWait) return {};
  return error(ErrorKind::unsupported, "WebGPU library ", path, ": found another release of Dawn (status ", status,
               ", ", most, " waits): ", kWanted);
}

std::string last_error() {
  const char* what = dlerror();
  return what != nullptr ? what : "no reason given";
}

}  // namespace

std::string text(StringView view) {
  if (view.data == nullptr) return {};
  return {view.data, view.length == SIZE_MAX ? std::strlen(view.data) : view.length};
}

// The library stays loaded: unloading one with its own threads and drivers is not safe.
Result<std::shared_ptr<const Library>> Library::open(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return error(ErrorKind::not_found, "WebGPU library ", path, ": cannot be opened (", last_error(),
                 "): want Dawn's C interface");
  auto library = std::make_shared<Library>();
  const char* absent = nullptr;
  const auto get = [&]<class F>(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(handle, name));
    if (function == nullptr && absent == nullptr) absent = name;
  };
  if (dlsym(handle, "wgpuGetInstanceCapabilities") != nullptr) {
    get(library->get_instance_capabilities, "wgpuGetInstanceCapabilities");
  } else {
    library->features = kLaterFeatures;
    get(library->get_instance_limits, "wgpuGetInstanceLimits");
    get(library->free_matrix_configs, "wgpuAdapterPropertiesSubgroupMatrixConfigsFreeMembers");
  }
  get(library->create_instance, "wgpuCreateInstance");
  get(library->process_events, "wgpuInstanceProcessEvents");
  get(library->request_adapter, "wgpuInstanceRequestAdapter");
  get(library->adapter_limits, "wgpuAdapterGetLimits");
  get(library->adapter_info, "wgpuAdapterGetInfo");
  get(library->free_memory_heaps, "wgpuAdapterPropertiesMemoryHeapsFreeMembers");
  get(library->adapter_has_feature, "wgpuAdapterHasFeature");
  get(library->request_device, "wgpuAdapterRequestDevice");
  get(library->device_queue, "wgpuDeviceGetQueue");
  get(library->create_buffer, "wgpuDeviceCreateBuffer");
  get(library->create_shader_module, "wgpuDeviceCreateShaderModule");
  get(library->create_bind_group_layout, "wgpuDeviceCreateBindGroupLayout");
  get(library->create_pipeline_layout, "wgpuDeviceCreatePipelineLayout");
  get(library->create_pipeline, "wgpuDeviceCreateComputePipelineAsync");
  get(library->create_bind_group, "wgpuDeviceCreateBindGroup");
  get(library->create_encoder, "wgpuDeviceCreateCommandEncoder");
  get(library->destroy_device, "wgpuDeviceDestroy");
  get(library->begin_pass, "wgpuCommandEncoderBeginComputePass");
  get(library->set_pipeline, "wgpuComputePassEncoderSetPipeline");
  get(library->set_bind_group, "wgpuComputePassEncoderSetBindGroup");
  get(library->dispatch, "wgpuComputePassEncoderDispatchWorkgroups");
  get(library->end_pass, "wgpuComputePassEncoderEnd");
  get(library->copy, "wgpuCommandEncoderCopyBufferToBuffer");
  get(library->finish, "wgpuCommandEncoderFinish");
  get(library->submit, "wgpuQueueSubmit");
  get(library->write_buffer, "wgpuQueueWriteBuffer");
  get(library->work_done, "wgpuQueueOnSubmittedWorkDone");
  get(library->map, "wgpuBufferMapAsync");
  get(library->mapped_range, "wgpuBufferGetConstMappedRange");
  get(library->writable_range, "wgpuBufferGetMappedRange");
  get(library->unmap, "wgpuBufferUnmap");
  get(library->destroy_buffer, "wgpuBufferDestroy");
  get(library->release_instance, "wgpuInstanceRelease");
  get(library->release_adapter, "wgpuAdapterRelease");
  get(library->release_device, "wgpuDeviceRelease");
  get(library->release_queue, "wgpuQueueRelease");
  get(library->release_buffer, "wgpuBufferRelease");
  get(library->release_shader_module, "wgpuShaderModuleRelease");
  get(library->release_pipeline_layout, "wgpuPipelineLayoutRelease");
  get(library->release_pipeline, "wgpuComputePipelineRelease");
  get(library->release_bind_group_layout, "wgpuBindGroupLayoutRelease");
  get(library->release_bind_group, "wgpuBindGroupRelease");
  get(library->release_encoder, "wgpuCommandEncoderRelease");
  get(library->release_pass, "wgpuComputePassEncoderRelease");
  get(library->release_commands, "wgpuCommandBufferRelease");
  if (absent != nullptr)
    return error(ErrorKind::unsupported, "WebGPU library ", path, ": has no ", absent, ": ", kWanted);
  TRY_STATUS(check_release(*library, path));
  return std::shared_ptr<const Library>(std::move(library));
}

}  // namespace sluice::webgpu::dawn
