#include "wasm/page_gpu.h"

#include <bit>

#include "base/json.h"

// What the page's module imports as "gpu". Sizes are bytes; `into` has room for so many, and the size of all that there
// is comes back.
#define SLUICE_GPU(name) __attribute__((import_module("gpu"), import_name(#name))) gpu_##name
extern "C" {
uint32_t SLUICE_GPU(adapter)(char* into, size_t room);  // JSON; 0: there is no GPU
uint32_t SLUICE_GPU(failure)(char* into, size_t room);  // JSON; 0: none
uint32_t SLUICE_GPU(buffer)(double bytes, uint32_t is_uniform);
void SLUICE_GPU(drop_buffer)(uint32_t id);
uint32_t SLUICE_GPU(pipeline)(const char* name, size_t name_bytes, const char* wgsl, size_t wgsl_bytes,
                              const uint8_t* access, size_t count);
uint32_t SLUICE_GPU(pipelines)();
uint32_t SLUICE_GPU(bind)(uint32_t pipeline, const void* ranges, size_t count);
void SLUICE_GPU(drop_binding)(uint32_t id);
void SLUICE_GPU(upload)(uint32_t to, double offset, const void* bytes, size_t size);
uint32_t SLUICE_GPU(submit)(const uint32_t* words, size_t count, const void* reads, size_t read_count);
uint32_t SLUICE_GPU(poll)(uint32_t ticket);
}
#undef SLUICE_GPU

namespace sluice::wasm {
namespace {

using webgpu::Access;
using webgpu::Adapter;
using webgpu::BindingId;
using webgpu::BoundRange;
using webgpu::BufferId;
using webgpu::BufferUse;
using webgpu::HostRead;
using webgpu::HostTicket;
using webgpu::PipelineId;

enum Poll : uint32_t { kUnderWay, kEnded, kFailed };

// As the page reads them.
struct RangeWords {
  uint32_t buffer, offset_low, offset_high, bytes_low, bytes_high;
};
struct ReadWords {
  uint32_t buffer, offset_low, offset_high, bytes, address;
};
uint32_t low(uint64_t number) { return static_cast<uint32_t>(number); }
uint32_t high(uint64_t number) { return static_cast<uint32_t>(number >> 32); }

template <class Get>
std::string text_of(Get&& get) {
  std::string text(get(nullptr, 0), '\0');
  if (!text.empty()) get(text.data(), text.size());
  return text;
}

Result<Adapter> read_adapter(const Json& json) {
  const auto number = [&](const char* name) -> double {
    const Json* member = json.find(name);
    return member != nullptr && member->is_number() ? member->as_number() : 0;
  };
  const auto small = [&](const char* name) { return static_cast<uint32_t>(number(name)); };
  const auto is = [&](const char* name) {
    const Json* member = json.find(name);
    return member != nullptr && member->is_bool() && member->as_bool();
  };
  const auto text = [&](const char* name) {
    const Json* member = json.find(name);
    return member != nullptr && member->is_string() ? member->as_string() : std::string();
  };
  Adapter adapter{.description = text("description"),
                  .driver = text("driver"),
                  .is_software = is("is_software"),
                  .buffer_bytes = static_cast<uint64_t>(number("buffer_bytes")),
                  .binding_bytes = static_cast<uint64_t>(number("binding_bytes")),
                  .uniform_alignment = small("uniform_alignment"),
                  .storage_alignment = small("storage_alignment"),
                  .workgroup_bytes = small("workgroup_bytes"),
                  .workgroup_threads = small("workgroup_threads"),
                  .workgroups = small("workgroups"),
                  .f16 = is("f16"),
                  .subgroups = is("subgroups"),
                  .subgroup_least = small("subgroup_least"),
                  .subgroup_most = small("subgroup_most")};
  if (adapter.buffer_bytes > 0 && adapter.binding_bytes > 0 && std::has_single_bit(adapter.uniform_alignment) &&
      adapter.workgroup_threads > 0 && adapter.workgroups > 0)
    return adapter;
  return error(ErrorKind::unsupported, "webgpu: found an adapter without limits: want the page's host to state them");
}

class PageHost final : public webgpu::Host {
 public:
  explicit PageHost(Adapter adapter) : adapter_(std::move(adapter)) {}
  const Adapter& adapter() const override { return adapter_; }

