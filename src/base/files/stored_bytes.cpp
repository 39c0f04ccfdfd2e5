#include "base/files/stored_bytes.h"

#include <algorithm>
#include <functional>

namespace sluice {

const std::byte* StoredAt::read(uint64_t bytes, std::vector<std::byte>& room) const {
  return in_memory() ? memory_ : fetch(bytes, room);
}

const std::byte* StoredAt::fetch(uint64_t bytes, std::vector<std::byte>& room) const {
  if (file_ == nullptr) return memory_;
  room.resize(static_cast<size_t>(bytes));
  if (file_->read_at(offset_, room)) return room.data();
  if (memory_ != nullptr) return memory_;
  std::fill(room.begin(), room.end(), std::byte{0});
  return room.data();
}

std::optional<uint64_t> StoredBytes::offset_of(const StoredAt& byte) const {
  if (byte.in_memory() != data_.in_memory()) return std::nullopt;
  if (byte.in_memory()) {
    const std::less<const std::byte*> before;
    const std::byte* const end = data_.memory_ + size_;
    if (before(byte.memory_, data_.memory_) || !before(byte.memory_, end)) return std::nullopt;
    return static_cast<uint64_t>(byte.memory_ - data_.memory_);
  }
  if (byte.file_ != data_.file_ || byte.offset_ < data_.offset_ || byte.offset_ - data_.offset_ >= size_)
    return std::nullopt;
  return byte.offset_ - data_.offset_;
}

}  // namespace sluice
