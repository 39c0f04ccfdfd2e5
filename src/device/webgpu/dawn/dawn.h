// Our own declarations of the parts of Dawn's C interface that we call. They fit two releases: that of npm's
// bun-webgpu-linux-x64 0.1.7, and that of August 2026 (1e975e28f9), which can be built from its source
// (docs/webgpu.md). Layouts and enumerations differ between releases of Dawn and from published headers. Library::open
// therefore refuses a library that lacks a function or answers unlike these releases (check_release() in dawn.cpp).
//
// Objects are counted references. Whoever makes one releases it once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"

namespace sluice::webgpu::dawn {

// Opaque objects.
struct InstanceImpl;
struct AdapterImpl;
struct DeviceImpl;
struct QueueImpl;
struct BufferImpl;
struct ShaderModuleImpl;
struct PipelineLayoutImpl;
struct PipelineImpl;
struct BindGroupLayoutImpl;
struct BindGroupImpl;
struct EncoderImpl;
struct PassImpl;
struct CommandsImpl;
using Instance = InstanceImpl*;
using Adapter = AdapterImpl*;
using Device = DeviceImpl*;
using Queue = QueueImpl*;
using Buffer = BufferImpl*;
using ShaderModule = ShaderModuleImpl*;
using PipelineLayout = PipelineLayoutImpl*;
using Pipeline = PipelineImpl*;
using BindGroupLayout = BindGroupLayoutImpl*;
using BindGroup = BindGroupImpl*;
using Encoder = EncoderImpl*;
using Pass = PassImpl*;
using Commands = CommandsImpl*;

using Bool = uint32_t;
struct StringView {
  const char* data = nullptr;
  size_t length = 0;  // SIZE_MAX: up to a zero
};
std::string text(StringView view);

struct Chained {
  Chained* next = nullptr;
  uint32_t type = 0;
};
inline constexpr uint32_t kShaderSourceWgsl = 2;
inline constexpr uint32_t kSuccess = 1;  // of every status
inline constexpr uint32_t kAllowProcessEvents = 2, kAllowSpontaneous = 3;
inline constexpr uint32_t kBackendVulkan = 6;
inline constexpr uint32_t kAdapterDiscrete = 1, kAdapterIntegrated = 2, kAdapterCpu = 3;
inline constexpr uint32_t kHighPerformance = 2;  // without a preference integrated adapters come first
inline constexpr uint32_t kFeatureLevelCore = 2;
inline constexpr uint64_t kMapRead = 0x1, kMapWrite = 0x2, kCopySource = 0x4, kCopyTarget = 0x8, kUniform = 0x40,
                          kStorage = 0x80;
inline constexpr uint64_t kMapModeRead = 1, kMapModeWrite = 2;
inline constexpr uint64_t kComputeStage = 4;
inline constexpr uint32_t kUniformBinding = 2, kStorageBinding = 3, kReadOnlyStorageBinding = 4;
inline constexpr uint32_t kLostByUs = 2;  // destroyed or released
inline constexpr uint32_t kErrorOutOfMemory = 3;

// Features, whose numbers differ between the releases. Matrices of subgroups are known in the later one alone.
struct Features {
  uint32_t shader_f16 = 10, subgroups = 17, adapter_memory_heaps = 0x50015;
  std::optional<uint32_t> subgroup_matrix{};
};
inline constexpr Features kLaterFeatures{
    .shader_f16 = 11, .subgroups = 18, .adapter_memory_heaps = 0x50014, .subgroup_matrix = 0x50034};

struct Future {
  uint64_t id = 0;
};
template <class F>
struct CallbackInfo {
  Chained* next = nullptr;
  uint32_t mode = kAllowProcessEvents;
  F callback = nullptr;
  void* first = nullptr;
  void* second = nullptr;
};
using AdapterCallback = void (*)(uint32_t status, Adapter, StringView, void*, void*);
using DeviceCallback = void (*)(uint32_t status, Device, StringView, void*, void*);
using PipelineCallback = void (*)(uint32_t status, Pipeline, StringView, void*, void*);
using MapCallback = void (*)(uint32_t status, StringView, void*, void*);
using DoneCallback = void (*)(uint32_t status, StringView, void*, void*);
using LostCallback = void (*)(const Device*, uint32_t reason, StringView, void*, void*);
using ErrorCallback = void (*)(const Device*, uint32_t type, StringView, void*, void*);

struct InstanceCapabilities {
  Chained* next = nullptr;
  Bool timed_wait_enable = 0;
  size_t timed_wait_most = 0;
};
struct InstanceLimits {  // of the later release
  Chained* next = nullptr;
  size_t timed_wait_most = 0;
};
// The later release has a count and two pointers in place of the capabilities. All are zero here.
struct InstanceDescriptor {
  Chained* next = nullptr;
  InstanceCapabilities capabilities{};
};
// Chained to AdapterOptions. Names that a release does not know are ignored.
inline constexpr uint32_t kToggles = 0x5000A;
struct Toggles {
  Chained chain{.next = nullptr, .type = kToggles};
  size_t enabled_count = 0;
  const char* const* enabled = nullptr;
  size_t disabled_count = 0;
  const char* const* disabled = nullptr;
};
struct AdapterOptions {
  Chained* next = nullptr;
  uint32_t feature_level = kFeatureLevelCore;
  uint32_t power_preference = kHighPerformance;
  Bool force_fallback = 0;
  uint32_t backend = kBackendVulkan;
  void* surface = nullptr;
};
struct Limits {
  Chained* next = nullptr;
  uint32_t textures[4] = {};  // 1D, 2D, 3D, layers
  uint32_t bind_groups = 0, bind_groups_and_vertex_buffers = 0, bindings_per_group = 0;
  uint32_t dynamic_uniform_buffers = 0, dynamic_storage_buffers = 0;
  uint32_t sampled_textures = 0, samplers = 0;
  uint32_t storage_buffers = 0, storage_textures = 0, uniform_buffers = 0;
  uint64_t uniform_binding_bytes = 0, storage_binding_bytes = 0;
  uint32_t uniform_alignment = 0, storage_alignment = 0;
  uint32_t vertex_buffers = 0;
  uint64_t buffer_bytes = 0;
  uint32_t vertex_attributes = 0, vertex_stride = 0, inter_stage_variables = 0;
  uint32_t color_attachments = 0, color_attachment_bytes = 0;
  uint32_t workgroup_bytes = 0, workgroup_threads = 0, workgroup_x = 0, workgroup_y = 0, workgroup_z = 0;
  uint32_t workgroups = 0;
  uint32_t immediate_bytes = 0;
  uint32_t vertex_storage_buffers = 0, vertex_storage_textures = 0;      // not in the later release
  uint32_t fragment_storage_buffers = 0, fragment_storage_textures = 0;  // not in the later release
};
struct AdapterInfo {
  Chained* next = nullptr;
  StringView vendor{}, architecture{}, device{}, description{};
  uint32_t backend = 0, type = 0, vendor_id = 0, device_id = 0;
  uint32_t subgroup_least = 0, subgroup_most = 0;
};
inline constexpr uint32_t kMemoryHeaps = 0x50013;
inline constexpr uint64_t kDeviceLocal = 0x1;
struct MemoryHeap {
  uint64_t properties = 0, bytes = 0;
};
// Chained to AdapterInfo on adapters with kAdapterMemoryHeaps; what it points to is given back by free_memory_heaps.
struct MemoryHeaps {
  Chained chain{.next = nullptr, .type = kMemoryHeaps};
  size_t count = 0;
  const MemoryHeap* heaps = nullptr;
};
inline constexpr uint32_t kMatrixConfigs = 0x5003B;
inline constexpr uint32_t kMatrixF32 = 1, kMatrixF16 = 2;
// Matrices that a subgroup multiplies: a left one of m rows and k columns by a right one of k rows and n columns.
struct MatrixConfig {
  uint32_t component = 0, result = 0, m = 0, n = 0, k = 0;
};
// Chained to AdapterInfo on adapters with the feature; what it points to is given back by free_matrix_configs.
struct MatrixConfigs {
  Chained chain{.next = nullptr, .type = kMatrixConfigs};
  size_t count = 0;
  const MatrixConfig* configs = nullptr;
};
struct Named {
  Chained* next = nullptr;
  StringView label{};
};
struct ErrorCallbackInfo {
  Chained* next = nullptr;
  ErrorCallback callback = nullptr;
  void* first = nullptr;
  void* second = nullptr;
};
struct DeviceDescriptor {
  Chained* next = nullptr;
  StringView label{};
  size_t feature_count = 0;
  const uint32_t* features = nullptr;
  const Limits* limits = nullptr;
  Named queue{};
  CallbackInfo<LostCallback> lost{};
  ErrorCallbackInfo error{};
};
struct BufferDescriptor {
  Chained* next = nullptr;
  StringView label{};
  uint64_t usage = 0, bytes = 0;
  Bool mapped = 0;
};
struct WgslSource {
  Chained chain{.next = nullptr, .type = kShaderSourceWgsl};
  StringView code{};
};
struct BufferBindingLayout {
  Chained* next = nullptr;
  uint32_t type = 0;
  Bool dynamic = 0;
  uint64_t least_bytes = 0;
};
struct BindGroupLayoutEntry {
  Chained* next = nullptr;
  uint32_t binding = 0;
  uint64_t visibility = kComputeStage;
  uint32_t array_size = 0;
  BufferBindingLayout buffer{};
  struct {
    Chained* next = nullptr;
    uint32_t type = 0;
  } sampler{};
  struct {
    Chained* next = nullptr;
    uint32_t sample_type = 0, dimension = 0;
    Bool multisampled = 0;
  } texture{};
  struct {
    Chained* next = nullptr;
    uint32_t access = 0, format = 0, dimension = 0;
  } storage_texture{};
};
struct BindGroupLayoutDescriptor {
  Chained* next = nullptr;
  StringView label{};
  size_t entry_count = 0;
  const BindGroupLayoutEntry* entries = nullptr;
};
struct PipelineLayoutDescriptor {
  Chained* next = nullptr;
  StringView label{};
  size_t layout_count = 0;
  const BindGroupLayout* layouts = nullptr;
  uint32_t immediate_bytes = 0;
};
struct PipelineDescriptor {
  Chained* next = nullptr;
  StringView label{};
  PipelineLayout layout = nullptr;
  struct {
    Chained* next = nullptr;
    ShaderModule module = nullptr;
    StringView entry{};
    size_t constant_count = 0;
    const void* constants = nullptr;
  } compute{};
};
struct BindGroupEntry {
  Chained* next = nullptr;
  uint32_t binding = 0;
  Buffer buffer = nullptr;
  uint64_t offset = 0, bytes = 0;
  void* sampler = nullptr;
  void* texture_view = nullptr;
};
struct BindGroupDescriptor {
  Chained* next = nullptr;
  StringView label{};
  BindGroupLayout layout = nullptr;
  size_t entry_count = 0;
  const BindGroupEntry* entries = nullptr;
};
static_assert(sizeof(Limits) == 168 && sizeof(BindGroupLayoutEntry) == 120 && sizeof(AdapterInfo) == 96 &&
              sizeof(MemoryHeaps) == 32);

// The functions of one opened library; it stays open while somebody holds it.
struct Library {
  // `path`: of the library, or its name alone where the system's search finds it.
  static Result<std::shared_ptr<const Library>> open(const std::string& path);

