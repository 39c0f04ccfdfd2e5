// How encoders turn numbers into integers. The input may be infinite or NaN, so it is clamped before the conversion:
// NaN becomes `low`.
#pragma once

#include <cmath>
#include <cstdint>

namespace sluice {

// Rounds halves to even. |low| and |high| must be below 2^22, so that adding 1.5 * 2^23 makes the f32 adder round at
// the last integer bit.
inline int nearest(float x, int low, int high) {
  if (!(x >= static_cast<float>(low))) return low;
  if (x >= static_cast<float>(high)) return high;
  constexpr float kShift = 0x1.8p23f;
  return static_cast<int>((x + kShift) - kShift);
}

// Rounds towards zero.
inline int truncated(float x, int low, int high) {
  if (!(x >= static_cast<float>(low))) return low;
  return x >= static_cast<float>(high) ? high : static_cast<int>(x);
}

inline float inverse_or_0(float x) { return x != 0.0f ? 1.0f / x : 0.0f; }

// The element of largest magnitude, with its sign; the first of equal magnitudes. There are two loops, because clang 19
// (-O3) miscompiles one loop that keeps the largest element so far.
inline float farthest_from_0(const float* x, uint32_t n) {
  float largest = 0;
  for (uint32_t i = 0; i < n; ++i) largest = std::fmax(largest, std::fabs(x[i]));
  for (uint32_t i = 0; i < n; ++i)
    if (std::fabs(x[i]) == largest) return x[i];
  return 0;
}

struct Range {
  float low, high;
};
inline Range range_of(const float* x, uint32_t n) {
  Range range{x[0], x[0]};
  for (uint32_t i = 1; i < n; ++i) {
    if (x[i] < range.low) range.low = x[i];
    if (x[i] > range.high) range.high = x[i];
  }
  return range;
}

}  // namespace sluice
