#include "device/webgpu/dawn/host_dawn.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "device/webgpu/dawn/commands.h"
#include "device/webgpu/dawn/connection.h"
#include "device/webgpu/dawn/copies.h"
#include "device/webgpu/dawn/gpu_device.h"
#include "device/webgpu/dawn/pipelines.h"
#include "device/webgpu/dawn/uploads.h"
#include "device/webgpu/webgpu.h"

namespace sluice::webgpu {
namespace {

class DawnHost final : public Host {
 public:
  explicit DawnHost(std::shared_ptr<Connection> connection) : gpu_(std::move(connection)) {}
  DawnHost(const DawnHost&) = delete;
  DawnHost& operator=(const DawnHost&) = delete;
  ~DawnHost() override;
  Status open() { return gpu_.open(); }

  const Adapter& adapter() const override { return gpu_.connection->described; }
  BufferId buffer(uint64_t bytes, BufferUse use) override;
  void drop_buffer(BufferId id) override;
  PipelineId pipeline(const PipelineText& text) override { return pipelines_.make(text); }
  BindingId bind(PipelineId pipeline, std::span<const BoundRange> storage, const BoundRange& dynamic,
                 const BoundRange& fixed) override;
  void drop_binding(BindingId id) override { pipelines_.drop_binding(id); }
  void upload(BufferId to, uint64_t offset, std::span<const std::byte> bytes) override {
    uploads_.add(buffers_[to], offset, bytes);
  }
  HostTicket submit(const CommandStream& commands, std::span<const HostRead> reads) override;
  void expect(const CommandStream& commands, std::span<const HostRead> reads) override;
  std::optional<Status> poll(HostTicket ticket) override;
  Status settle() override;
  const std::optional<Error>& failure() const override { return gpu_.failure; }
  uint32_t pipelines() const override { return pipelines_.count(); }

 private:
  struct Pending {
    Flag flag{};
    Staging staging{};
    std::vector<HostRead> reads{};
    uint64_t bytes = 0;  // of all reads
  };

  const dawn::Library& api() const { return gpu_.api(); }
  CommandObjects objects() const { return {.gpu = gpu_, .buffers = buffers_, .pipelines = pipelines_}; }
  Staging take_staging(uint64_t bytes);
  void forget_expected();
  void copy_out(Pending& pending);

