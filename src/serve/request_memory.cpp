#include "serve/request_memory.h"

#include <algorithm>

#include "base/text.h"
#include "media/decode/picture_file.h"
#include "serve/media_fields.h"

namespace sluice {

uint64_t largest_input_bytes(std::span<const TowerRoom> towers) {
  uint64_t bytes = 0;
  for (const TowerRoom& tower : towers) bytes = std::max(bytes, tower.kept);
  return bytes;
}

uint64_t request_memory_bytes(uint64_t bound, uint64_t input_bytes) {
  return std::min(kMaxServedPixels * kPictureDecodeBytes + preparing_bytes(input_bytes), bound / 8);
}

RequestMemory::RequestMemory(Budget& budget, uint64_t bytes) {
  Result<Reservation> whole = budget.reserve(Domain::host, Purpose::staging, bytes);
  if (!whole) whole = budget.reserve(Domain::host, Purpose::staging, budget.left(Domain::host) / 2);
  if (whole) whole_ = *std::move(whole);
  parts_.set_limit(Domain::host, whole_.bytes());
}

Status MemoryLease::resize(uint64_t bytes, const std::string& where) {
  if (memory_ == nullptr) return {};
  if (bytes > memory_->bytes())
    return error(ErrorKind::unsupported, where, ": the request takes ", format_bytes(bytes),
                 " of memory to read: want at most ", format_bytes(memory_->bytes()));
  Status fits;
  if (held_.bytes() != 0) {
    fits = held_.resize(bytes);
  } else {
    Result<Reservation> made = memory_->parts_.reserve(Domain::host, Purpose::staging, bytes);
    if (made)
      held_ = *std::move(made);
    else
      fits = std::move(made).error();
  }
  if (fits) return {};
  return error(ErrorKind::out_of_memory, where, ": the request takes ", format_bytes(bytes),
               " of memory to read, and other requests hold too much of ", format_bytes(memory_->bytes()),
               ": want the same request later");
}

}  // namespace sluice
