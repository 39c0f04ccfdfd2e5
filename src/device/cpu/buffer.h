// Memory for large tables: on cache lines, not touched when it is taken, so that the system gives pages as they are
// used. Its bytes are whatever they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/result.h"

namespace sluice::cpu {

class Buffer {
 public:
  static Result<Buffer> take(uint64_t bytes, const char* what) {
    Buffer buffer;
    if (bytes == 0) return buffer;
    const uint64_t whole_lines = (bytes + 63) / 64 * 64;
    if (whole_lines <= SIZE_MAX)
      buffer.bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(whole_lines))));
    if (buffer.bytes_ == nullptr)
      return error(ErrorKind::out_of_memory, what, ": found too little memory: want ", bytes, " bytes");
    return buffer;
  }
  std::byte* data() const { return bytes_.get(); }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

}  // namespace sluice::cpu
