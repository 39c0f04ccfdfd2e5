// Conversions between f32 and the two 16-bit floats, as bit patterns. They round to nearest, ties to even. Infinities
// and the sign of zero are kept, and a NaN stays a (quiet) NaN.
//
//   f16   1 sign, 5 exponent (bias 15), 10 mantissa bits; IEEE 754 binary16
//   bf16  the upper half of an f32
#pragma once

#include <bit>
#include <cstdint>

namespace sluice {

constexpr float f32_from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

constexpr uint16_t bf16_from_f32(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40);  // rounding could lose a NaN
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

constexpr float f32_from_f16(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t exponent = bits >> 10 & 0x1f;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24 is exact
    const auto magnitude = std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-24f);
    return std::bit_cast<float>(sign | magnitude);
  }
  const uint32_t wide = exponent == 0x1f ? 0xff : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

constexpr uint16_t f16_from_f32(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 2^16 and above
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 1/2 makes the f32 adder round at the last subnormal bit
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rebiased = magnitude - ((127 - 15) << 23);
  return static_cast<uint16_t>(sign | (rebiased + 0xfff + (rebiased >> 13 & 1)) >> 13);  // may carry into infinity
}

}  // namespace sluice
