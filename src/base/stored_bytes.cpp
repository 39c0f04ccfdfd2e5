#include "base/stored_bytes.h"

#include <algorithm>

namespace sluice {

const std::byte* StoredAt::read(uint64_t bytes, std::vector<std::byte>& room) const {
  if (in_memory()) return memory_;
  room.resize(static_cast<size_t>(bytes));
  if (!file_->read_at(offset_, room)) std::fill(room.begin(), room.end(), std::byte{0});
  return room.data();
}

}  // namespace sluice
