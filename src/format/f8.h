// f8_e4m3 and f8_e5m2: the 8-bit floats of safetensors (OCP 8-bit floating point, OFP8), one element a block; and
// f8_e8m0, the powers of two that scale blocks of smaller floats (OCP microscaling formats).
//
//   f8_e4m3  1 sign, 4 exponent (bias 7), 3 mantissa bits; no infinities, 0x7f and 0xff are NaN; largest 448
//   f8_e5m2  1 sign, 5 exponent (bias 15), 2 mantissa bits; the upper half of an f16
//   f8_e8m0  8 exponent bits (bias 127), no sign; 0xff is NaN
#pragma once

#include <limits>

#include "format/format.h"
#include "format/half.h"

namespace sluice {

constexpr float f32_from_e4m3(uint8_t bits) {
  const uint32_t exponent = bits >> 3 & 15;
  const auto mantissa = static_cast<float>(bits & 7);
  const float sign = bits & 0x80 ? -1.0f : 1.0f;
  if ((bits & 0x7f) == 0x7f) return sign * std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * mantissa * 0x1p-9f;
  return sign * (1.0f + mantissa / 8.0f) * std::bit_cast<float>((exponent + (127 - 7)) << 23);
}

struct F8_E4M3 {
  static constexpr Format kFormat = Format::f8_e4m3;
  static constexpr const char* kName = "f8_e4m3";
  static constexpr uint32_t kBlockElements = 1;
  static constexpr int kGgmlType = -1;
  static constexpr const char* kSafetensorsName = "F8_E4M3";

  struct Block {
    uint8_t bits;
  };
  static_assert(sizeof(Block) == 1);

  static void decode(const Block& block, float* to) { *to = f32_from_e4m3(block.bits); }
};

struct F8_E5M2 {
  static constexpr Format kFormat = Format::f8_e5m2;
  static constexpr const char* kName = "f8_e5m2";
  static constexpr uint32_t kBlockElements = 1;
  static constexpr int kGgmlType = -1;
  static constexpr const char* kSafetensorsName = "F8_E5M2";

  struct Block {
    uint8_t bits;
  };
  static_assert(sizeof(Block) == 1);

  static void decode(const Block& block, float* to) { *to = f32_from_f16(static_cast<uint16_t>(block.bits << 8)); }
};

struct F8_E8M0 {
  static constexpr Format kFormat = Format::f8_e8m0;
  static constexpr const char* kName = "f8_e8m0";
  static constexpr uint32_t kBlockElements = 1;
  static constexpr int kGgmlType = -1;
  static constexpr const char* kSafetensorsName = "F8_E8M0";

  struct Block {
    uint8_t bits;
  };
  static_assert(sizeof(Block) == 1);

  // 2^-127 is a subnormal f32.
  static void decode(const Block& block, float* to) {
    const uint32_t bits = block.bits == 0 ? 0x400000u : static_cast<uint32_t>(block.bits) << 23;
    *to = block.bits == 0xff ? std::numeric_limits<float>::quiet_NaN() : std::bit_cast<float>(bits);
  }
};

}  // namespace sluice
