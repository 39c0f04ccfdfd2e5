// iq4_nl and iq4_xs: 4-bit indices of sixteen fixed numbers, which are denser near 0. Layouts of ggml's IQ4_NL, IQ4_XS.
//
//   iq4_nl, 32 elements: x = d * kNumbers[q]
//     byte  0   f16   d
//           2   u8    q[16]         element j in the low half of byte j, element j + 16 in the high half
//          18
//   iq4_xs, 256 elements; each 32 have a 6-bit scale: x = d * (scale - 32) * kNumbers[q]
//     byte  0   f16   d
//           2   u16   scales_high   bits 2 s, 2 s + 1: the high 2 bits of scale s
//           4   u8    scales_low[4] the low 4 bits, in half s % 2 of byte s / 2
//           8   u8    q[128]        element 32 s + j: low half of byte 16 s + j; element 32 s + 16 + j: its high half
//         136
#pragma once

#include "format/format.h"
#include "format/half.h"

namespace sluice {

struct IQ4_NL {
  static constexpr Format kFormat = Format::iq4_nl;
  static constexpr const char* kName = "iq4_nl";
  static constexpr uint32_t kBlockElements = 32;
  static constexpr int kGgmlType = 20;
  static constexpr float kLargest = 65504.0f * 100.0f;
  static constexpr int8_t kNumbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

  struct Block {
    uint16_t d;
    uint8_t q[16];
  };
  static_assert(sizeof(Block) == 18);

  static void load16(const Block& block, uint32_t part, float* to) {
    const float d = f32_from_f16(block.d);
    for (uint32_t i = 0; i < 16; ++i) to[i] = d * static_cast<float>(kNumbers[block.q[i] >> 4 * part & 15]);
  }

  static Block encode(const float* from);
};

struct IQ4_XS {
  static constexpr Format kFormat = Format::iq4_xs;
  static constexpr const char* kName = "iq4_xs";
  static constexpr uint32_t kBlockElements = 256;
  static constexpr int kGgmlType = 23;
  static constexpr float kLargest = 65504.0f;

  struct Block {
    uint16_t d;
    uint16_t scales_high;
    uint8_t scales_low[4];
    uint8_t q[128];
  };
  static_assert(sizeof(Block) == 136);

  static void load16(const Block& block, uint32_t part, float* to) {
    const uint32_t s = part / 2;
    const int scale = (block.scales_low[s / 2] >> s % 2 * 4 & 15) | (block.scales_high >> 2 * s & 3) << 4;
    const float d = f32_from_f16(block.d) * static_cast<float>(scale - 32);
    const uint8_t* q = block.q + 16 * s;
    for (uint32_t i = 0; i < 16; ++i) to[i] = d * static_cast<float>(IQ4_NL::kNumbers[q[i] >> part % 2 * 4 & 15]);
  }

  static Block encode(const float* from);
};

}  // namespace sluice
