#include "app/plan/disk_bandwidth.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <span>

#include "base/files/file.h"
#include "base/files/read_queue.h"
#include "base/random.h"

namespace sluice {
namespace {

// Bytes to read in all: enough to measure disks at their lasting speed, because some are faster for a moment.
constexpr uint64_t kLeastBytes = 64 << 20, kMostBytes = uint64_t{2} << 30;
constexpr double kLongest = 1;  // seconds

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

// Blocks of a file in no order.
class Places {
 public:
  Places(uint64_t file_bytes, uint64_t block_bytes) : blocks_(file_bytes / block_bytes), block_bytes_(block_bytes) {}
  uint64_t next() {
    const PhiloxCounter draw = philox4x32({count_++, 0, 0, 0}, {1, 0});
    return (uint64_t{draw[0]} << 32 | draw[1]) % blocks_ * block_bytes_;
  }

 private:
  uint64_t blocks_, block_bytes_;
  uint32_t count_ = 0;
};

}  // namespace

Result<double> measure_disk(const std::vector<std::string>& paths, uint64_t block_bytes) {
  if (paths.empty()) return 0.0;
  const uint64_t block = (block_bytes + kReadAlignment - 1) / kReadAlignment * kReadAlignment;
  TRY(const auto file, FileSource::open(paths.front()));
  if (file->size() < kLeastBytes + block) return 0.0;
  TRY(const auto queue, open_read_queue({paths.front()}));
  const uint32_t depth = std::min<uint32_t>(queue->depth(), 32);
  const std::unique_ptr<std::byte, Free> memory(
      static_cast<std::byte*>(std::aligned_alloc(kReadAlignment, static_cast<size_t>(block * depth))));
  if (memory == nullptr) {
    return error(ErrorKind::out_of_memory, paths.front(), ": found no memory to read into: want ", block * depth,
                 " bytes");
  }
  Places places(file->size(), block);
  const auto begin = [&](uint64_t id) {
    queue->begin({.id = id,
                  .file = 0,
                  .offset = places.next(),
                  .into = {memory.get() + id * block, static_cast<size_t>(block)}});
  };
  const auto started = std::chrono::steady_clock::now();
  for (uint64_t id = 0; id < depth; ++id) begin(id);
  uint64_t bytes = 0, under_way = depth;
  double seconds = 0;
  std::vector<ReadEnd> ended;
  while (under_way > 0) {
    ended.clear();
    queue->take_ended(ended, /*wait=*/true);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    for (const ReadEnd& end : ended) {
      --under_way;
      bytes += static_cast<uint64_t>(std::max<int64_t>(0, end.bytes));
      if (bytes < kMostBytes && seconds < kLongest) {
        begin(end.id);
        ++under_way;
      }
    }
  }
  return static_cast<double>(bytes) / seconds;
}

}  // namespace sluice