  GpuDevice gpu_;
  Pipelines pipelines_{gpu_};
  Copies copies_;
  Uploads uploads_{gpu_, copies_};
  std::vector<dawn::Buffer> buffers_;
  std::map<HostTicket, std::unique_ptr<Pending>> pending_;
  std::vector<std::unique_ptr<Pending>> abandoned_;  // their tickets ended with the failure
  std::vector<Staging> free_staging_;
  std::optional<ExpectedCommands> expected_;
  HostTicket last_ticket_ = 0;
};

DawnHost::~DawnHost() {
  if (gpu_.device == nullptr) return;
  uploads_.send();
  forget_expected();
  for (auto& [ticket, pending] : pending_) abandoned_.push_back(std::move(pending));
  pipelines_.drop_bindings();
  for (const dawn::Buffer buffer : buffers_)
    if (buffer != nullptr) api().release_buffer(buffer);
  for (const Staging& staging : free_staging_) api().release_buffer(staging.buffer);
  api().destroy_device(gpu_.device);
  // Callbacks write to members that are destroyed below.
  gpu_.wait_until([&] {
    return gpu_.gone && pipelines_.under_way() == 0 && !uploads_.under_way() &&
           std::all_of(abandoned_.begin(), abandoned_.end(), [](const auto& one) { return one->flag.done; });
  });
  for (const auto& pending : abandoned_)
    if (pending->staging.buffer != nullptr) api().release_buffer(pending->staging.buffer);
}

BufferId DawnHost::buffer(uint64_t bytes, BufferUse use) {
  const uint64_t kind = use == BufferUse::uniform ? dawn::kUniform : dawn::kStorage;
  buffers_.push_back(gpu_.failure ? nullptr : gpu_.make_buffer(bytes, kind | dawn::kCopySource | dawn::kCopyTarget));
  return static_cast<BufferId>(buffers_.size() - 1);
}

void DawnHost::drop_buffer(BufferId id) {
  if (buffers_[id] == nullptr) return;
  forget_expected();
  uploads_.send();
  api().destroy_buffer(buffers_[id]);
  api().release_buffer(buffers_[id]);
  buffers_[id] = nullptr;
}

BindingId DawnHost::bind(PipelineId pipeline, std::span<const BoundRange> storage, const BoundRange& dynamic,
                         const BoundRange& fixed) {
  std::vector<Pipelines::BufferRange> ranges;
  ranges.reserve(storage.size() + 2);
  const auto add = [&](const BoundRange& range) {
    ranges.push_back({buffers_[range.buffer], range.offset, range.bytes});
  };
  for (const BoundRange& range : storage) add(range);
  add(dynamic);
  add(fixed);
  return pipelines_.bind(pipeline, ranges);
}

Status DawnHost::settle() {
  if (!gpu_.failure) {
    gpu_.wait_until([&] { return pipelines_.under_way() == 0 || gpu_.failure; });
    if (!gpu_.failure) {
      uploads_.send();
      gpu_.flush();
      uploads_.note_arrived();
    }
  }
  if (gpu_.failure) return *gpu_.failure;
  return {};
}

void DawnHost::forget_expected() {
  if (!expected_) return;
  for (const dawn::Commands one : expected_->commands) api().release_commands(one);
  if (expected_->staging.buffer != nullptr) free_staging_.push_back(expected_->staging);
  expected_.reset();
}

void DawnHost::expect(const CommandStream& commands, std::span<const HostRead> reads) {
  forget_expected();
  if (gpu_.failure) return;
  const std::span<const uint32_t> words = commands.words();
  expected_ = ExpectedCommands{.words = {words.begin(), words.end()}, .reads = {reads.begin(), reads.end()}};
  uint64_t bytes = 0;
  for (const HostRead& read : reads) bytes += read.into.size();
  if (bytes > 0) expected_->staging = take_staging(bytes);
  encode(objects(), words, reads, expected_->staging, [&](dawn::Commands finished) {
    if (finished != nullptr) expected_->commands.push_back(finished);
  });
}

Staging DawnHost::take_staging(uint64_t bytes) {
  const auto fits = std::find_if(free_staging_.begin(), free_staging_.end(),
                                 [&](const Staging& staging) { return staging.bytes >= bytes; });
  if (fits == free_staging_.end()) return {gpu_.make_buffer(bytes, dawn::kMapRead | dawn::kCopyTarget), bytes};
  const Staging found = *fits;
  free_staging_.erase(fits);
  return found;
}

HostTicket DawnHost::submit(const CommandStream& commands, std::span<const HostRead> reads) {
  const HostTicket ticket = ++last_ticket_;
  if (gpu_.failure) return ticket;
  uploads_.send();
  auto pending = std::make_unique<Pending>();
  for (const HostRead& read : reads) pending->bytes += read.into.size();
  if (pending->bytes > 0) pending->reads.assign(reads.begin(), reads.end());
  if (expected_ && expected_->is(commands, reads)) {
    pending->staging = std::exchange(expected_->staging, {});
    for (const dawn::Commands one : std::exchange(expected_->commands, {})) gpu_.submit(one);
  } else {
    if (pending->bytes > 0) pending->staging = take_staging(pending->bytes);
    encode(objects(), commands.words(), pending->reads, pending->staging,
           [&](dawn::Commands finished) { gpu_.submit(finished); });
  }
  forget_expected();
  if (pending->bytes > 0)
    api().map(pending->staging.buffer, dawn::kMapModeRead, 0, pending->bytes,
              {.callback = [](uint32_t status, dawn::StringView message, void* to,
                              void*) { raise(*static_cast<Flag*>(to), status, message); },
               .first = &pending->flag});
  else
    api().work_done(gpu_.queue, {.callback = [](uint32_t status, dawn::StringView message, void* to,
                                                void*) { raise(*static_cast<Flag*>(to), status, message); },
                                 .first = &pending->flag});
  pending_.emplace(ticket, std::move(pending));
  return ticket;
}

void DawnHost::copy_out(Pending& pending) {
  if (pending.staging.buffer == nullptr) return;
  const auto* from = static_cast<const std::byte*>(api().mapped_range(pending.staging.buffer, 0, pending.bytes));
  if (from == nullptr) return gpu_.fail(ErrorKind::io, "webgpu: results cannot be read back");
  std::vector<CopiedBytes> reads;
  reads.reserve(pending.reads.size());
  for (const HostRead& read : pending.reads) {
    reads.push_back({.from = from, .to = read.into.data(), .bytes = read.into.size()});
    from += read.into.size();
  }
  copies_.copy(reads);
  api().unmap(pending.staging.buffer);
  free_staging_.push_back(pending.staging);
  pending.staging = {};
}

std::optional<Status> DawnHost::poll(HostTicket ticket) {
  api().process_events(gpu_.connection->instance);
  const auto found = pending_.find(ticket);
  if (found != pending_.end() && !gpu_.failure) {
    Pending& pending = *found->second;
    if (!pending.flag.done) return std::nullopt;
    if (pending.flag.status != dawn::kSuccess)
      gpu_.fail(ErrorKind::io, cat("webgpu: a step did not end well (", pending.flag.message, ")"));
    else
      copy_out(pending);
    uploads_.note_arrived();  // uploads before the step
  }
  if (found != pending_.end()) {
    if (gpu_.failure) abandoned_.push_back(std::move(found->second));
    pending_.erase(found);
  }
  if (gpu_.failure) return Status(*gpu_.failure);
  return Status();
}

class DawnFactory final : public HostFactory {
 public:
  explicit DawnFactory(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  const Adapter& adapter() const override { return connection_->described; }
  Result<std::unique_ptr<Host>> open() override {
    auto host = std::make_unique<DawnHost>(connection_);
    TRY_STATUS(host->open());
    return std::unique_ptr<Host>(std::move(host));
  }

 private:
  std::shared_ptr<Connection> connection_;
};

}  // namespace

Result<std::unique_ptr<HostFactory>> find_dawn(const std::vector<std::string>& paths, const std::string& application) {
  TRY(std::shared_ptr<Connection> connection, connect(paths, application));
  return std::unique_ptr<HostFactory>(std::make_unique<DawnFactory>(std::move(connection)));
}

}  // namespace sluice::webgpu

namespace sluice {

Result<std::unique_ptr<WebGpuDevice>> make_webgpu_device(const WebGpuOptions& options) {
  TRY(std::unique_ptr<webgpu::HostFactory> factory, webgpu::find_dawn(options.libraries, options.vulkan_application));
  return make_webgpu_device(std::move(factory));
}

}  // namespace sluice
