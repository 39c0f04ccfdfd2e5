// Memory for large tables, aligned to cache lines and not initialised. Allocation does not touch it, so the system
// provides pages when they are used.
#pragma once

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/result.h"

namespace sluice {

class LargeBuffer {
 public:
  // `alignment`: a power of two, whole cache lines.
  static Result<LargeBuffer> take(uint64_t bytes, const char* what, size_t alignment = 64) {
    LargeBuffer buffer;
    buffer.size_ = bytes;
    if (bytes == 0) return buffer;
    const uint64_t whole = (bytes + alignment - 1) / alignment * alignment;
    if (whole <= SIZE_MAX)
      buffer.bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, static_cast<size_t>(whole))));
    if (buffer.bytes_ == nullptr)
      return error(ErrorKind::out_of_memory, what, ": found too little memory: want ", bytes, " bytes");
    return buffer;
  }
  std::byte* data() const { return bytes_.get(); }
  // Asks the system for large pages, if it has them. Call it before the bytes are touched.
  void prefer_huge_pages() const {
#if defined(MADV_HUGEPAGE)
    constexpr uint64_t kPage = 4096;
    const uint64_t before = (kPage - reinterpret_cast<uintptr_t>(data()) % kPage) % kPage;  // the first whole page
    if (before < size_) ::madvise(data() + before, (size_ - before) / kPage * kPage, MADV_HUGEPAGE);
#endif
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  uint64_t size_ = 0;
};

}  // namespace sluice
