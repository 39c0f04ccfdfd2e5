// q8_0: 32 elements share one scale: x = d * q. Layout and encoder of ggml's Q8_0 (ggml-common.h, ggml-quants.c).
//
//   byte  0   f16   d
//         2   i8    q[32]
//        34
//
// The encoder divides by the scale as f32, before that is rounded to f16. It rounds halves away from zero. A block of
// zeros gets the scale 0.
#pragma once

#include <algorithm>
#include <cmath>

#include "format/format.h"
#include "format/half.h"

namespace sluice {

struct Q8_0 {
  static constexpr Format kFormat = Format::q8_0;
  static constexpr const char* kName = "q8_0";
  static constexpr uint32_t kBlockElements = 32;
  static constexpr int kGgmlType = 8;
  static constexpr float kLargest = 65504.0f * 127.0f;

  struct Block {
    uint16_t d;
    int8_t q[32];
  };
  static_assert(sizeof(Block) == 34);

  static void load16(const Block& block, uint32_t part, float* to) {
    const float d = f32_from_f16(block.d);
    for (uint32_t i = 0; i < 16; ++i) to[i] = d * static_cast<float>(block.q[16 * part + i]);
  }

  static Block encode(const float* from) {
    float largest = 0;
    for (uint32_t i = 0; i < kBlockElements; ++i) largest = std::max(largest, std::abs(from[i]));
    const float d = largest / 127.0f;
    const float inverse = d > 0 ? 1.0f / d : 0.0f;
    Block block{f16_from_f32(d), {}};
    for (uint32_t i = 0; i < kBlockElements; ++i) block.q[i] = round_to_int8(from[i] * inverse);
    return block;
  }

 private:
  // The value is clamped first, because NaN and infinity (the inverse of a subnormal scale) have no integer.
  static int8_t round_to_int8(float x) {
    return static_cast<int8_t>(std::round(x >= -127.0f ? std::min(x, 127.0f) : x < 0 ? -127.0f : 0.0f));
  }
};

}  // namespace sluice
