#include "recording_host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "kernel_text.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kOne = 1;

uint64_t wide(uint32_t low, uint32_t high) { return low | uint64_t{high} << 32; }

bool overlap(const BoundRange& a, const BoundRange& b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

}  // namespace

RecordingHost::RecordingHost(const Adapter& adapter, std::shared_ptr<Record> record, bool waits)
    : adapter_(adapter), record_(std::move(record)), waits_(waits) {}

BufferId RecordingHost::buffer(uint64_t bytes, BufferUse use) {
  EXPECT_GT(bytes, 0u);
  EXPECT_EQ(bytes % 4, 0u);
  EXPECT_LE(bytes, adapter_.buffer_bytes);
  buffers_[++last_buffer_] = {.bytes = bytes, .use = use};
  return last_buffer_;
}

void RecordingHost::drop_buffer(BufferId id) { EXPECT_EQ(buffers_.erase(id), 1u) << "buffer " << id; }

PipelineId RecordingHost::pipeline(const PipelineText& text) {
  const auto [found, is_new] = record_->texts.try_emplace(text.wgsl, 0);
  if (!is_new) return found->second;
  record_->pipelines.push_back(text);
  found->second = static_cast<PipelineId>(record_->pipelines.size() - 1);
  for (const std::string& fault : faults_of(text, adapter_)) ADD_FAILURE() << text.name << ": " << fault;
  return found->second;
}

BindingId RecordingHost::bind(PipelineId pipeline, std::span<const BoundRange> storage, const BoundRange& dynamic,
                              const BoundRange& fixed) {
  const PipelineText& text = record_->pipelines.at(pipeline);
  SCOPED_TRACE(text.name);
  EXPECT_EQ(storage.size(), text.storage.size());
  for (size_t i = 0; i < std::min(storage.size(), text.storage.size()); ++i) {
    check_range(storage[i], BufferUse::storage, adapter_.storage_alignment, cat("binding ", i));
    EXPECT_LE(storage[i].bytes, adapter_.binding_bytes) << "binding " << i;
    // One buffer is either read or written by a dispatch, and no byte is written through two bindings.
    for (size_t j = 0; j < i; ++j) {
      if (text.storage[i] == Access::read && text.storage[j] == Access::read) continue;
      EXPECT_FALSE(overlap(storage[i], storage[j])) << "bindings " << j << " and " << i << " overlap";
      if (text.storage[i] != text.storage[j])
        EXPECT_NE(storage[i].buffer, storage[j].buffer) << "bindings " << j << " and " << i << " read and write";
    }
  }
  check_range(dynamic, BufferUse::uniform, adapter_.uniform_alignment, "parameters");
  check_range(fixed, BufferUse::uniform, adapter_.uniform_alignment, "counts");
  bindings_[++last_binding_] = {.pipeline = pipeline, .dynamic = dynamic};
  ++record_->bindings;
  return last_binding_;
}

void RecordingHost::drop_binding(BindingId id) { EXPECT_EQ(bindings_.erase(id), 1u) << "binding " << id; }

void RecordingHost::upload(BufferId to, uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  record_->uploaded += bytes.size();
  const Buffer* buffer = find(to, "upload");
  if (buffer == nullptr) return;
  EXPECT_EQ(offset % 4, 0u);
  EXPECT_EQ(bytes.size() % 4, 0u);
  EXPECT_LE(offset + bytes.size(), buffer->bytes) << "upload";
}

