// The encoder of q5_k.
#include "format/q5_k.h"

#include "format/k_encode.h"

namespace sluice {

Q5_K::Block Q5_K::encode(const float* from) {
  const KScales scales = fit_k_scales<31>(from, {.first = -0.5f, .by = 0.1f, .count = 15});
  Block block{scales.d, scales.dmin, {}, {}, {}};
  for (uint32_t s = 0; s < 8; ++s) {
    set_k_scale(block.scales, s, scales.pairs[s]);
    uint8_t q[32];
    round_to_k_scale<31>(from + 32 * s, scales, s, q);
    for (uint32_t i = 0; i < 32; ++i) {
      block.q[s / 2 * 32 + i] |= static_cast<uint8_t>((q[i] & 15) << s % 2 * 4);
      block.high[i] |= static_cast<uint8_t>((q[i] >> 4) << s);
    }
  }
  return block;
}

}  // namespace sluice
