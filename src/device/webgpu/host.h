// What plays our kernels: the host. Natively it is Dawn's C interface (host_dawn.cpp), in the browser a small program
// in TypeScript, which is why commands are plain words and every object a number.
//
// Nothing here waits for the GPU but settle(), and that not in a page. Calls that fail later (an allocation, a
// pipeline, a lost device) leave one sentence in failure(); from then on every call is accepted and does nothing, and
// every ticket ends with it. A host belongs to one thread.
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

// At most so many storage buffers a kernel: what every WebGPU has.
inline constexpr uint32_t kStorageBuffers = 8;

struct Adapter {
  std::string description{};       // "NVIDIA H200, Vulkan"
  std::string driver{};            // with its version, which compiles the kernels
  bool is_software = false;        // a processor plays it
  bool is_gpu = false;             // its driver says that it is one, of its own or beside a processor
  uint64_t memory_bytes = 0;       // of its largest heap; 0: it does not say
  bool shares_memory = false;      // that heap is the host's memory, too
  uint64_t buffer_bytes = 0;       // of one buffer
  uint64_t binding_bytes = 0;      // of one storage binding
  uint32_t uniform_alignment = 0;  // of dynamic offsets
  uint32_t storage_alignment = 0;  // of where a binding begins
  uint32_t workgroup_bytes = 0;
  uint32_t workgroup_threads = 0;
  uint32_t workgroups = 0;  // in each direction of a grid
  bool f16 = false;
  bool subgroups = false;
  uint32_t subgroup_least = 0, subgroup_most = 0;
};

using BufferId = uint32_t;
using PipelineId = uint32_t;
using BindingId = uint32_t;
using HostTicket = uint64_t;

enum class BufferUse : uint8_t { storage, uniform };
enum class Access : uint8_t { read, read_write };

// Entry point "main"; storage buffers are bindings 0, 1, ... of group 0; behind them are two uniform buffers, the first
// with a dynamic offset.
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

// What the host plays, as 32-bit words: a code, then its operands.
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
  // One by one: of a list inserted at once g++ 12 says that it overflows.
  void add(std::initializer_list<uint32_t> words) {
    for (const uint32_t word : words) words_.push_back(word);
  }
  static uint32_t low(uint64_t number) { return static_cast<uint32_t>(number); }
  static uint32_t high(uint64_t number) { return static_cast<uint32_t>(number >> 32); }

  std::vector<uint32_t> words_;
  uint32_t dispatches_ = 0;
};

// Bytes to be brought back, whose target stays untouched until the ticket ends. Offset and size are multiples of 4.
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
  // Equal texts are one pipeline, made while others go on and kept as long as the host.
  virtual PipelineId pipeline(const PipelineText& text) = 0;
  virtual BindingId bind(PipelineId pipeline, std::span<const BoundRange> storage, const BoundRange& dynamic,
                         const BoundRange& fixed) = 0;
  virtual void drop_binding(BindingId id) = 0;

  // In the order of upload() and submit(); the bytes may be forgotten afterwards. Offset and size multiples of 4.
  virtual void upload(BufferId to, uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual HostTicket submit(const CommandStream& commands, std::span<const HostRead> reads) = 0;
  // Says that the next submission is likely this one, wherever its reads are brought to: a host may encode it while the
  // GPU computes what came before.
  virtual void expect(const CommandStream& /*commands*/, std::span<const HostRead> /*reads*/) {}
  // How a ticket ended, once; nothing while it is under way.
  virtual std::optional<Status> poll(HostTicket ticket) = 0;
  // Waits until pipelines are made and uploads have arrived, where the host waits; else the page sees to that.
  virtual Status settle() = 0;
  virtual bool waits() const { return true; }

  virtual const std::optional<Error>& failure() const = 0;
  virtual uint32_t pipelines() const = 0;  // made so far
};

// One adapter; opens hosts on it, each with a GPU device of its own, so that a lost one is replaced by the next.
class HostFactory {
 public:
  virtual ~HostFactory() = default;
  virtual const Adapter& adapter() const = 0;
  virtual Result<std::unique_ptr<Host>> open() = 0;
};

}  // namespace sluice::webgpu
