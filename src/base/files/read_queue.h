// Reads files at offsets, many reads at once, past the page cache if the file system allows it.
//
//   io_uring   the kernel reads while this thread computes
//   threads    without io_uring: several threads that each wait for a read
//
// In a page (read_queue_wasi.cpp) each read is complete when the call that begins it returns. A queue belongs to one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice {

// The alignment of the offset, the address and the length of every read.
inline constexpr uint64_t kReadAlignment = 4096;

struct FileRead {
  uint64_t id = 0;    // chosen by the caller
  uint32_t file = 0;  // index into the paths that were opened
  uint64_t offset = 0;
  std::span<std::byte> into{};  // untouched until the read has ended
};

struct ReadEnd {
  uint64_t id = 0;
  int64_t bytes =
      0;  // read, perhaps fewer than wanted, and none at the file's end; negative: the system's error number
};

class ReadQueue {
 public:
  virtual ~ReadQueue() = default;               // waits until no read writes into memory
  virtual std::string description() const = 0;  // "io_uring, past the page cache"
  virtual uint32_t depth() const = 0;           // the largest number of reads under way
  // Whether reads go on while this thread computes. If they do not, prefetching gains nothing.
  virtual bool in_background() const { return true; }
  virtual void begin(const FileRead& read) = 0;
  // Appends the reads that have ended. With `wait` and reads under way, waits some milliseconds for the first one.
  virtual void take_ended(std::vector<ReadEnd>& ended, bool wait) = 0;
};

enum class ReadMethod : uint8_t { best, uring, threads };

// Fails if a file cannot be opened or the system does not have the method.
Result<std::unique_ptr<ReadQueue>> open_read_queue(const std::vector<std::string>& paths,
                                                   ReadMethod method = ReadMethod::best);

}  // namespace sluice
