// Host: runs our kernels. Natively it is Dawn's C interface (dawn/), in a browser a small TypeScript program. So
// commands are plain words, and every object is a number.
//
// Only settle() waits for the GPU, and not in a page. A call may fail later (an allocation, a pipeline, a lost device).
// failure() then has one sentence, further calls do nothing, and every ticket ends with that sentence. A host belongs
// to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice::webgpu {

// The largest number of storage buffers in a kernel that every WebGPU allows.
inline constexpr uint32_t kStorageBuffers = 8;

struct Adapter {
  std::string description{};       // "NVIDIA H200, Vulkan"
  std::string driver{};            // the driver that compiles the kernels, with its version
  bool is_software = false;        // it runs on the processor
  bool is_gpu = false;             // its driver says that it is a GPU, discrete or integrated
  uint64_t memory_bytes = 0;       // of its largest heap; 0: unknown
  bool shares_memory = false;      // that heap is the host's memory
  uint64_t buffer_bytes = 0;       // of one buffer
  uint64_t binding_bytes = 0;      // of one storage binding
  uint32_t uniform_alignment = 0;  // of dynamic offsets
  uint32_t storage_alignment = 0;  // of the beginning of a binding
  uint32_t workgroup_bytes = 0;
  uint32_t workgroup_threads = 0;
  uint32_t workgroups = 0;  // in each direction of a grid
  bool f16 = false;
  bool subgroups = false;
  // All subgroups have 32 threads and multiply matrices of 16 by 16 f16, with sums in f32; f16 is there, too.
  bool matrices = false;
  uint32_t subgroup_least = 0, subgroup_most = 0;
};

using BufferId = uint32_t;
using PipelineId = uint32_t;
using BindingId = uint32_t;
using HostTicket = uint64_t;

enum class BufferUse : uint8_t { storage, uniform };
enum class Access : uint8_t { read, read_write };

// The text of a pipeline. Its entry point is "main". Storage buffers are bindings 0, 1, ... of group 0. The next two
// bindings are uniform buffers, the first with a dynamic offset.
struct PipelineText {
  std::string name{};
  std::string wgsl{};
  std::vector<Access> storage{};
};

struct BoundRange {
  BufferId buffer = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Commands for the host, as 32-bit words: a code, then its operands.
class CommandStream {
 public:
  enum Code : uint32_t {
    kDispatch = 1,  // pipeline, binding, offset of the uniforms in bytes, x, y
    kCopy = 2,      // from, to, then offset in each and bytes, each as low and high word
  };
  static constexpr size_t kDispatchWords = 6, kCopyWords = 9;

  void dispatch(PipelineId pipeline, BindingId binding, uint32_t uniform_offset, uint32_t x, uint32_t y) {
    add({kDispatch, pipeline, binding, uniform_offset, x, y});
    ++dispatches_;
  }
  void copy(const BoundRange& from, BufferId to, uint64_t to_offset) {
    add({kCopy, from.buffer, to, low(from.offset), high(from.offset), low(to_offset), high(to_offset), low(from.bytes),
         high(from.bytes)});
  }
  void clear() {
    words_.clear();
    dispatches_ = 0;
  }
  std::span<const uint32_t> words() const { return words_; }
  uint32_t dispatches() const { return dispatches_; }

 private:
  // One by one, because g++ 12 warns of an overflow if the list is inserted at once.
  void add(std::initializer_list<uint32_t> words) {
    for (const uint32_t word : words) words_.push_back(word);
  }
  static uint32_t low(uint64_t number) { return static_cast<uint32_t>(number); }
  static uint32_t high(uint64_t number) { return static_cast<uint32_t>(number >> 32); }

  std::vector<uint32_t> words_;
  uint32_t dispatches_ = 0;
};

// Bytes to read back. The target must not be used until the ticket ends. Offset and size are multiples of 4.
struct HostRead {
  BufferId buffer = 0;
  uint64_t offset = 0;
  std::span<std::byte> into{};
};

class Host {
 public:
  virtual ~Host() = default;
  virtual const Adapter& adapter() const = 0;

  virtual BufferId buffer(uint64_t bytes, BufferUse use) = 0;  // of zeros; bytes a multiple of 4
  virtual void drop_buffer(BufferId id) = 0;
  // Equal texts share one pipeline. It is compiled in the background and kept as long as the host.
  virtual PipelineId pipeline(const PipelineText& text) = 0;
  virtual BindingId bind(PipelineId pipeline, std::span<const BoundRange> storage, const BoundRange& dynamic,
                         const BoundRange& fixed) = 0;
  virtual void drop_binding(BindingId id) = 0;

  // Uploads happen in the order of upload() and submit(). The bytes may be freed afterwards. Offset and size are
  // multiples of 4.
  virtual void upload(BufferId to, uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual HostTicket submit(const CommandStream& commands, std::span<const HostRead> reads) = 0;
  // Announces the likely next submission; its read targets may differ. A host may encode it while the GPU computes the
  // current one.
  virtual void expect(const CommandStream& /*commands*/, std::span<const HostRead> /*reads*/) {}
  // The result of a ticket that has ended, once; none while it runs.
  virtual std::optional<Status> poll(HostTicket ticket) = 0;
  // Waits until pipelines are compiled and uploads have arrived. In a page it does not wait: the page does.
  virtual Status settle() = 0;
  virtual bool waits() const { return true; }

  virtual const std::optional<Error>& failure() const = 0;
  virtual uint32_t pipelines() const = 0;  // made so far
};

// Opens hosts on one adapter. Each host has its own GPU device, so a lost one can be replaced.
class HostFactory {
 public:
  virtual ~HostFactory() = default;
  virtual const Adapter& adapter() const = 0;
  virtual Result<std::unique_ptr<Host>> open() = 0;
};

}  // namespace sluice::webgpu
