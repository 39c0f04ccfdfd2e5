#include "device/webgpu/dawn/connection.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/check.h"
#include "base/text.h"

namespace sluice::webgpu {
namespace {

constexpr size_t kLongestSentence = 400;

// Bytes of the GPU's largest heap; 0: unknown.
uint64_t memory_bytes(const dawn::Library& library, dawn::Adapter adapter) {
  if (library.adapter_has_feature(adapter, library.features.adapter_memory_heaps) == 0) return 0;
  dawn::MemoryHeaps heaps;
  dawn::AdapterInfo info{.next = &heaps.chain};
  if (library.adapter_info(adapter, &info) != dawn::kSuccess) return 0;
  uint64_t most = 0;
  for (size_t i = 0; i < heaps.count; ++i)
    if ((heaps.heaps[i].properties & dawn::kDeviceLocal) != 0) most = std::max(most, heaps.heaps[i].bytes);
  library.free_memory_heaps(heaps);
  return most;
}

// Whether subgroups multiply matrices of 16 by 16 f16 and sum in f32. Adapters without f16 do not say that they do.
bool has_matrices(const dawn::Library& library, dawn::Adapter adapter) {
  const std::optional<uint32_t> feature = library.features.subgroup_matrix;
  if (!feature || library.adapter_has_feature(adapter, *feature) == 0) return false;
  dawn::MatrixConfigs configs;
  dawn::AdapterInfo info{.next = &configs.chain};
  if (library.adapter_info(adapter, &info) != dawn::kSuccess) return false;
  bool found = false;
  for (size_t i = 0; i < configs.count; ++i) {
    const dawn::MatrixConfig& config = configs.configs[i];
    found = found || (config.component == dawn::kMatrixF16 && config.result == dawn::kMatrixF32 && config.m == 16 &&
                      config.n == 16 && config.k == 16);
  }
  library.free_matrix_configs(configs);
  return found;
}

Adapter describe(const dawn::Library& library, dawn::Adapter adapter, const dawn::Limits& limits) {
  dawn::AdapterInfo info;
  library.adapter_info(adapter, &info);
  const std::string name = dawn::text(info.device);
  return {
      .description = cat(name.empty() ? dawn::text(info.description) : name, ", Vulkan"),
      .driver = dawn::text(info.description),
      .is_software = info.type == dawn::kAdapterCpu,
      .is_gpu = info.type == dawn::kAdapterDiscrete || info.type == dawn::kAdapterIntegrated,
      .memory_bytes = memory_bytes(library, adapter),
      .shares_memory = info.type != dawn::kAdapterDiscrete,
      .buffer_bytes = limits.buffer_bytes,
      .binding_bytes = limits.storage_binding_bytes,
      .uniform_alignment = limits.uniform_alignment,
      .storage_alignment = limits.storage_alignment,
      .workgroup_bytes = limits.workgroup_bytes,
      .workgroup_threads = std::min(limits.workgroup_threads, limits.workgroup_x),
      .workgroups = limits.workgroups,
      .f16 = library.adapter_has_feature(adapter, library.features.shader_f16) != 0,
      .subgroups = library.adapter_has_feature(adapter, library.features.subgroups) != 0,
      .matrices = info.subgroup_least == 32 && info.subgroup_most == 32 && info.type != dawn::kAdapterCpu &&
                  has_matrices(library, adapter),
      .subgroup_least = info.subgroup_least,
      .subgroup_most = info.subgroup_most,
  };
}

// Limits that no adapter has come from a release with other layouts.
bool is_plausible(const dawn::Limits& limits, const Adapter& adapter) {
  const auto aligned = [](uint32_t n) { return n > 0 && n <= 256 && (n & (n - 1)) == 0; };
  return limits.bind_groups >= 4 && limits.bind_groups <= 64 && limits.storage_buffers >= kStorageBuffers &&
         aligned(adapter.uniform_alignment) && aligned(adapter.storage_alignment) &&
         adapter.binding_bytes >= (uint64_t{128} << 20) && adapter.buffer_bytes >= adapter.binding_bytes &&
         limits.workgroups >= 65535 && adapter.workgroup_bytes >= 16384 && adapter.workgroup_threads >= 256 &&
         adapter.workgroup_threads <= 4096 && adapter.subgroup_most <= 128;
}

Result<std::shared_ptr<Connection>> connect_with(std::shared_ptr<const dawn::Library> library, const std::string& path,
                                                 const std::string& application) {
  auto connection = std::make_shared<Connection>(std::move(library));
  if (!application.empty()) TRY_ASSIGN(connection->named, NamedInstance::open(application));
  const dawn::Library& api = *connection->library;
  const dawn::InstanceDescriptor descriptor;
  connection->instance = api.create_instance(&descriptor);
  if (connection->instance == nullptr)
    return error(ErrorKind::unsupported, "WebGPU library ", path, ": gives no instance");
  struct Asked : Flag {
    dawn::Adapter adapter = nullptr;
  } asked;
  // What Dawn guards: experimental features, of which we use subgroups' matrices, and f16 on NVIDIA's GPUs. There
  // Dawn's own tests of f16 fail in places. Our kernels multiply matrices of f16 and convert to it, nothing else, and
  // results are checked before a GPU is taken unasked.
  constexpr std::array kEnabled = {"allow_unsafe_apis", "vulkan_enable_f16_on_nvidia"};
  dawn::Toggles toggles{.enabled_count = kEnabled.size(), .enabled = kEnabled.data()};
  const dawn::AdapterOptions options{.next = api.features.subgroup_matrix ? &toggles.chain : nullptr};
  api.request_adapter(connection->instance, &options,
                      {.callback =
                           [](uint32_t status, dawn::Adapter adapter, dawn::StringView message, void* to, void*) {
                             static_cast<Asked*>(to)->adapter = adapter;
                             raise(*static_cast<Asked*>(to), status, message);
                           },
                       .first = &asked});
  connection->wait_until([&] { return asked.done; });
  connection->adapter = asked.adapter;
  if (asked.adapter == nullptr) return no_gpu(asked.message);
  api.adapter_limits(connection->adapter, &connection->limits);
  connection->limits.next = nullptr;
  connection->described = describe(api, connection->adapter, connection->limits);
  if (connection->named) connection->described.driver += cat(", by the name of ", application);
  if (!is_plausible(connection->limits, connection->described))
    return error(ErrorKind::unsupported, "WebGPU library ", path,
                 ": found limits that no adapter has: want that of npm's bun-webgpu-linux-x64 0.1.7");
  return connection;
}

}  // namespace

std::string sentence(dawn::StringView message) {
  std::string line;
  for (const char letter : dawn::text(message)) {
    const bool space = letter == '\n' || letter == '\t' || letter == ' ';
    if (!space)
      line += letter;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  if (line.size() > kLongestSentence) line = line.substr(0, kLongestSentence) + "...";
  while (!line.empty() && (line.back() == ' ' || line.back() == '.')) line.pop_back();
  return line;
}

void raise(Flag& flag, uint32_t status, dawn::StringView message) {
  flag.status = status;
  flag.message = sentence(message);
  flag.done = true;
}

Connection::~Connection() {
  if (adapter != nullptr) library->release_adapter(adapter);
  if (instance != nullptr) library->release_instance(instance);
}

Result<std::shared_ptr<Connection>> connect(const std::vector<std::string>& paths, const std::string& application) {
  CHECK(!paths.empty());
  std::optional<Error> first;
  for (const std::string& path : paths) {
    Result<std::shared_ptr<const dawn::Library>> library = dawn::Library::open(path);
    if (library) return connect_with(*library, path, application);
    if (library.error().kind != ErrorKind::not_found) return std::move(library).error();
    if (!first) first = library.error();
  }
  return *std::move(first);
}

}  // namespace sluice::webgpu
