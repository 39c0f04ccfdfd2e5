// The 6-bit scales and minima that q4_k and q5_k keep for each 32 of their 256 elements: eight pairs in 12 bytes.
//
//   pair s < 4    scale:    low 6 bits of byte s
//                 minimum:  low 6 bits of byte s + 4
//   pair s >= 4   scale:    low 4 bits in the low half of byte s + 4, high 2 bits in the top of byte s - 4
//                 minimum:  low 4 bits in the high half of byte s + 4, high 2 bits in the top of byte s
#pragma once

#include <cstdint>

namespace sluice {

struct KScale {
  uint8_t scale, minimum;
};

inline KScale k_scale(const uint8_t* bytes, uint32_t s) {
  if (s < 4) return {static_cast<uint8_t>(bytes[s] & 63), static_cast<uint8_t>(bytes[s + 4] & 63)};
  return {static_cast<uint8_t>((bytes[s + 4] & 15) | bytes[s - 4] >> 6 << 4),
          static_cast<uint8_t>(bytes[s + 4] >> 4 | bytes[s] >> 6 << 4)};
}

// Writes pair s. The bytes must begin as zeros, and each pair may be written once.
inline void set_k_scale(uint8_t* bytes, uint32_t s, KScale pair) {
  if (s < 4) {
    bytes[s] |= pair.scale;
    bytes[s + 4] |= pair.minimum;
    return;
  }
  bytes[s + 4] = static_cast<uint8_t>((pair.scale & 15) | pair.minimum << 4);
  bytes[s - 4] |= static_cast<uint8_t>(pair.scale >> 4 << 6);
  bytes[s] |= static_cast<uint8_t>(pair.minimum >> 4 << 6);
}

}  // namespace sluice
