// A cursor over a ByteSource for binary headers: little-endian numbers and length-prefixed strings. Each length is
// checked against the remaining bytes before anything is allocated. The cursor reads ahead in pieces, so small reads
// are cheap.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"
#include "base/result.h"

namespace sluice {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie in the file");

class ByteReader {
 public:
  // Reads at most the first `limit` bytes of `source`, which must outlive the reader. Every error begins with `where`.
  ByteReader(const ByteSource& source, std::string where, uint64_t limit);

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return end_ - position_; }

  // `what` names the number ("key length") in the error about a file that ends too early.
  template <class T>
  Result<T> number(std::string_view what) {
    T value{};
    TRY_STATUS(fill(std::as_writable_bytes(std::span(&value, 1)), what));
    return value;
  }
  // u64 length, then the bytes.
  Result<std::string> string(std::string_view what);
  Status fill(std::span<std::byte> into, std::string_view what);

  // "model.gguf: byte 24: ..."
  template <class... Parts>
  Error corrupt(const Parts&... parts) const {
    return error(ErrorKind::corrupt, where_, ": byte ", position_, ": ", parts...);
  }

 private:
  const ByteSource& source_;
  std::string where_;
  uint64_t end_;
  uint64_t position_ = 0;
  std::vector<std::byte> ahead_;  // bytes of the source from ahead_offset_
  uint64_t ahead_offset_ = 0;
};

}  // namespace sluice
