// q3_k: 256 elements; each 16 have a signed 6-bit scale: x = d * (scale - 32) * (q - 4). ggml's Q3_K.
//
//   byte  0   u8    high[32]    element 32 s + l: bit s of byte l, the third bit of q
//        32   u8    q[64]       element 128 n + 32 r + l: bits 2 r, 2 r + 1 of byte 32 n + l
//        96   u8    scales[12]  scale g: low 4 bits in half g / 8 of byte g % 8
//                               high 2 bits at bit g / 4 * 2 of byte 8 + g % 4
//       108   f16   d
//       110
#pragma once

#include "format/format.h"
#include "format/half.h"

namespace sluice {

struct Q3_K {
  static constexpr Format kFormat = Format::q3_k;
  static constexpr const char* kName = "q3_k";
  static constexpr uint32_t kBlockElements = 256;
  static constexpr int kGgmlType = 11;
  static constexpr float kLargest = 65504.0f;

  struct Block {
    uint8_t high[32];
    uint8_t q[64];
    uint8_t scales[12];
    uint16_t d;
  };
  static_assert(sizeof(Block) == 110);

  static int scale(const Block& block, uint32_t part) {
    const int low = block.scales[part % 8] >> part / 8 * 4 & 15;
    const int high = block.scales[8 + part % 4] >> part / 4 * 2 & 3;
    return (low | high << 4) - 32;
  }

  static void load16(const Block& block, uint32_t part, float* to) {
    const float d = f32_from_f16(block.d) * static_cast<float>(scale(block, part));
    const uint8_t* q = block.q + part / 8 * 32 + part % 2 * 16;
    const uint8_t* high = block.high + part % 2 * 16;
    const uint32_t shift = part % 8 / 2 * 2;
    for (uint32_t i = 0; i < 16; ++i) {
      const int third = high[i] >> part / 2 & 1;
      to[i] = d * static_cast<float>(((q[i] >> shift & 3) | third << 2) - 4);
    }
  }

  static Block encode(const float* from);
};

}  // namespace sluice