  BufferId buffer(uint64_t bytes, BufferUse use) override {
    return gpu_buffer(static_cast<double>(bytes), use == BufferUse::uniform ? 1 : 0);
  }
  void drop_buffer(BufferId id) override { gpu_drop_buffer(id); }
  PipelineId pipeline(const webgpu::PipelineText& text) override {
    CHECK(text.storage.size() <= webgpu::kStorageBuffers);
    std::vector<uint8_t> writes;
    for (const Access access : text.storage) writes.push_back(access == Access::read_write ? 1 : 0);
    return gpu_pipeline(text.name.data(), text.name.size(), text.wgsl.data(), text.wgsl.size(), writes.data(),
                        writes.size());
  }
  BindingId bind(PipelineId pipeline, std::span<const BoundRange> storage, const BoundRange& dynamic,
                 const BoundRange& fixed) override;
  void drop_binding(BindingId id) override { gpu_drop_binding(id); }
  void upload(BufferId to, uint64_t offset, std::span<const std::byte> bytes) override {
    CHECK(offset % 4 == 0 && bytes.size() % 4 == 0);
    gpu_upload(to, static_cast<double>(offset), bytes.data(), bytes.size());
  }
  HostTicket submit(const webgpu::CommandStream& commands, std::span<const HostRead> reads) override;
  std::optional<Status> poll(HostTicket ticket) override;
  bool waits() const override { return false; }
  Status settle() override {
    if (failure()) return *failure_;
    return {};
  }

  const std::optional<Error>& failure() const override;
  uint32_t pipelines() const override { return gpu_pipelines(); }

 private:
  Adapter adapter_;
  mutable std::optional<Error> failure_;  // what the page has noticed
};

BindingId PageHost::bind(PipelineId pipeline, std::span<const BoundRange> storage, const BoundRange& dynamic,
                         const BoundRange& fixed) {
  std::vector<RangeWords> ranges;
  const auto add = [&](const BoundRange& range) {
    ranges.push_back({range.buffer, low(range.offset), high(range.offset), low(range.bytes), high(range.bytes)});
  };
  for (const BoundRange& range : storage) add(range);
  add(dynamic);
  add(fixed);
  return gpu_bind(pipeline, ranges.data(), ranges.size());
}

HostTicket PageHost::submit(const webgpu::CommandStream& commands, std::span<const HostRead> reads) {
  std::vector<ReadWords> wanted;
  for (const HostRead& read : reads) {
    if (read.into.empty()) continue;
    wanted.push_back({read.buffer, low(read.offset), high(read.offset), static_cast<uint32_t>(read.into.size()),
                      static_cast<uint32_t>(reinterpret_cast<uintptr_t>(read.into.data()))});
  }
  return gpu_submit(commands.words().data(), commands.words().size(), wanted.data(), wanted.size());
}

std::optional<Status> PageHost::poll(HostTicket ticket) {
  switch (gpu_poll(static_cast<uint32_t>(ticket))) {
    case kUnderWay: return std::nullopt;
    case kEnded: return Status();
    default: break;
  }
  if (!failure()) failure_ = error(ErrorKind::io, "webgpu: the GPU device was lost");
  return Status(*failure_);
}

const std::optional<Error>& PageHost::failure() const {
  if (failure_) return failure_;
  const std::string text = text_of(gpu_failure);
  if (text.empty()) return failure_;
  const Result<Json> json = parse_json(text, "webgpu");
  const Json* sentence = json ? json->find("text") : nullptr;
  const Json* kind = json ? json->find("kind") : nullptr;
  const bool memory = kind != nullptr && kind->is_string() && kind->as_string() == "out_of_memory";
  failure_ = error(memory ? ErrorKind::out_of_memory : ErrorKind::io,
                   sentence != nullptr && sentence->is_string() ? sentence->as_string() : "webgpu: failed");
  return failure_;
}

class PageHostFactory final : public webgpu::HostFactory {
 public:
  explicit PageHostFactory(Adapter adapter) : adapter_(std::move(adapter)) {}
  const Adapter& adapter() const override { return adapter_; }
  Result<std::unique_ptr<webgpu::Host>> open() override {
    auto host = std::make_unique<PageHost>(adapter_);
    if (host->failure()) return *host->failure();
    return std::unique_ptr<webgpu::Host>(std::move(host));
  }

 private:
  Adapter adapter_;
};

}  // namespace

Result<std::unique_ptr<webgpu::HostFactory>> page_gpu() {
  const std::string text = text_of(gpu_adapter);
  if (text.empty()) return std::unique_ptr<webgpu::HostFactory>();
  TRY(const Json json, parse_json(text, "webgpu: adapter"));
  TRY(Adapter adapter, read_adapter(json));
  return std::unique_ptr<webgpu::HostFactory>(std::make_unique<PageHostFactory>(std::move(adapter)));
}

}  // namespace sluice::wasm
