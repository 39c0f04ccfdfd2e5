// A reference to stored bytes. The bytes lie in memory, mapped or not, or in a file without addresses, as in a page.
// The bytes of such a file are read when they are needed. Those of a mapped file can be read, too: where a virtual
// machine makes page faults slow, that is several times as fast as touching pages for the first time
// (docs/experiments.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/files/file.h"

namespace sluice {

// The position of a stored byte, like a pointer to it. The creator keeps the memory or the file alive.
class StoredAt {
 public:
  StoredAt() = default;
  StoredAt(const std::byte* memory) : memory_(memory) {}
  StoredAt(const ByteSource& file, uint64_t offset) : file_(&file), offset_(offset) {}
  // A byte of a mapped file.
  StoredAt(const std::byte* memory, const ByteSource& file, uint64_t offset)
      : memory_(memory), file_(&file), offset_(offset) {}

  bool in_memory() const { return memory_ != nullptr || file_ == nullptr; }
  bool in_file() const { return file_ != nullptr; }
  // For bytes in memory: all except a page's files.
  operator const std::byte*() const {
    CHECK(in_memory());
    return memory_;
  }
  // `bytes` bytes from here on, in place or copied into `room`. If the file cannot be read they are zeros, and
  // Mapping::check_unchanged() returns the error.
  const std::byte* read(uint64_t bytes, std::vector<std::byte>& room) const;
  // The same, but bytes of a mapped file are copied, too, for bytes that are wanted once. If that file cannot be read
  // they are those in place.
  const std::byte* fetch(uint64_t bytes, std::vector<std::byte>& room) const;

  StoredAt& operator+=(uint64_t bytes) {
    if (memory_ != nullptr) memory_ += static_cast<size_t>(bytes);
    if (file_ != nullptr) offset_ += bytes;
    return *this;
  }
  friend StoredAt operator+(StoredAt at, uint64_t bytes) { return at += bytes; }

 private:
  friend class StoredBytes;
  const std::byte* memory_ = nullptr;
  const ByteSource* file_ = nullptr;
  uint64_t offset_ = 0;
};

class StoredBytes {
 public:
  StoredBytes() = default;
  StoredBytes(std::span<const std::byte> memory) : data_(memory.data()), size_(memory.size()) {}
  StoredBytes(StoredAt data, uint64_t size) : data_(data), size_(size) {}

  StoredAt data() const { return data_; }
  uint64_t size() const { return size_; }
  // The offset of a byte in this range; none if it lies outside.
  std::optional<uint64_t> offset_of(const StoredAt& byte) const;
  operator std::span<const std::byte>() const {
    return {static_cast<const std::byte*>(data_), static_cast<size_t>(size_)};
  }

 private:
  StoredAt data_;
  uint64_t size_ = 0;
};

}  // namespace sluice
