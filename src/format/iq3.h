// iq3_xxs and iq3_s: 256 elements. Each quad of four elements is the index of an entry of a code-book, which gives four
// magnitudes. Each group of eight elements has eight signs, and each 32 elements share a 4-bit scale. Quad e is
// elements [4 e, 4 e + 4), group g is elements [8 g, 8 g + 8). Layouts of ggml's IQ3_XXS and IQ3_S.
#pragma once

#include "format/format.h"
#include "format/half.h"
#include "format/iq_grids.h"

namespace sluice {

// x = +-d * (scale + 1/2) / 2 * entry.
//
//   byte  0   f16   d
//         2   u8    entry[64]    index of quad e
//        66   u32   bits[8]      one word for 32 elements: bits 7 (g % 4) .. 7 (g % 4) + 6: signs (even_signs) of
//                                group g; bits 28 .. 31: scale
//        98
struct IQ3_XXS {
  static constexpr Format kFormat = Format::iq3_xxs;
  static constexpr const char* kName = "iq3_xxs";
  static constexpr uint32_t kBlockElements = 256;
  static constexpr int kGgmlType = 18;

  struct Block {
    uint16_t d;
    uint8_t entry[64];
    uint16_t bits[8][2];  // low and high half of each u32, which is not aligned
  };
  static_assert(sizeof(Block) == 98);

  static void load16(const Block& block, uint32_t part, float* to) {
    const uint32_t bits = block.bits[part / 2][0] | uint32_t{block.bits[part / 2][1]} << 16;
    const float d = f32_from_f16(block.d) * (0.5f + static_cast<float>(bits >> 28)) * 0.5f;
    for (uint32_t i = 0; i < 16; ++i) {
      const uint32_t signs = even_signs(bits >> 7 * (part % 2 * 2 + i / 8) & 127);
      to[i] = with_sign(d * iq3xxs_magnitude(kIq3xxsGrid[block.entry[4 * part + i / 4]], i % 4), signs, i % 8);
    }
  }
};

// x = +-d * (2 scale + 1) * entry.
//
//   byte  0   f16   d
//         2   u8    entry[64]    low 8 bits of the index of quad e
//        66   u8    high[8]      bit e % 8 of byte e / 8: the ninth bit of the index of quad e
//        74   u8    signs[32]    signs of group g
//       106   u8    scales[4]    half s % 2 of byte s / 2: scale of elements [32 s, 32 s + 32)
//       110
struct IQ3_S {
  static constexpr Format kFormat = Format::iq3_s;
  static constexpr const char* kName = "iq3_s";
  static constexpr uint32_t kBlockElements = 256;
  static constexpr int kGgmlType = 21;

  struct Block {
    uint16_t d;
    uint8_t entry[64];
    uint8_t high[8];
    uint8_t signs[32];
    uint8_t scales[4];
  };
  static_assert(sizeof(Block) == 110);

  static void load16(const Block& block, uint32_t part, float* to) {
    const uint32_t s = part / 2;
    const int scale = block.scales[s / 2] >> s % 2 * 4 & 15;
    const float d = f32_from_f16(block.d) * static_cast<float>(1 + 2 * scale);
    for (uint32_t i = 0; i < 16; ++i) {
      const uint32_t e = 4 * part + i / 4;
      const int entry = block.entry[e] | (block.high[e / 8] >> e % 8 & 1) << 8;
      to[i] = with_sign(d * iq3s_magnitude(kIq3sGrid[entry], i % 4), block.signs[e / 2], i % 8);
    }
  }
};

}  // namespace sluice
