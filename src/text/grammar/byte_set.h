// A set of bytes.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace sluice {

class ByteSet {
 public:
  constexpr ByteSet() = default;
  static constexpr ByteSet range(uint32_t first, uint32_t last) {
    ByteSet set;
    for (uint32_t byte = first; byte <= last; ++byte) set.add(static_cast<uint8_t>(byte));
    return set;
  }
  static constexpr ByteSet of(uint8_t byte) { return range(byte, byte); }

  constexpr void add(uint8_t byte) { words_[byte >> 6] |= uint64_t{1} << (byte & 63); }
  constexpr void remove(uint8_t byte) { words_[byte >> 6] &= ~(uint64_t{1} << (byte & 63)); }
  constexpr bool has(uint8_t byte) const { return (words_[byte >> 6] >> (byte & 63) & 1) != 0; }
  constexpr bool empty() const { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }
  constexpr uint32_t size() const {
    uint32_t count = 0;
    for (const uint64_t word : words_) count += static_cast<uint32_t>(std::popcount(word));
    return count;
  }
  constexpr ByteSet operator|(const ByteSet& other) const {
    ByteSet set;
    for (size_t i = 0; i < 4; ++i) set.words_[i] = words_[i] | other.words_[i];
    return set;
  }
  constexpr ByteSet operator-(const ByteSet& other) const {
    ByteSet set;
    for (size_t i = 0; i < 4; ++i) set.words_[i] = words_[i] & ~other.words_[i];
    return set;
  }
  constexpr auto operator<=>(const ByteSet&) const = default;

 private:
  std::array<uint64_t, 4> words_{};
};

}  // namespace sluice
