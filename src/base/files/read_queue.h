// Reads of files at offsets, many under way at once, past the page cache where the file's system can do that.
//
//   io_uring   the kernel reads while this thread computes
//   threads    some threads that wait for a read each, where there is no io_uring
//
// In a page (read_queue_wasi.cpp) a read has ended when it begins. A queue belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice {

// Of the offset, the address and the length of every read.
inline constexpr uint64_t kReadAlignment = 4096;

struct FileRead {
  uint64_t id = 0;    // the caller's
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
  virtual ~ReadQueue() = default;               // when nothing is read into memory any more
  virtual std::string description() const = 0;  // "io_uring, past the page cache"
  virtual uint32_t depth() const = 0;           // reads that may be under way
  // Whether they go on while this thread computes: else nothing is worth reading before it is wanted.
  virtual bool in_background() const { return true; }
  virtual void begin(const FileRead& read) = 0;
  // Appends what has ended; where `wait` is set and reads are under way, waits some milliseconds for the first.
  virtual void take_ended(std::vector<ReadEnd>& ended, bool wait) = 0;
};

enum class ReadMethod : uint8_t { best, uring, threads };

// Fails where a file cannot be opened, or a method is asked for that is not here.
Result<std::unique_ptr<ReadQueue>> open_read_queue(const std::vector<std::string>& paths,
                                                   ReadMethod method = ReadMethod::best);

}  // namespace sluice
