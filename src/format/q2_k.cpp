// The encoder of q2_k, equal to ggml's without an importance matrix.
#include "format/q2_k.h"

#include "format/fit.h"

namespace sluice {

Q2_K::Block Q2_K::encode(const float* from) {
  MinimumFit fits[16];
  float largest_scale = 0, largest_minimum = 0;
  for (uint32_t part = 0; part < 16; ++part) {
    const float* x = from + 16 * part;
    float w[16];
    for (int i = 0; i < 16; ++i) w[i] = std::fabs(x[i]);
    fits[part] = fit_minimum<3, 16>(x, w, {.first = -0.5f, .by = 0.1f, .count = 15, .absolute = true});
    largest_scale = std::fmax(largest_scale, fits[part].scale);
    largest_minimum = std::fmax(largest_minimum, fits[part].minimum);
  }
  Block block{{}, {}, f16_from_f32(largest_scale / 15.0f), f16_from_f32(largest_minimum / 15.0f)};
  for (uint32_t part = 0; part < 16; ++part) {
    const int scale = largest_scale > 0 ? nearest(15.0f / largest_scale * fits[part].scale, 0, 15) : 0;
    const int minimum = largest_minimum > 0 ? nearest(15.0f / largest_minimum * fits[part].minimum, 0, 15) : 0;
    block.scales[part] = static_cast<uint8_t>(scale | minimum << 4);
    const float step = f32_from_f16(block.d) * static_cast<float>(scale);
    const float offset = f32_from_f16(block.dmin) * static_cast<float>(minimum);
    if (step == 0) continue;
    uint8_t* q = block.q + part / 8 * 32 + part % 2 * 16;
    for (uint32_t i = 0; i < 16; ++i)
      q[i] |= static_cast<uint8_t>(nearest((from[16 * part + i] + offset) / step, 0, 3) << part % 8 / 2 * 2);
  }
  return block;
}

}  // namespace sluice
