// iq1_s and iq1_m: 256 elements in groups of eight; group g is elements [8 g, 8 g + 8). Each group is an 11-bit index
// of an entry of a code-book. An entry is eight numbers of -1, 0, 1, all moved up or down by 1/8. Scales have 3 bits:
// x = d * (2 scale + 1) * (entry +- 1/8). Layouts of ggml's IQ1_S and IQ1_M.
#pragma once

#include "format/format.h"
#include "format/half.h"
#include "format/iq_grids.h"

namespace sluice {

inline constexpr float kIq1Shift = 0.125f;

// Each 32 elements share a scale and a shift.
//
//   byte  0   f16   d
//         2   u8    entry[32]    low 8 bits of the index of group g
//        34   u16   high[8]      one word for 32 elements: bits 3 (g % 4) .. 3 (g % 4) + 2: high bits of the index of
//                                group g; bits 12 .. 14: scale; bit 15: 1 moves down, 0 moves up
//        50
struct IQ1_S {
  static constexpr Format kFormat = Format::iq1_s;
  static constexpr const char* kName = "iq1_s";
  static constexpr uint32_t kBlockElements = 256;
  static constexpr int kGgmlType = 19;

  struct Block {
    uint16_t d;
    uint8_t entry[32];
    uint16_t high[8];
  };
  static_assert(sizeof(Block) == 50);

  static void load16(const Block& block, uint32_t part, float* to) {
    const uint16_t high = block.high[part / 2];
    const float d = f32_from_f16(block.d) * static_cast<float>(2 * (high >> 12 & 7) + 1);
    const float shift = high & 0x8000 ? -kIq1Shift : kIq1Shift;
    for (uint32_t i = 0; i < 16; ++i) {
      const uint32_t g = 2 * part + i / 8;
      const int entry = block.entry[g] | (high >> g % 4 * 3 & 7) << 8;
      to[i] = d * (iq1_number(kIq1Grid[entry], i % 8) + shift);
    }
  }
};

// Each 16 elements (part p) share a scale, and each group has a shift of its own.
//
//   byte  0   u8    entry[32]    low 8 bits of the index of group g
//        32   u8    high[16]     half g % 2 of byte g / 2: high 3 bits of the index of group g, then 1 for down
//        48   u16   scales[4]    bits 3 (p % 4) .. 3 (p % 4) + 2 of word p / 4: scale of part p
//                                bits 12 .. 15 of word n: bits 4 n .. 4 n + 3 of d, an f16
//        56
struct IQ1_M {
  static constexpr Format kFormat = Format::iq1_m;
  static constexpr const char* kName = "iq1_m";
  static constexpr uint32_t kBlockElements = 256;
  static constexpr int kGgmlType = 29;

  struct Block {
    uint8_t entry[32];
    uint8_t high[16];
    uint16_t scales[4];
  };
  static_assert(sizeof(Block) == 56);

  static uint16_t scale_bits(const Block& block) {
    uint32_t bits = 0;
    for (uint32_t n = 0; n < 4; ++n) bits |= uint32_t{block.scales[n]} >> 12 << 4 * n;
    return static_cast<uint16_t>(bits);
  }

  static void load16(const Block& block, uint32_t part, float* to) {
    const int scale = block.scales[part / 4] >> part % 4 * 3 & 7;
    const float d = f32_from_f16(scale_bits(block)) * static_cast<float>(2 * scale + 1);
    for (uint32_t i = 0; i < 16; ++i) {
      const int high = block.high[part] >> i / 8 * 4 & 15;
      const int entry = block.entry[2 * part + i / 8] | (high & 7) << 8;
      to[i] = d * (iq1_number(kIq1Grid[entry], i % 8) + (high & 8 ? -kIq1Shift : kIq1Shift));
    }
  }
};

}  // namespace sluice
