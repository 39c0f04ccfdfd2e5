// q6_k: 256 elements; each 16 have a signed 8-bit scale: x = d * scale * (q - 32). ggml's Q6_K.
//
//   byte  0   u8    low[128]    element 128 n + 32 r + l: low 4 bits of q in half r / 2 of byte 64 n + 32 (r % 2) + l
//       128   u8    high[64]    element 128 n + 32 r + l: high 2 bits of q in bits 2 r, 2 r + 1 of byte 32 n + l
//       192   i8    scales[16]
//       208   f16   d
//       210
#pragma once

#include "format/format.h"
#include "format/half.h"

namespace sluice {

struct Q6_K {
  static constexpr Format kFormat = Format::q6_k;
  static constexpr const char* kName = "q6_k";
  static constexpr uint32_t kBlockElements = 256;
  static constexpr int kGgmlType = 14;
  static constexpr float kLargest = 65504.0f;

  struct Block {
    uint8_t low[128];
    uint8_t high[64];
    int8_t scales[16];
    uint16_t d;
  };
  static_assert(sizeof(Block) == 210);

  static void load16(const Block& block, uint32_t part, float* to) {
    const float d = f32_from_f16(block.d) * static_cast<float>(block.scales[part]);
    const uint8_t* low = block.low + part / 8 * 64 + part % 4 * 16;
    const uint8_t* high = block.high + part / 8 * 32 + part % 2 * 16;
    const uint32_t r = part % 8 / 2;
    for (uint32_t i = 0; i < 16; ++i) {
      const int q = (low[i] >> r / 2 * 4 & 15) | (high[i] >> 2 * r & 3) << 4;
      to[i] = d * static_cast<float>(q - 32);
    }
  }

  static Block encode(const float* from);
};

}  // namespace sluice
