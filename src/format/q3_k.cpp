// The encoder of q3_k, equal to ggml's without an importance matrix.
#include "format/q3_k.h"

#include "format/fit.h"

namespace sluice {

Q3_K::Block Q3_K::encode(const float* from) {
  float scales[16];
  for (uint32_t part = 0; part < 16; ++part) scales[part] = fit_one_by_one<4, 16>(from + 16 * part);
  const float inverse = -32.0f * inverse_or_0(farthest_from_0(scales, 16));
  Block block{{}, {}, {}, f16_from_f32(inverse_or_0(inverse))};
  for (uint32_t part = 0; part < 16; ++part) {
    const int stored = nearest(inverse * scales[part], -32, 31) + 32;
    block.scales[part % 8] |= static_cast<uint8_t>((stored & 15) << part / 8 * 4);
    block.scales[8 + part % 4] |= static_cast<uint8_t>((stored >> 4) << part / 4 * 2);
    const float step = f32_from_f16(block.d) * static_cast<float>(stored - 32);
    uint8_t* low = block.q + part / 8 * 32 + part % 2 * 16;
    uint8_t* high = block.high + part % 2 * 16;
    for (uint32_t i = 0; i < 16; ++i) {
      const int q = step == 0 ? 4 : nearest(from[16 * part + i] / step, -4, 3) + 4;
      low[i] |= static_cast<uint8_t>((q & 3) << part % 8 / 2 * 2);
      high[i] |= static_cast<uint8_t>((q >> 2) << part / 2);
    }
  }
  return block;
}

}  // namespace sluice
