#include "device/webgpu/dawn/host_dawn.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "device/webgpu/dawn/dawn.h"
#include "device/webgpu/webgpu.h"

namespace sluice::webgpu {
namespace {

using dawn::StringView;

// Uploads are copied to memory that the GPU reads: no more than so many bytes wait there. Large ones to buffers that
// are kept for them: what Dawn takes for each itself is filled at 3 GB/s on an H200, kept ones at 18.
constexpr uint64_t kUploadsInFlight = uint64_t{32} << 20;
constexpr uint64_t kRelayBytes = uint64_t{4} << 20, kLeastRelayed = uint64_t{64} << 10;
constexpr size_t kMostRelays = 8;
// Of a command buffer, where there are more: of the first, which the GPU waits for, and of each other.
constexpr uint32_t kFirstDispatches = 8, kMostDispatches = 48;
constexpr PipelineId kNoPipeline = ~PipelineId{0};
constexpr auto kPatience = std::chrono::seconds(120);
constexpr size_t kLongestSentence = 400;

StringView view(const std::string& text) { return {text.data(), text.size()}; }
StringView view(const char* text) { return {text, std::strlen(text)}; }

// Dawn's messages have several lines, with the text of the kernel in them.
std::string sentence(StringView message) {
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

// Lets callbacks run until `holds`, or patience ends.
template <class Condition>
bool wait_until(const dawn::Library& library, dawn::Instance instance, Condition&& holds) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    library.process_events(instance);
    if (holds()) return true;
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// What callbacks write.
struct Flag {
  bool done = false;
  uint32_t status = 0;
  std::string message{};
};
void raise(Flag& flag, uint32_t status, StringView message) {
  flag.status = status;
  flag.message = sentence(message);
  flag.done = true;
}

// The instance and adapter that hosts share.
struct Connection {
  explicit Connection(std::shared_ptr<const dawn::Library> opened) : library(std::move(opened)) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    if (adapter != nullptr) library->release_adapter(adapter);
    if (instance != nullptr) library->release_instance(instance);
  }
  std::shared_ptr<const dawn::Library> library;
  dawn::Instance instance = nullptr;
  dawn::Adapter adapter = nullptr;
  dawn::Limits limits{};
  Adapter described{};
};

class DawnHost final : public Host {
 public:
  explicit DawnHost(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  DawnHost(const DawnHost&) = delete;
  DawnHost& operator=(const DawnHost&) = delete;
  ~DawnHost() override;
  Status open();

  const Adapter& adapter() const override { return connection_->described; }
  BufferId buffer(uint64_t bytes, BufferUse use) override;
  void drop_buffer(BufferId id) override;
  PipelineId pipeline(const PipelineText& text) override;
  BindingId bind(PipelineId pipeline, std::span<const BoundRange> storage, const BoundRange& dynamic,
                 const BoundRange& fixed) override;
  void drop_binding(BindingId id) override;
  void upload(BufferId to, uint64_t offset, std::span<const std::byte> bytes) override;
  HostTicket submit(const CommandStream& commands, std::span<const HostRead> reads) override;
  void expect(const CommandStream& commands, std::span<const HostRead> reads) override;
  std::optional<Status> poll(HostTicket ticket) override;
  Status settle() override;
  const std::optional<Error>& failure() const override { return failure_; }
  uint32_t pipelines() const override { return static_cast<uint32_t>(pipelines_.size()); }

 private:
  struct OwnPipeline {
    DawnHost* host = nullptr;
    std::string name{};
    dawn::Pipeline pipeline = nullptr;
    dawn::BindGroupLayout layout = nullptr;  // owned by layouts_
  };
  struct OwnLayout {
    dawn::BindGroupLayout group = nullptr;
    dawn::PipelineLayout pipeline = nullptr;
  };
  struct Staging {
    dawn::Buffer buffer = nullptr;
    uint64_t bytes = 0;
  };
  struct Pending {
    Flag flag{};
    Staging staging{};
    std::vector<HostRead> reads{};
    uint64_t bytes = 0;  // of the reads
  };

  // Commands that are finished and wait to be submitted.
  struct Expected {
    std::vector<uint32_t> words{};
    std::vector<HostRead> reads{};
    std::vector<dawn::Commands> commands{};
    Staging staging{};
    bool is(const CommandStream& other, std::span<const HostRead> other_reads) const;
  };

  // A buffer that uploads go through: mapped while the host writes to it, else on its way.
  struct Relay {
    DawnHost* host = nullptr;
    dawn::Buffer buffer = nullptr;
    std::byte* memory = nullptr;  // null: it is not mapped
    bool under_way = false;
  };

  const dawn::Library& api() const { return *connection_->library; }
  void fail(ErrorKind kind, const std::string& text) {
    if (!failure_) failure_ = error(kind, text);
  }
  OwnLayout& layout(const std::vector<Access>& storage);
  dawn::Buffer make_buffer(uint64_t bytes, uint64_t usage);
  Staging take_staging(uint64_t bytes);
  Relay* mapped_relay();
  Relay* take_relay();
  void relay(Relay& through, BufferId to, uint64_t offset, std::span<const std::byte> bytes);
  template <class Take>
  void encode(std::span<const uint32_t> words, std::span<const HostRead> reads, const Staging& staging, Take&& take);
  dawn::Commands finished(dawn::Encoder encoder);
  void submit(dawn::Commands commands);
  void forget_expected();
  void flush();
  void copy_out(Pending& pending);

  std::shared_ptr<Connection> connection_;
  dawn::Device device_ = nullptr;
  dawn::Queue queue_ = nullptr;
  bool gone_ = false;  // the lost callback has been called
  std::optional<Error> failure_;
  std::vector<dawn::Buffer> buffers_;
  std::vector<std::unique_ptr<OwnPipeline>> pipelines_;
  std::map<std::string, PipelineId> by_text_;
  std::map<std::vector<Access>, OwnLayout> layouts_;
  std::vector<dawn::BindGroup> bindings_;
  uint32_t pipelines_under_way_ = 0;
  uint64_t uploads_in_flight_ = 0;
  std::map<HostTicket, std::unique_ptr<Pending>> pending_;
  std::vector<std::unique_ptr<Pending>> abandoned_;  // their tickets ended with the failure
  std::vector<Staging> free_staging_;
  std::optional<Expected> expected_;
  std::vector<std::unique_ptr<Relay>> relays_;
  HostTicket last_ticket_ = 0;
};

DawnHost::~DawnHost() {
  if (device_ == nullptr) return;
  forget_expected();
  for (auto& [ticket, pending] : pending_) abandoned_.push_back(std::move(pending));
  for (const dawn::BindGroup binding : bindings_)
    if (binding != nullptr) api().release_bind_group(binding);
  for (const dawn::Buffer buffer : buffers_)
    if (buffer != nullptr) api().release_buffer(buffer);
  for (const Staging& staging : free_staging_) api().release_buffer(staging.buffer);
  api().destroy_device(device_);
  wait_until(api(), connection_->instance, [&] {
    return gone_ && pipelines_under_way_ == 0 &&
           std::none_of(relays_.begin(), relays_.end(), [](const auto& one) { return one->under_way; }) &&
           std::all_of(abandoned_.begin(), abandoned_.end(), [](const auto& one) { return one->flag.done; });
  });
  for (const auto& one : relays_)
    if (one->buffer != nullptr) api().release_buffer(one->buffer);
  for (const auto& pending : abandoned_)
    if (pending->staging.buffer != nullptr) api().release_buffer(pending->staging.buffer);
  for (const auto& pipeline : pipelines_)
    if (pipeline->pipeline != nullptr) api().release_pipeline(pipeline->pipeline);
  for (const auto& [access, layout] : layouts_) {
    api().release_pipeline_layout(layout.pipeline);
    api().release_bind_group_layout(layout.group);
  }
  api().release_queue(queue_);
  api().release_device(device_);
}

Status DawnHost::open() {
  const Adapter& adapter = connection_->described;
  std::vector<uint32_t> features;
  if (adapter.f16) features.push_back(dawn::kShaderF16);
  if (adapter.subgroups) features.push_back(dawn::kSubgroups);
  dawn::DeviceDescriptor descriptor{
      .feature_count = features.size(), .features = features.data(), .limits = &connection_->limits};
  descriptor.lost = {.callback =
                         [](const dawn::Device*, uint32_t reason, StringView message, void* self, void*) {
                           auto& host = *static_cast<DawnHost*>(self);
                           host.gone_ = true;
                           if (reason != dawn::kLostByUs)
                             host.fail(ErrorKind::io, cat("webgpu: the GPU device was lost (", sentence(message), ")"));
                         },
                     .first = this};
  descriptor.error = {.callback =
                          [](const dawn::Device*, uint32_t type, StringView message, void* self, void*) {
                            const bool memory = type == dawn::kErrorOutOfMemory;
                            static_cast<DawnHost*>(self)->fail(memory ? ErrorKind::out_of_memory : ErrorKind::invalid,
                                                               cat("webgpu: ", sentence(message)));
                          },
                      .first = this};
  struct Asked : Flag {
    dawn::Device device = nullptr;
  } asked;
  api().request_device(connection_->adapter, &descriptor,
                       {.callback =
                            [](uint32_t status, dawn::Device device, StringView message, void* to, void*) {
                              static_cast<Asked*>(to)->device = device;
                              raise(*static_cast<Asked*>(to), status, message);
                            },
                        .first = &asked});
  wait_until(api(), connection_->instance, [&] { return asked.done; });
  if (asked.device == nullptr)
    return error(ErrorKind::io, "webgpu: ", adapter.description, " gives no device (", asked.message, ")");
  device_ = asked.device;
  queue_ = api().device_queue(device_);
  return {};
}

dawn::Buffer DawnHost::make_buffer(uint64_t bytes, uint64_t usage) {
  const dawn::BufferDescriptor descriptor{.usage = usage, .bytes = bytes};
  const dawn::Buffer buffer = api().create_buffer(device_, &descriptor);
  if (buffer == nullptr) fail(ErrorKind::out_of_memory, cat("webgpu: no buffer of ", bytes, " bytes"));
  return buffer;
}

BufferId DawnHost::buffer(uint64_t bytes, BufferUse use) {
  const uint64_t kind = use == BufferUse::uniform ? dawn::kUniform : dawn::kStorage;
  buffers_.push_back(failure_ ? nullptr : make_buffer(bytes, kind | dawn::kCopySource | dawn::kCopyTarget));
  return static_cast<BufferId>(buffers_.size() - 1);
}

void DawnHost::drop_buffer(BufferId id) {
  if (buffers_[id] == nullptr) return;
  forget_expected();
  api().destroy_buffer(buffers_[id]);
  api().release_buffer(buffers_[id]);
  buffers_[id] = nullptr;
}

DawnHost::OwnLayout& DawnHost::layout(const std::vector<Access>& storage) {
  OwnLayout& layout = layouts_[storage];
  if (layout.group != nullptr) return layout;
  std::vector<dawn::BindGroupLayoutEntry> entries(storage.size() + 2);
  for (uint32_t i = 0; i < entries.size(); ++i) {
    entries[i].binding = i;
    if (i < storage.size())
      entries[i].buffer.type = storage[i] == Access::read ? dawn::kReadOnlyStorageBinding : dawn::kStorageBinding;
    else
      entries[i].buffer = {.type = dawn::kUniformBinding, .dynamic = i == storage.size() ? 1u : 0u};
  }
  const dawn::BindGroupLayoutDescriptor group{.entry_count = entries.size(), .entries = entries.data()};
  layout.group = api().create_bind_group_layout(device_, &group);
  const dawn::PipelineLayoutDescriptor pipeline{.layout_count = 1, .layouts = &layout.group};
  layout.pipeline = api().create_pipeline_layout(device_, &pipeline);
  return layout;
}

PipelineId DawnHost::pipeline(const PipelineText& text) {
  const auto [found, is_new] = by_text_.try_emplace(text.wgsl, static_cast<PipelineId>(pipelines_.size()));
  if (!is_new) return found->second;
  CHECK(text.storage.size() <= kStorageBuffers);
  pipelines_.push_back(std::make_unique<OwnPipeline>());
  OwnPipeline& own = *pipelines_.back();
  own.host = this;
  own.name = text.name;
  if (failure_) return found->second;
  const OwnLayout& layouts = layout(text.storage);
  own.layout = layouts.group;
  dawn::WgslSource source{.code = view(text.wgsl)};
  const dawn::Named named{.next = &source.chain, .label = view(text.name)};
  const dawn::ShaderModule module = api().create_shader_module(device_, &named);
  dawn::PipelineDescriptor descriptor{.label = view(text.name), .layout = layouts.pipeline};
  descriptor.compute.module = module;
  descriptor.compute.entry = view("main");
  ++pipelines_under_way_;
  api().create_pipeline(device_, &descriptor,
                        {.callback =
                             [](uint32_t status, dawn::Pipeline made, StringView message, void* to, void*) {
                               auto& pipeline = *static_cast<OwnPipeline*>(to);
                               --pipeline.host->pipelines_under_way_;
                               pipeline.pipeline = made;
                               if (status != dawn::kSuccess)
                                 pipeline.host->fail(ErrorKind::unsupported,
                                                     cat("webgpu: kernel ", pipeline.name, ": ", sentence(message)));
                             },
                         .first = &own});
  api().release_shader_module(module);
  return found->second;
}

BindingId DawnHost::bind(PipelineId pipeline, std::span<const BoundRange> storage, const BoundRange& dynamic,
                         const BoundRange& fixed) {
  bindings_.push_back(nullptr);
  const auto id = static_cast<BindingId>(bindings_.size() - 1);
  if (failure_) return id;
  std::vector<dawn::BindGroupEntry> entries;
  entries.reserve(storage.size() + 2);
  const auto add = [&](const BoundRange& range) {
    entries.push_back({.binding = static_cast<uint32_t>(entries.size()),
                       .buffer = buffers_[range.buffer],
                       .offset = range.offset,
                       .bytes = range.bytes});
  };
  for (const BoundRange& range : storage) add(range);
  add(dynamic);
  add(fixed);
  const dawn::BindGroupDescriptor descriptor{
      .layout = pipelines_[pipeline]->layout, .entry_count = entries.size(), .entries = entries.data()};
  bindings_[id] = api().create_bind_group(device_, &descriptor);
  return id;
}

void DawnHost::drop_binding(BindingId id) {
  if (bindings_[id] != nullptr) api().release_bind_group(bindings_[id]);
  bindings_[id] = nullptr;
}

void DawnHost::upload(BufferId to, uint64_t offset, std::span<const std::byte> bytes) {
  if (failure_ || bytes.empty()) return;
  CHECK(offset % 4 == 0 && bytes.size() % 4 == 0);
  while (bytes.size() >= kLeastRelayed) {
    Relay* const through = take_relay();
    if (through == nullptr) break;
    const std::span<const std::byte> part = bytes.first(std::min<size_t>(bytes.size(), kRelayBytes));
    relay(*through, to, offset, part);
    offset += part.size();
    bytes = bytes.subspan(part.size());
  }
  if (failure_ || bytes.empty()) return;
  api().write_buffer(queue_, buffers_[to], offset, bytes.data(), bytes.size());
  uploads_in_flight_ += bytes.size();
  if (uploads_in_flight_ > kUploadsInFlight) flush();
}

DawnHost::Relay* DawnHost::mapped_relay() {
  const auto found =
      std::find_if(relays_.begin(), relays_.end(), [](const auto& one) { return one->memory != nullptr; });
  return found == relays_.end() ? nullptr : found->get();
}

// One that may be written to, for which the GPU may have to be waited for; null after a failure, or where memory for
// one cannot be had.
DawnHost::Relay* DawnHost::take_relay() {
  if (Relay* const mapped = mapped_relay()) return mapped;
  api().process_events(connection_->instance);
  if (Relay* const mapped = mapped_relay()) return mapped;
  if (relays_.size() < kMostRelays) {
    auto made = std::make_unique<Relay>(Relay{.host = this});
    const dawn::BufferDescriptor descriptor{
        .usage = dawn::kMapWrite | dawn::kCopySource, .bytes = kRelayBytes, .mapped = 1};
    made->buffer = api().create_buffer(device_, &descriptor);
    if (made->buffer == nullptr) return nullptr;
    made->memory = static_cast<std::byte*>(api().writable_range(made->buffer, 0, kRelayBytes));
    if (made->memory == nullptr) {
      api().release_buffer(made->buffer);
      return nullptr;
    }
    relays_.push_back(std::move(made));
    return mapped_relay();
  }
  wait_until(api(), connection_->instance, [&] { return mapped_relay() != nullptr || failure_; });
  return mapped_relay();
}

void DawnHost::relay(Relay& through, BufferId to, uint64_t offset, std::span<const std::byte> bytes) {
  std::copy(bytes.begin(), bytes.end(), through.memory);
  through.memory = nullptr;
  through.under_way = true;
  api().unmap(through.buffer);
  const dawn::Encoder encoder = api().create_encoder(device_, nullptr);
  api().copy(encoder, through.buffer, 0, buffers_[to], offset, bytes.size());
  submit(finished(encoder));
  api().map(
      through.buffer, dawn::kMapModeWrite, 0, kRelayBytes,
      {.callback =
           [](uint32_t status, StringView message, void* which, void*) {
             auto& relay = *static_cast<Relay*>(which);
             relay.under_way = false;
             if (status == dawn::kSuccess)
               relay.memory = static_cast<std::byte*>(relay.host->api().writable_range(relay.buffer, 0, kRelayBytes));
             else if (!relay.host->gone_)
               relay.host->fail(ErrorKind::io, cat("webgpu: an upload did not end well (", sentence(message), ")"));
           },
       .first = &through});
}

// Everything before has reached the GPU and is done.
void DawnHost::flush() {
  uploads_in_flight_ = 0;
  api().submit(queue_, 0, nullptr);
  Flag flag;
  api().work_done(queue_, {.callback = [](uint32_t status, StringView message, void* to,
                                          void*) { raise(*static_cast<Flag*>(to), status, message); },
                           .first = &flag});
  wait_until(api(), connection_->instance, [&] { return flag.done; });
  CHECK(flag.done);
}

Status DawnHost::settle() {
  if (!failure_) {
    wait_until(api(), connection_->instance, [&] { return pipelines_under_way_ == 0 || failure_; });
    if (!failure_) flush();
  }
  if (failure_) return *failure_;
  return {};
}

// Command by command, in command buffers that are handed over as they are full: the GPU computes the first while the
// others are still being encoded.
template <class Take>
void DawnHost::encode(std::span<const uint32_t> words, std::span<const HostRead> reads, const Staging& staging,
                      Take&& take) {
  dawn::Encoder encoder = api().create_encoder(device_, nullptr);
  dawn::Pass pass = nullptr;
  const auto end_pass = [&] {
    if (pass == nullptr) return;
    api().end_pass(pass);
    api().release_pass(pass);
    pass = nullptr;
  };
  const auto wide = [&](size_t i) { return uint64_t{words[i + 1]} << 32 | words[i]; };
  uint32_t dispatches = 0, most = kFirstDispatches;
  for (PipelineId last = kNoPipeline; !words.empty();) {
    if (words[0] == CommandStream::kDispatch) {
      if (dispatches == most) {
        end_pass();
        take(finished(encoder));
        encoder = api().create_encoder(device_, nullptr);
        dispatches = 0;
        most = kMostDispatches;
      }
      if (pass == nullptr) {
        pass = api().begin_pass(encoder, nullptr);
        last = kNoPipeline;
      }
      const OwnPipeline& pipeline = *pipelines_[words[1]];
      CHECK(pipeline.pipeline != nullptr);
      if (words[1] != last) api().set_pipeline(pass, pipeline.pipeline);
      last = words[1];
      api().set_bind_group(pass, 0, bindings_[words[2]], 1, &words[3]);
      api().dispatch(pass, words[4], words[5], 1);
      ++dispatches;
      words = words.subspan(CommandStream::kDispatchWords);
    } else {
      end_pass();
      api().copy(encoder, buffers_[words[1]], wide(3), buffers_[words[2]], wide(5), wide(7));
      words = words.subspan(CommandStream::kCopyWords);
    }
  }
  end_pass();
  uint64_t at = 0;
  for (const HostRead& read : reads) {
    if (read.into.empty()) continue;
    api().copy(encoder, buffers_[read.buffer], read.offset, staging.buffer, at, read.into.size());
    at += read.into.size();
  }
  take(finished(encoder));
}

// Null after an error, which the device says itself.
dawn::Commands DawnHost::finished(dawn::Encoder encoder) {
  const dawn::Commands commands = api().finish(encoder, nullptr);
  api().release_encoder(encoder);
  return commands;
}

void DawnHost::submit(dawn::Commands commands) {
  if (commands == nullptr) return;
  api().submit(queue_, 1, &commands);
  api().release_commands(commands);
}

bool DawnHost::Expected::is(const CommandStream& other, std::span<const HostRead> other_reads) const {
  const auto same = [](const HostRead& a, const HostRead& b) {
    return a.buffer == b.buffer && a.offset == b.offset && a.into.size() == b.into.size();
  };
  return std::ranges::equal(words, other.words()) && std::ranges::equal(reads, other_reads, same);
}

void DawnHost::forget_expected() {
  if (!expected_) return;
  for (const dawn::Commands one : expected_->commands) api().release_commands(one);
  if (expected_->staging.buffer != nullptr) free_staging_.push_back(expected_->staging);
  expected_.reset();
}

void DawnHost::expect(const CommandStream& commands, std::span<const HostRead> reads) {
  forget_expected();
  if (failure_) return;
  const std::span<const uint32_t> words = commands.words();
  expected_ = Expected{.words = {words.begin(), words.end()}, .reads = {reads.begin(), reads.end()}};
  uint64_t bytes = 0;
  for (const HostRead& read : reads) bytes += read.into.size();
  if (bytes > 0) expected_->staging = take_staging(bytes);
  encode(words, reads, expected_->staging, [&](dawn::Commands finished) {
    if (finished != nullptr) expected_->commands.push_back(finished);
  });
}

DawnHost::Staging DawnHost::take_staging(uint64_t bytes) {
  const auto fits = std::find_if(free_staging_.begin(), free_staging_.end(),
                                 [&](const Staging& staging) { return staging.bytes >= bytes; });
  if (fits == free_staging_.end()) return {make_buffer(bytes, dawn::kMapRead | dawn::kCopyTarget), bytes};
  const Staging found = *fits;
  free_staging_.erase(fits);
  return found;
}

HostTicket DawnHost::submit(const CommandStream& commands, std::span<const HostRead> reads) {
  const HostTicket ticket = ++last_ticket_;
  if (failure_) return ticket;
  auto pending = std::make_unique<Pending>();
  for (const HostRead& read : reads) pending->bytes += read.into.size();
  if (pending->bytes > 0) pending->reads.assign(reads.begin(), reads.end());
  if (expected_ && expected_->is(commands, reads)) {
    pending->staging = std::exchange(expected_->staging, {});
    for (const dawn::Commands one : std::exchange(expected_->commands, {})) submit(one);
  } else {
    if (pending->bytes > 0) pending->staging = take_staging(pending->bytes);
    encode(commands.words(), pending->reads, pending->staging, [&](dawn::Commands finished) { submit(finished); });
  }
  forget_expected();
  if (pending->bytes > 0)
    api().map(pending->staging.buffer, dawn::kMapModeRead, 0, pending->bytes,
              {.callback = [](uint32_t status, StringView message, void* to,
                              void*) { raise(*static_cast<Flag*>(to), status, message); },
               .first = &pending->flag});
  else
    api().work_done(queue_, {.callback = [](uint32_t status, StringView message, void* to,
                                            void*) { raise(*static_cast<Flag*>(to), status, message); },
                             .first = &pending->flag});
  pending_.emplace(ticket, std::move(pending));
  return ticket;
}

void DawnHost::copy_out(Pending& pending) {
  if (pending.staging.buffer == nullptr) return;
  const auto* from = static_cast<const std::byte*>(api().mapped_range(pending.staging.buffer, 0, pending.bytes));
  if (from == nullptr) return fail(ErrorKind::io, "webgpu: results cannot be read back");
  for (const HostRead& read : pending.reads) {
    std::copy_n(from, read.into.size(), read.into.data());
    from += read.into.size();
  }
  api().unmap(pending.staging.buffer);
  free_staging_.push_back(pending.staging);
  pending.staging = {};
}

std::optional<Status> DawnHost::poll(HostTicket ticket) {
  api().process_events(connection_->instance);
  const auto found = pending_.find(ticket);
  if (found != pending_.end() && !failure_) {
    Pending& pending = *found->second;
    if (!pending.flag.done) return std::nullopt;
    if (pending.flag.status != dawn::kSuccess)
      fail(ErrorKind::io, cat("webgpu: a step did not end well (", pending.flag.message, ")"));
    else
      copy_out(pending);
    uploads_in_flight_ = 0;  // what came before the step has arrived
  }
  if (found != pending_.end()) {
    if (failure_) abandoned_.push_back(std::move(found->second));
    pending_.erase(found);
  }
  if (failure_) return Status(*failure_);
  return Status();
}

// Of the largest heap that the GPU computes in; 0: it does not say.
uint64_t memory_bytes(const dawn::Library& library, dawn::Adapter adapter) {
  if (library.adapter_has_feature(adapter, dawn::kAdapterMemoryHeaps) == 0) return 0;
  dawn::MemoryHeaps heaps;
  dawn::AdapterInfo info{.next = &heaps.chain};
  if (library.adapter_info(adapter, &info) != dawn::kSuccess) return 0;
  uint64_t most = 0;
  for (size_t i = 0; i < heaps.count; ++i)
    if ((heaps.heaps[i].properties & dawn::kDeviceLocal) != 0) most = std::max(most, heaps.heaps[i].bytes);
  library.free_memory_heaps(heaps);
  return most;
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
      .f16 = library.adapter_has_feature(adapter, dawn::kShaderF16) != 0,
      .subgroups = library.adapter_has_feature(adapter, dawn::kSubgroups) != 0,
      .subgroup_least = info.subgroup_least,
      .subgroup_most = info.subgroup_most,
  };
}

// Another release's layouts would put other numbers here.
bool is_plausible(const dawn::Limits& limits, const Adapter& adapter) {
  const auto aligned = [](uint32_t n) { return n > 0 && n <= 256 && (n & (n - 1)) == 0; };
  return limits.bind_groups >= 4 && limits.bind_groups <= 64 && limits.storage_buffers >= kStorageBuffers &&
         aligned(adapter.uniform_alignment) && aligned(adapter.storage_alignment) &&
         adapter.binding_bytes >= (uint64_t{128} << 20) && adapter.buffer_bytes >= adapter.binding_bytes &&
         limits.workgroups >= 65535 && adapter.workgroup_bytes >= 16384 && adapter.workgroup_threads >= 256 &&
         adapter.workgroup_threads <= 4096 && adapter.subgroup_most <= 128;
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

Result<std::shared_ptr<Connection>> connect(std::shared_ptr<const dawn::Library> library, const std::string& path) {
  auto connection = std::make_shared<Connection>(std::move(library));
  const dawn::Library& api = *connection->library;
  const dawn::InstanceDescriptor descriptor;
  connection->instance = api.create_instance(&descriptor);
  if (connection->instance == nullptr)
    return error(ErrorKind::unsupported, "WebGPU library ", path, ": gives no instance");
  struct Asked : Flag {
    dawn::Adapter adapter = nullptr;
  } asked;
  const dawn::AdapterOptions options;
  api.request_adapter(connection->instance, &options,
                      {.callback =
                           [](uint32_t status, dawn::Adapter adapter, StringView message, void* to, void*) {
                             static_cast<Asked*>(to)->adapter = adapter;
                             raise(*static_cast<Asked*>(to), status, message);
                           },
                       .first = &asked});
  wait_until(api, connection->instance, [&] { return asked.done; });
  connection->adapter = asked.adapter;
  if (asked.adapter == nullptr)
    return error(ErrorKind::unsupported, "webgpu: found no GPU that Vulkan drives (", asked.message,
                 "): want a Vulkan 1.1 driver");
  api.adapter_limits(connection->adapter, &connection->limits);
  connection->limits.next = nullptr;
  connection->described = describe(api, connection->adapter, connection->limits);
  if (!is_plausible(connection->limits, connection->described))
    return error(ErrorKind::unsupported, "WebGPU library ", path,
                 ": found limits that no adapter has: want that of npm's bun-webgpu-linux-x64 0.1.7");
  return connection;
}

}  // namespace

Result<std::unique_ptr<HostFactory>> find_dawn(const std::vector<std::string>& paths) {
  CHECK(!paths.empty());
  std::optional<Error> first;
  for (const std::string& path : paths) {
    Result<std::shared_ptr<const dawn::Library>> library = dawn::Library::open(path);
    if (!library) {
      if (library.error().kind != ErrorKind::not_found) return std::move(library).error();
      if (!first) first = library.error();
      continue;
    }
    TRY(std::shared_ptr<Connection> connection, connect(*library, path));
    return std::unique_ptr<HostFactory>(std::make_unique<DawnFactory>(std::move(connection)));
  }
  return *std::move(first);
}

}  // namespace sluice::webgpu

namespace sluice {

Result<std::unique_ptr<WebGpuDevice>> make_webgpu_device(const WebGpuOptions& options) {
  TRY(std::unique_ptr<webgpu::HostFactory> factory, webgpu::find_dawn(options.libraries));
  return make_webgpu_device(std::move(factory));
}

}  // namespace sluice
