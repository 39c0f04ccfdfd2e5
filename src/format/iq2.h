// iq2_xxs, iq2_xs and iq2_s: 256 elements in groups of eight; group g is elements [8 g, 8 g + 8). Each group is the
// index of an entry of a code-book, which gives eight magnitudes, and eight signs. Scales have 4 bits.
// x = +-d * (scale + 1/2) / 4 * entry. Layouts of ggml's IQ2_XXS, IQ2_XS and IQ2_S.
#pragma once

#include "format/format.h"
#include "format/half.h"
#include "format/iq_grids.h"

namespace sluice {

// Each 32 elements (four groups) share a scale.
//
//   byte  0   f16   d
//         2   parts[8], each for 32 elements:
//               u8    entry[4]   index of group g % 4
//               u32   bits       bits 7 (g % 4) .. 7 (g % 4) + 6: signs (even_signs) of the group; bits 28 .. 31: scale
//        66
struct IQ2_XXS {
  static constexpr Format kFormat = Format::iq2_xxs;
  static constexpr const char* kName = "iq2_xxs";
  static constexpr uint32_t kBlockElements = 256;
  static constexpr int kGgmlType = 16;

  struct Block {
    uint16_t d;
    struct Part32 {
      uint8_t entry[4];
      uint16_t low, high;  // halves of the u32, which is not aligned
    } parts[8];
  };
  static_assert(sizeof(Block) == 66);

  static void load16(const Block& block, uint32_t part, float* to) {
    const Block::Part32& from = block.parts[part / 2];
    const uint32_t bits = from.low | uint32_t{from.high} << 16;
    const float d = f32_from_f16(block.d) * (0.5f + static_cast<float>(bits >> 28)) * 0.25f;
    for (uint32_t i = 0; i < 16; ++i) {
      const uint32_t g = part % 2 * 2 + i / 8;
      const uint32_t signs = even_signs(bits >> 7 * g & 127);
      to[i] = with_sign(d * iq2_magnitude(kIq2xxsGrid[from.entry[g]], i % 8), signs, i % 8);
    }
  }
};

// Each 16 elements (part p) share a scale.
//
//   byte  0   f16   d
//         2   u16   entry[32]    bits 0 .. 8: index of group g; bits 9 .. 15: its signs (even_signs)
//        66   u8    scales[8]    half p % 2 of byte p / 2: scale of part p
//        74
struct IQ2_XS {
  static constexpr Format kFormat = Format::iq2_xs;
  static constexpr const char* kName = "iq2_xs";
  static constexpr uint32_t kBlockElements = 256;
  static constexpr int kGgmlType = 17;

  struct Block {
    uint16_t d;
    uint16_t entry[32];
    uint8_t scales[8];
  };
  static_assert(sizeof(Block) == 74);

  static void load16(const Block& block, uint32_t part, float* to) {
    const int scale = block.scales[part / 2] >> part % 2 * 4 & 15;
    const float d = f32_from_f16(block.d) * (0.5f + static_cast<float>(scale)) * 0.25f;
    for (uint32_t i = 0; i < 16; ++i) {
      const uint16_t entry = block.entry[2 * part + i / 8];
      to[i] = with_sign(d * iq2_magnitude(kIq2xsGrid[entry & 511], i % 8), even_signs(entry >> 9), i % 8);
    }
  }
};

// Each 16 elements (part p) share a scale.
//
//   byte  0   f16   d
//         2   u8    entry[32]    low 8 bits of the index of group g
//        34   u8    signs[32]    signs of group g
//        66   u8    high[8]      bits 2 (g % 4), 2 (g % 4) + 1 of byte g / 4: high 2 bits of the index of group g
//        74   u8    scales[8]    half p % 2 of byte p / 2: scale of part p
//        82
struct IQ2_S {
  static constexpr Format kFormat = Format::iq2_s;
  static constexpr const char* kName = "iq2_s";
  static constexpr uint32_t kBlockElements = 256;
  static constexpr int kGgmlType = 22;

  struct Block {
    uint16_t d;
    uint8_t entry[32];
    uint8_t signs[32];
    uint8_t high[8];
    uint8_t scales[8];
  };
  static_assert(sizeof(Block) == 82);

  static void load16(const Block& block, uint32_t part, float* to) {
    const int scale = block.scales[part / 2] >> part % 2 * 4 & 15;
    const float d = f32_from_f16(block.d) * (0.5f + static_cast<float>(scale)) * 0.25f;
    for (uint32_t i = 0; i < 16; ++i) {
      const uint32_t g = 2 * part + i / 8;
      const int entry = block.entry[g] | (block.high[g / 4] >> g % 4 * 2 & 3) << 8;
      to[i] = with_sign(d * iq2_magnitude(kIq2sGrid[entry], i % 8), block.signs[g], i % 8);
    }
  }
};

}  // namespace sluice
