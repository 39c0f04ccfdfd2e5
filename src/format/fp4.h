// mxfp4 and nvfp4: 4-bit floats (E2M1: 1 sign, 2 exponent, 1 mantissa bits) with an 8-bit float as the scale of a
// block. Layouts of ggml's MXFP4 (OCP microscaling formats) and NVFP4. f4: the same floats in safetensors files, which
// keep the scales in other tensors.
//
// The table of E2M1 values holds each value doubled, so that all are integers, and scales are halved to match. The
// products stay the same, bit for bit those of ggml. The encoder of mxfp4 is ggml's: it chooses the scale so that the
// largest magnitude is between 4 and 8 steps, and rounds each element to the nearest value.
#pragma once

#include <algorithm>
#include <cmath>

#include "format/f8.h"
#include "format/format.h"

namespace sluice {

// Twice the value of each E2M1 pattern.
inline constexpr int8_t kDoubledE2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// The sign of zero is dropped, as ggml does.
inline float doubled_e2m1(uint32_t bits) { return static_cast<float>(kDoubledE2M1[bits & 15]); }

// 2 elements.
//
//   byte  0   u8    q         the first element in the low half
//         1
struct F4 {
  static constexpr Format kFormat = Format::f4;
  static constexpr const char* kName = "f4";
  static constexpr uint32_t kBlockElements = 2;
  static constexpr int kGgmlType = -1;
  static constexpr const char* kSafetensorsName = "F4";

  struct Block {
    uint8_t q;
  };
  static_assert(sizeof(Block) == 1);

  static void decode(const Block& block, float* to) {
    to[0] = 0.5f * doubled_e2m1(block.q);
    to[1] = 0.5f * doubled_e2m1(block.q >> 4);
  }
};

// 32 elements: x = 2^(e - 127) * q.
//
//   byte  0   u8    e
//         1   u8    q[16]     element j in the low half of byte j, element j + 16 in the high half
//        17
struct MXFP4 {
  static constexpr Format kFormat = Format::mxfp4;
  static constexpr const char* kName = "mxfp4";
  static constexpr uint32_t kBlockElements = 32;
  static constexpr int kGgmlType = 39;
  static constexpr float kLargest = 0x1.8p127f;  // larger magnitudes are clamped to this

  struct Block {
    uint8_t e;
    uint8_t q[16];
  };
  static_assert(sizeof(Block) == 17);

  // 2^(e - 128), which is a subnormal f32 for e < 2.
  static constexpr float half_scale(uint8_t e) {
    return std::bit_cast<float>(e < 2 ? 0x200000u << e : static_cast<uint32_t>(e - 1) << 23);
  }

  static void load16(const Block& block, uint32_t part, float* to) {
    const float d = half_scale(block.e);
    for (uint32_t i = 0; i < 16; ++i) to[i] = d * doubled_e2m1(block.q[i] >> 4 * part);
  }

  static Block encode(const float* from) {
    float largest = 0;
    for (uint32_t i = 0; i < kBlockElements; ++i) largest = std::fmax(largest, std::fabs(from[i]));
    Block block{largest > 0 ? static_cast<uint8_t>(std::clamp(std::ilogb(largest), -125, 127) + 125) : uint8_t{0}, {}};
    const float d = half_scale(block.e);
    for (uint32_t i = 0; i < kBlockElements; ++i)
      block.q[i % 16] |= static_cast<uint8_t>(nearest_e2m1(from[i], d) << (i < 16 ? 0 : 4));
    return block;
  }

 private:
  // Among equally near values the first wins, so that zero has no sign.
  static uint32_t nearest_e2m1(float x, float d) {
    uint32_t best = 0;
    for (uint32_t q = 1; q < 16; ++q)
      if (std::fabs(d * doubled_e2m1(q) - x) < std::fabs(d * doubled_e2m1(best) - x)) best = q;
    return best;
  }
};

// 64 elements; each 16 share a scale: x = d * q.
//
//   byte  0   u8    d[4]      unsigned E4M3 (bias 7), bit 7 ignored; 0x7f means 0
//         4   u8    q[32]     element 16 s + j: low half of byte 8 s + j; element 16 s + 8 + j: its high half
//        36
struct NVFP4 {
  static constexpr Format kFormat = Format::nvfp4;
  static constexpr const char* kName = "nvfp4";
  static constexpr uint32_t kBlockElements = 64;
  static constexpr int kGgmlType = 40;

  struct Block {
    uint8_t d[4];
    uint8_t q[32];
  };
  static_assert(sizeof(Block) == 36);

  static float half_scale(uint8_t d) {
    if (d == 0x7f) return 0;
    const uint8_t magnitude = d & 0x7f;
    return magnitude == 0x7f ? 240.0f : f32_from_e4m3(magnitude) * 0.5f;  // 0xff is no NaN here
  }

  static void load16(const Block& block, uint32_t part, float* to) {
    const float d = half_scale(block.d[part]);
    const uint8_t* q = block.q + 8 * part;
    for (uint32_t i = 0; i < 16; ++i) to[i] = d * doubled_e2m1(q[i % 8] >> i / 8 * 4);
  }
};

}  // namespace sluice
