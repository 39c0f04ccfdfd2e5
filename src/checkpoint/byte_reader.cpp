#include "checkpoint/byte_reader.h"

#include <algorithm>
#include <cstring>

namespace sluice {

namespace {
constexpr uint64_t kAheadBytes = 1 << 16;
}

ByteReader::ByteReader(const ByteSource& source, std::string where, uint64_t limit)
    : source_(source), where_(std::move(where)), end_(std::min(source.size(), limit)) {}

Result<std::string> ByteReader::string(std::string_view what) {
  TRY(const uint64_t length, number<uint64_t>(what));
  if (length > remaining()) return corrupt(what, " has ", length, " bytes: want at most ", remaining());
  std::string text(static_cast<size_t>(length), '\0');
  TRY_STATUS(fill(std::as_writable_bytes(std::span(text)), what));
  return text;
}

Status ByteReader::fill(std::span<std::byte> into, std::string_view what) {
  if (into.size() > remaining())
    return corrupt("the header ends inside ", what, ": want ", into.size(), " bytes, found ", remaining());
  while (!into.empty()) {
    const bool held = position_ >= ahead_offset_ && position_ < ahead_offset_ + ahead_.size();
    if (!held) {
      ahead_.resize(static_cast<size_t>(std::min(kAheadBytes, remaining())));
      ahead_offset_ = position_;
      TRY_STATUS(source_.read_at(position_, ahead_));
    }
    const auto from = std::span(ahead_).subspan(static_cast<size_t>(position_ - ahead_offset_));
    const size_t count = std::min(from.size(), into.size());
    std::memcpy(into.data(), from.data(), count);
    into = into.subspan(count);
    position_ += count;
  }
  return {};
}

}  // namespace sluice
