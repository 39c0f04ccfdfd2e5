// q2_k: 256 elements; each 16 have a 4-bit scale and minimum: x = d * scale * q - dmin * minimum. ggml's Q2_K.
//
//   byte  0   u8    scales[16]  low half: scale of the part, high half: minimum
//        16   u8    q[64]       element 128 n + 32 r + l: bits 2 r, 2 r + 1 of byte 32 n + l
//        80   f16   d
//        82   f16   dmin
//        84
#pragma once

#include "format/format.h"
#include "format/half.h"

namespace sluice {

struct Q2_K {
  static constexpr Format kFormat = Format::q2_k;
  static constexpr const char* kName = "q2_k";
  static constexpr uint32_t kBlockElements = 256;
  static constexpr int kGgmlType = 10;
  static constexpr float kLargest = 65504.0f;

  struct Block {
    uint8_t scales[16];
    uint8_t q[64];
    uint16_t d, dmin;
  };
  static_assert(sizeof(Block) == 84);

  static void load16(const Block& block, uint32_t part, float* to) {
    const float scale = f32_from_f16(block.d) * static_cast<float>(block.scales[part] & 15);
    const float minimum = f32_from_f16(block.dmin) * static_cast<float>(block.scales[part] >> 4);
    const uint8_t* q = block.q + part / 8 * 32 + part % 2 * 16;
    const uint32_t shift = part % 8 / 2 * 2;
    for (uint32_t i = 0; i < 16; ++i) to[i] = scale * static_cast<float>(q[i] >> shift & 3) - minimum;
  }

  static Block encode(const float* from);
};

}  // namespace sluice
