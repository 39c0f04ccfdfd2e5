// Shared by the encoders of q4_k and q5_k, which are ggml's without an importance matrix: first the scale and minimum
// of each 32 elements, then the integers q.
#pragma once

#include "format/fit.h"
#include "format/half.h"
#include "format/k_scales.h"

namespace sluice {

struct KScales {
  uint16_t d = 0, dmin = 0;
  KScale pairs[8] = {};
};

template <int kLevels>
KScales fit_k_scales(const float* from, const MinimumTries& tries) {
  MinimumFit fits[8];
  float largest_scale = 0, largest_minimum = 0;
  for (uint32_t s = 0; s < 8; ++s) {
    const float* x = from + 32 * s;
    float squares = 0;
    for (int i = 0; i < 32; ++i) squares += x[i] * x[i];
    float w[32];
    for (int i = 0; i < 32; ++i) w[i] = std::sqrt(squares / 32) + std::fabs(x[i]);
    fits[s] = fit_minimum<kLevels, 32>(x, w, tries);
    largest_scale = std::fmax(largest_scale, fits[s].scale);
    largest_minimum = std::fmax(largest_minimum, fits[s].minimum);
  }
  KScales found{f16_from_f32(largest_scale / 63.0f), f16_from_f32(largest_minimum / 63.0f)};
  const float by_scale = largest_scale > 0 ? 63.0f / largest_scale : 0.0f;
  const float by_minimum = largest_minimum > 0 ? 63.0f / largest_minimum : 0.0f;
  for (uint32_t s = 0; s < 8; ++s)
    found.pairs[s] = {static_cast<uint8_t>(nearest(by_scale * fits[s].scale, 0, 63)),
                      static_cast<uint8_t>(nearest(by_minimum * fits[s].minimum, 0, 63))};
  return found;
}

// The integers q of the 32 elements under scale s.
template <int kLevels>
void round_to_k_scale(const float* x, const KScales& scales, uint32_t s, uint8_t (&q)[32]) {
  const float step = f32_from_f16(scales.d) * static_cast<float>(scales.pairs[s].scale);
  const float offset = f32_from_f16(scales.dmin) * static_cast<float>(scales.pairs[s].minimum);
  for (uint32_t i = 0; i < 32; ++i)
    q[i] = step == 0 ? 0 : static_cast<uint8_t>(nearest((x[i] + offset) / step, 0, kLevels));
}

}  // namespace sluice
