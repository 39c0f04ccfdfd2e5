#include "serve/request_memory.h"

#include <algorithm>

#include "base/text.h"
#include "media/decode/picture_file.h"
#include "serve/media_fields.h"

namespace sluice {
namespace {

constexpr uint64_t kTextRequestBytes = uint64_t{128} << 20;  // two large requests that are read at once
constexpr uint64_t kConnectionsBytes = uint64_t{128} << 20;

}  // namespace

uint64_t largest_input_bytes(std::span<const TowerRoom> towers) {
  uint64_t bytes = 0;
  for (const TowerRoom& tower : towers) bytes = std::max(bytes, tower.kept);
  return bytes;
}

uint64_t text_request_bytes(uint64_t bound) { return std::min(kTextRequestBytes, bound / 16); }

uint64_t media_request_bytes(uint64_t bound, uint64_t input_bytes) {
  const uint64_t largest = kMaxServedPixels * kPictureDecodeBytes + preparing_bytes(input_bytes);
  return std::min(std::max(largest, kTextRequestBytes), bound / 8);
}

uint64_t connection_memory_bytes(uint64_t bound) { return std::min(kConnectionsBytes, bound / 16); }

RequestMemory::RequestMemory(Budget& budget, uint64_t bytes) : budget_(&budget) {
  if (Result<Reservation> none = budget.reserve(Domain::host, Purpose::staging, 0)) whole_ = *std::move(none);
  grow(bytes);
}

void RequestMemory::grow(uint64_t bytes) {
  const uint64_t before = whole_.bytes();
  if (bytes > before && !whole_.resize(bytes))
    (void)whole_.resize(std::min(bytes, before + budget_->left(Domain::host) / 2));
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
