// tq1_0, tq2_0, q1_0 and q2_0: one or two bits an element; all elements of a block share one scale d. Layouts of ggml's
// TQ1_0, TQ2_0, Q1_0 and Q2_0.
#pragma once

#include "format/format.h"
#include "format/half.h"

namespace sluice {

// 256 elements of -1, 0 or 1: x = d * (digit - 1). A byte packs five base-3 digits.
//
//   byte  0   u8    q[48]     element 32 n + l < 160: digit n of byte l
//                             element 160 + 16 n + l < 240: digit n of byte 32 + l
//        48   u8    last[4]   element 240 + 4 n + l: digit n of byte l
//        52   f16   d
//        54
struct TQ1_0 {
  static constexpr Format kFormat = Format::tq1_0;
  static constexpr const char* kName = "tq1_0";
  static constexpr uint32_t kBlockElements = 256;
  static constexpr int kGgmlType = 34;

  struct Block {
    uint8_t q[48];
    uint8_t last[4];
    uint16_t d;
  };
  static_assert(sizeof(Block) == 54);

  // A byte is a fraction of 256 in base 3. Multiplying it by 3 carries its next digit out at the top.
  static uint32_t digit(uint8_t byte, uint32_t n) {
    constexpr uint8_t kPowers[5] = {1, 3, 9, 27, 81};
    return static_cast<uint8_t>(byte * kPowers[n]) * 3u >> 8;
  }

  static void load16(const Block& block, uint32_t part, float* to) {
    const float d = f32_from_f16(block.d);
    for (uint32_t i = 0; i < 16; ++i) {
      const uint32_t q = part < 10   ? digit(block.q[part % 2 * 16 + i], part / 2)
                         : part < 15 ? digit(block.q[32 + i], part - 10)
                                     : digit(block.last[i % 4], i / 4);
      to[i] = d * static_cast<float>(static_cast<int>(q) - 1);
    }
  }
};

// 256 elements: x = d * (q - 1).
//
//   byte  0   u8    q[64]     element 128 n + 32 r + l: bits 2 r, 2 r + 1 of byte 32 n + l
//        64   f16   d
//        66
struct TQ2_0 {
  static constexpr Format kFormat = Format::tq2_0;
  static constexpr const char* kName = "tq2_0";
  static constexpr uint32_t kBlockElements = 256;
  static constexpr int kGgmlType = 35;

  struct Block {
    uint8_t q[64];
    uint16_t d;
  };
  static_assert(sizeof(Block) == 66);

  static void load16(const Block& block, uint32_t part, float* to) {
    const float d = f32_from_f16(block.d);
    const uint8_t* q = block.q + part / 8 * 32 + part % 2 * 16;
    for (uint32_t i = 0; i < 16; ++i) to[i] = d * static_cast<float>((q[i] >> part % 8 / 2 * 2 & 3) - 1);
  }
};

// 128 elements: x = d where the bit is set, else -d.
//
//   byte  0   f16   d
//         2   u8    q[16]     element j: bit j % 8 of byte j / 8
//        18
struct Q1_0 {
  static constexpr Format kFormat = Format::q1_0;
  static constexpr const char* kName = "q1_0";
  static constexpr uint32_t kBlockElements = 128;
  static constexpr int kGgmlType = 41;

  struct Block {
    uint16_t d;
    uint8_t q[16];
  };
  static_assert(sizeof(Block) == 18);

  static void load16(const Block& block, uint32_t part, float* to) {
    const float d = f32_from_f16(block.d);
    for (uint32_t i = 0; i < 16; ++i) to[i] = block.q[2 * part + i / 8] >> i % 8 & 1 ? d : -d;
  }
};

// 64 elements: x = d * (q - 1).
//
//   byte  0   f16   d
//         2   u8    q[16]     element j: bits 2 (j % 4), 2 (j % 4) + 1 of byte j / 4
//        18
struct Q2_0 {
  static constexpr Format kFormat = Format::q2_0;
  static constexpr const char* kName = "q2_0";
  static constexpr uint32_t kBlockElements = 64;
  static constexpr int kGgmlType = 42;

  struct Block {
    uint16_t d;
    uint8_t q[16];
  };
  static_assert(sizeof(Block) == 18);

  static void load16(const Block& block, uint32_t part, float* to) {
    const float d = f32_from_f16(block.d);
    for (uint32_t i = 0; i < 16; ++i) to[i] = d * static_cast<float>((block.q[4 * part + i / 4] >> i % 4 * 2 & 3) - 1);
  }
};

}  // namespace sluice
