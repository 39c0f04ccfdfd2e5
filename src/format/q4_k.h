// q4_k: 256 elements; each 32 have a 6-bit scale and minimum: x = d * scale * q - dmin * minimum. ggml's Q4_K.
//
//   byte  0   f16   d
//         2   f16   dmin
//         4   u8    scales[12]  k_scales.h
//        16   u8    q[128]      element 64 k + l: low half of byte 32 k + l; element 64 k + 32 + l: its high half
//       144
#pragma once

#include "format/format.h"
#include "format/half.h"
#include "format/k_scales.h"

namespace sluice {

struct Q4_K {
  static constexpr Format kFormat = Format::q4_k;
  static constexpr const char* kName = "q4_k";
  static constexpr uint32_t kBlockElements = 256;
  static constexpr int kGgmlType = 12;
  static constexpr float kLargest = 65504.0f;

  struct Block {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t q[128];
  };
  static_assert(sizeof(Block) == 144);

  static void load16(const Block& block, uint32_t part, float* to) {
    const KScale pair = k_scale(block.scales, part / 2);
    const float scale = f32_from_f16(block.d) * static_cast<float>(pair.scale);
    const float minimum = f32_from_f16(block.dmin) * static_cast<float>(pair.minimum);
    const uint8_t* q = block.q + part / 4 * 32 + part % 2 * 16;
    const uint32_t shift = part % 4 / 2 * 4;
    for (uint32_t i = 0; i < 16; ++i) to[i] = scale * static_cast<float>(q[i] >> shift & 15) - minimum;
  }

  static Block encode(const float* from);
};

}  // namespace sluice