  Features features{};
  uint32_t (*get_instance_capabilities)(InstanceCapabilities*) = nullptr;  // of the first release
  uint32_t (*get_instance_limits)(InstanceLimits*) = nullptr;              // of the later one
  Instance (*create_instance)(const InstanceDescriptor*) = nullptr;
  void (*process_events)(Instance) = nullptr;
  Future (*request_adapter)(Instance, const AdapterOptions*, CallbackInfo<AdapterCallback>) = nullptr;
  uint32_t (*adapter_limits)(Adapter, Limits*) = nullptr;
  uint32_t (*adapter_info)(Adapter, AdapterInfo*) = nullptr;
  void (*free_memory_heaps)(MemoryHeaps) = nullptr;
  void (*free_matrix_configs)(MatrixConfigs) = nullptr;  // of the later release
  Bool (*adapter_has_feature)(Adapter, uint32_t) = nullptr;
  Future (*request_device)(Adapter, const DeviceDescriptor*, CallbackInfo<DeviceCallback>) = nullptr;
  Queue (*device_queue)(Device) = nullptr;
  Buffer (*create_buffer)(Device, const BufferDescriptor*) = nullptr;
  ShaderModule (*create_shader_module)(Device, const Named*) = nullptr;
  BindGroupLayout (*create_bind_group_layout)(Device, const BindGroupLayoutDescriptor*) = nullptr;
  PipelineLayout (*create_pipeline_layout)(Device, const PipelineLayoutDescriptor*) = nullptr;
  Future (*create_pipeline)(Device, const PipelineDescriptor*, CallbackInfo<PipelineCallback>) = nullptr;
  BindGroup (*create_bind_group)(Device, const BindGroupDescriptor*) = nullptr;
  Encoder (*create_encoder)(Device, const Named*) = nullptr;
  void (*destroy_device)(Device) = nullptr;
  Pass (*begin_pass)(Encoder, const void*) = nullptr;
  void (*set_pipeline)(Pass, Pipeline) = nullptr;
  void (*set_bind_group)(Pass, uint32_t, BindGroup, size_t, const uint32_t*) = nullptr;
  void (*dispatch)(Pass, uint32_t, uint32_t, uint32_t) = nullptr;
  void (*end_pass)(Pass) = nullptr;
  void (*copy)(Encoder, Buffer, uint64_t, Buffer, uint64_t, uint64_t) = nullptr;
  Commands (*finish)(Encoder, const Named*) = nullptr;
  void (*submit)(Queue, size_t, const Commands*) = nullptr;
  void (*write_buffer)(Queue, Buffer, uint64_t, const void*, size_t) = nullptr;
  Future (*work_done)(Queue, CallbackInfo<DoneCallback>) = nullptr;
  Future (*map)(Buffer, uint64_t, size_t, size_t, CallbackInfo<MapCallback>) = nullptr;
  const void* (*mapped_range)(Buffer, size_t, size_t) = nullptr;
  void* (*writable_range)(Buffer, size_t, size_t) = nullptr;
  void (*unmap)(Buffer) = nullptr;
  void (*destroy_buffer)(Buffer) = nullptr;

  void (*release_instance)(Instance) = nullptr;
  void (*release_adapter)(Adapter) = nullptr;
  void (*release_device)(Device) = nullptr;
  void (*release_queue)(Queue) = nullptr;
  void (*release_buffer)(Buffer) = nullptr;
  void (*release_shader_module)(ShaderModule) = nullptr;
  void (*release_pipeline_layout)(PipelineLayout) = nullptr;
  void (*release_pipeline)(Pipeline) = nullptr;
  void (*release_bind_group_layout)(BindGroupLayout) = nullptr;
  void (*release_bind_group)(BindGroup) = nullptr;
  void (*release_encoder)(Encoder) = nullptr;
  void (*release_pass)(Pass) = nullptr;
  void (*release_commands)(Commands) = nullptr;
};

}  // namespace sluice::webgpu::dawn
