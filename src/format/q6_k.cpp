// The encoder of q6_k, equal to ggml's without an importance matrix.
#include "format/q6_k.h"

#include "format/fit.h"

namespace sluice {

Q6_K::Block Q6_K::encode(const float* from) {
  float scales[16];
  for (uint32_t part = 0; part < 16; ++part) {
    const float* x = from + 16 * part;
    float w[16];
    for (int i = 0; i < 16; ++i) w[i] = x[i] * x[i];
    scales[part] = fit_signed<32, 16>(x, w);
  }
  const float farthest = farthest_from_0(scales, 16);
  Block block{};
  if (!(std::fabs(farthest) >= kFitNothing)) return block;
  const float inverse = -128.0f / farthest;
  block.d = f16_from_f32(1.0f / inverse);
  for (uint32_t part = 0; part < 16; ++part) {
    block.scales[part] = static_cast<int8_t>(nearest(inverse * scales[part], -128, 127));
    const float step = f32_from_f16(block.d) * static_cast<float>(block.scales[part]);
    uint8_t* low = block.low + part / 8 * 64 + part % 4 * 16;
    uint8_t* high = block.high + part / 8 * 32 + part % 2 * 16;
    const uint32_t r = part % 8 / 2;
    for (uint32_t i = 0; i < 16; ++i) {
      const int q = step == 0 ? 32 : nearest(from[16 * part + i] / step, -32, 31) + 32;
      low[i] |= static_cast<uint8_t>((q & 15) << r / 2 * 4);
      high[i] |= static_cast<uint8_t>((q >> 4) << 2 * r);
    }
  }
  return block;
}

}  // namespace sluice