HostTicket RecordingHost::submit(const CommandStream& commands, std::span<const HostRead> reads) {
  const std::span<const uint32_t> words = commands.words();
  for (size_t at = 0; at < words.size();) {
    if (words[at] == CommandStream::kDispatch) {
      check_dispatch(words.data() + at);
      at += CommandStream::kDispatchWords;
    } else {
      EXPECT_EQ(words[at], CommandStream::kCopy);
      check_copy(words.data() + at);
      at += CommandStream::kCopyWords;
    }
  }
  for (const HostRead& read : reads) {
    if (read.into.empty()) continue;
    const Buffer* buffer = find(read.buffer, "read");
    EXPECT_EQ(read.offset % 4, 0u);
    EXPECT_EQ(read.into.size() % 4, 0u);
    EXPECT_TRUE(buffer == nullptr || read.offset + read.into.size() <= buffer->bytes) << "read";
    for (size_t at = 0; at + 4 <= read.into.size(); at += 4) std::memcpy(read.into.data() + at, &kOne, 4);
  }
  if (!reads.empty()) record_->read_behind.push_back(record_->uploaded);
  ++record_->submissions;
  under_way_.insert(++last_ticket_);
  return last_ticket_;
}

std::optional<Status> RecordingHost::poll(HostTicket ticket) {
  EXPECT_EQ(under_way_.erase(ticket), 1u) << "a ticket ends once";
  return Status();
}

const RecordingHost::Buffer* RecordingHost::find(BufferId id, const std::string& what) const {
  const auto found = buffers_.find(id);
  EXPECT_TRUE(found != buffers_.end()) << what << ": there is no buffer " << id;
  return found == buffers_.end() ? nullptr : &found->second;
}

void RecordingHost::check_range(const BoundRange& range, BufferUse use, uint64_t alignment,
                                const std::string& what) const {
  const Buffer* buffer = find(range.buffer, what);
  if (buffer == nullptr) return;
  EXPECT_EQ(buffer->use, use) << what;
  EXPECT_GT(range.bytes, 0u) << what;
  EXPECT_EQ(range.bytes % 4, 0u) << what;
  EXPECT_EQ(range.offset % alignment, 0u) << what;
  EXPECT_LE(range.offset + range.bytes, buffer->bytes) << what;
}

void RecordingHost::check_dispatch(const uint32_t* words) {
  const RecordedDispatch dispatch{.pipeline = words[1], .binding = words[2], .x = words[4], .y = words[5]};
  if (record_->dispatches.empty()) record_->played_behind = record_->uploaded;
  record_->dispatches.push_back(dispatch);
  ASSERT_LT(dispatch.pipeline, record_->pipelines.size());
  SCOPED_TRACE(record_->pipelines[dispatch.pipeline].name);
  const auto binding = bindings_.find(dispatch.binding);
  ASSERT_TRUE(binding != bindings_.end());
  EXPECT_EQ(binding->second.pipeline, dispatch.pipeline) << "bound for another pipeline";
  const BoundRange& dynamic = binding->second.dynamic;
  const Buffer* uniforms = find(dynamic.buffer, "parameters");
  EXPECT_EQ(words[3] % adapter_.uniform_alignment, 0u);
  EXPECT_TRUE(uniforms == nullptr || words[3] + dynamic.offset + dynamic.bytes <= uniforms->bytes);
  EXPECT_GT(dispatch.x, 0u);
  EXPECT_GT(dispatch.y, 0u);
  EXPECT_LE(dispatch.x, adapter_.workgroups);
  EXPECT_LE(dispatch.y, adapter_.workgroups);
}

// kCopy: from, to, then offset in each and bytes.
void RecordingHost::check_copy(const uint32_t* words) const {
  const uint64_t from_offset = wide(words[3], words[4]), to_offset = wide(words[5], words[6]);
  const uint64_t bytes = wide(words[7], words[8]);
  EXPECT_NE(words[1], words[2]) << "a buffer cannot be copied within itself";
  const Buffer *from = find(words[1], "copy"), *to = find(words[2], "copy");
  EXPECT_TRUE(from == nullptr || from_offset + bytes <= from->bytes) << "copy";
  EXPECT_TRUE(to == nullptr || to_offset + bytes <= to->bytes) << "copy";
  EXPECT_EQ((from_offset | to_offset | bytes) % 4, 0u) << "copy";
}

}  // namespace sluice::webgpu
