// The encoders of iq4_nl and iq4_xs, equal to ggml's without an importance matrix.
#include "format/iq4.h"

#include "format/fit.h"

namespace sluice {

namespace {

// The index of the nearest of the sixteen numbers; the higher of two that are equally near.
uint8_t nearest_number(float x) {
  uint8_t q = 0;
  while (q < 15 && x - IQ4_NL::kNumbers[q] >= IQ4_NL::kNumbers[q + 1] - x) ++q;
  return q;
}

FitSums sums_of(const float* x, float inverse) {
  FitSums sums;
  for (int i = 0; i < 32; ++i) {
    const float number = IQ4_NL::kNumbers[nearest_number(inverse * x[i])];
    const float w = x[i] * x[i];
    sums.xq += w * number * x[i];
    sums.qq += w * number * number;
  }
  return sums;
}

// The scale that fits these 32 elements best.
float fit_numbers(const float* x) {
  const float farthest = farthest_from_0(x, 32);
  if (!(std::fabs(farthest) >= kFitNothing)) return 0;
  constexpr float kFirst = IQ4_NL::kNumbers[0];
  FitSums kept = sums_of(x, -kFirst / farthest);
  float best = kept.gain();
  for (int k = -7; k <= 7; ++k) {
    const FitSums tried = sums_of(x, (static_cast<float>(k) + kFirst) / farthest);
    if (!tried.better_than(best)) continue;
    kept = tried;
    best = tried.gain();
  }
  return kept.scale();
}

void round_to_numbers(const float* x, float scale, uint8_t* q) {
  const float inverse = inverse_or_0(scale);
  for (uint32_t i = 0; i < 32; ++i)
    q[i % 16] |= static_cast<uint8_t>(nearest_number(inverse * x[i]) << (i < 16 ? 0 : 4));
}

}  // namespace

IQ4_NL::Block IQ4_NL::encode(const float* from) {
  const float scale = fit_numbers(from);
  Block block{f16_from_f32(scale), {}};
  round_to_numbers(from, scale, block.q);
  return block;
}

IQ4_XS::Block IQ4_XS::encode(const float* from) {
  float scales[8];
  for (uint32_t s = 0; s < 8; ++s) scales[s] = fit_numbers(from + 32 * s);
  const float d = farthest_from_0(scales, 8) / -32.0f;
  const float inverse = inverse_or_0(d);
  Block block{f16_from_f32(d), 0, {}, {}};
  for (uint32_t s = 0; s < 8; ++s) {
    const int scale = nearest(inverse * scales[s], -32, 31);
    block.scales_low[s / 2] |= static_cast<uint8_t>(((scale + 32) & 15) << s % 2 * 4);
    block.scales_high |= static_cast<uint16_t>((scale + 32) >> 4 << 2 * s);
    round_to_numbers(from + 32 * s, d * static_cast<float>(scale), block.q + 16 * s);
  }
  return block;
}

}  // namespace sluice
