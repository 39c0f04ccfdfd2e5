// The code-books of the iq formats (ggml-common.h): lists of short vectors that blocks refer to by index.
//
// An entry packs one digit an element. Element 0 is in the lowest bits, element 1 in the next, and so on.
//   iq2, iq1   8 elements of 2 bits   digit 0, 1, 2: magnitudes 8, 25, 43 (iq2), numbers -1, 0, 1 (iq1)
//   iq3        4 elements of 3 bits   digit g: 4, 12, 20, 28, 36, 44, 52, 62 (iq3_xxs), 2 g + 1 (iq3_s)
#pragma once

#include <cstdint>

namespace sluice {

extern const uint16_t kIq2xxsGrid[256];
extern const uint16_t kIq2xsGrid[512];
extern const uint16_t kIq2sGrid[1024];
extern const uint16_t kIq3xxsGrid[256];
extern const uint16_t kIq3sGrid[512];
extern const uint16_t kIq1Grid[2048];

// Element j of an entry.
inline float iq2_magnitude(uint16_t entry, uint32_t j) {
  constexpr float kMagnitudes[4] = {8, 25, 43, 0};
  return kMagnitudes[entry >> 2 * j & 3];
}
inline float iq1_number(uint16_t entry, uint32_t j) { return static_cast<float>(entry >> 2 * j & 3) - 1.0f; }
inline float iq3xxs_magnitude(uint16_t entry, uint32_t j) {
  constexpr float kMagnitudes[8] = {4, 12, 20, 28, 36, 44, 52, 62};
  return kMagnitudes[entry >> 3 * j & 7];
}
inline float iq3s_magnitude(uint16_t entry, uint32_t j) { return static_cast<float>(entry >> 3 * j & 7) * 2.0f + 1.0f; }

// The signs of eight elements, of which seven bits are stored: the eighth makes the number of minus signs even.
constexpr uint32_t even_signs(uint32_t seven) { return seven | (0x6996u >> ((seven ^ seven >> 4) & 15) & 1) << 7; }

inline float with_sign(float magnitude, uint32_t signs, uint32_t j) { return signs >> j & 1 ? -magnitude : magnitude; }

}  // namespace sluice
