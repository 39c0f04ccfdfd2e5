// q5_1: 32 elements share a scale and a minimum: x = d * q + m. Layout and encoder of ggml's Q5_1.
//
//   byte  0   f16   d
//         2   f16   m
//         4   u8    high[4]   bit j % 8 of byte j / 8: the fifth bit of element j
//         8   u8    q[16]     element j in the low half of byte j, element j + 16 in the high half
//        24
#pragma once

#include "format/format.h"
#include "format/half.h"
#include "format/rounding.h"

namespace sluice {

struct Q5_1 {
  static constexpr Format kFormat = Format::q5_1;
  static constexpr const char* kName = "q5_1";
  static constexpr uint32_t kBlockElements = 32;
  static constexpr int kGgmlType = 7;
  static constexpr float kLargest = 65504.0f;

  struct Block {
    uint16_t d, m;
    uint8_t high[4];
    uint8_t q[16];
  };
  static_assert(sizeof(Block) == 24);

  static void load16(const Block& block, uint32_t part, float* to) {
    const float d = f32_from_f16(block.d), m = f32_from_f16(block.m);
    for (uint32_t i = 0; i < 16; ++i) {
      const int fifth = block.high[2 * part + i / 8] >> i % 8 & 1;
      to[i] = static_cast<float>((block.q[i] >> 4 * part & 15) | fifth << 4) * d + m;
    }
  }

  static Block encode(const float* from) {
    const Range range = range_of(from, kBlockElements);
    const float d = (range.high - range.low) / 31.0f;
    const float inverse = inverse_or_0(d);
    Block block{f16_from_f32(d), f16_from_f32(range.low), {}, {}};
    for (uint32_t i = 0; i < kBlockElements; ++i) {
      const int q = truncated((from[i] - range.low) * inverse + 0.5f, 0, 31);
      block.q[i % 16] |= static_cast<uint8_t>((q & 15) << (i < 16 ? 0 : 4));
      block.high[i / 8] |= static_cast<uint8_t>((q >> 4) << i % 8);
    }
    return block;
  }
};

}  // namespace sluice
