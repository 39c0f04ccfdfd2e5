// q4_0: 32 elements share one scale: x = d * (q - 8). Layout and encoder of ggml's Q4_0.
//
//   byte  0   f16   d
//         2   u8    q[16]     element j in the low half of byte j, element j + 16 in the high half
//        18
//
// The encoder maps the element of largest magnitude to q = 0, so that d has the opposite sign.
#pragma once

#include "format/format.h"
#include "format/half.h"
#include "format/rounding.h"

namespace sluice {

struct Q4_0 {
  static constexpr Format kFormat = Format::q4_0;
  static constexpr const char* kName = "q4_0";
  static constexpr uint32_t kBlockElements = 32;
  static constexpr int kGgmlType = 2;
  static constexpr float kLargest = 65504.0f * 8.0f;

  struct Block {
    uint16_t d;
    uint8_t q[16];
  };
  static_assert(sizeof(Block) == 18);

  static void load16(const Block& block, uint32_t part, float* to) {
    const float d = f32_from_f16(block.d);
    for (uint32_t i = 0; i < 16; ++i) to[i] = static_cast<float>((block.q[i] >> 4 * part & 15) - 8) * d;
  }

  static Block encode(const float* from) {
    const float d = farthest_from_0(from, kBlockElements) / -8.0f;
    const float inverse = inverse_or_0(d);
    Block block{f16_from_f32(d), {}};
    for (uint32_t i = 0; i < kBlockElements; ++i) {
      const int q = truncated(from[i] * inverse + 8.5f, 0, 15);
      block.q[i % 16] |= static_cast<uint8_t>(q << (i < 16 ? 0 : 4));
    }
    return block;
  }
};

}  // namespace sluice
