// The encoder of q4_k.
#include "format/q4_k.h"

#include "format/k_encode.h"

namespace sluice {

Q4_K::Block Q4_K::encode(const float* from) {
  const KScales scales = fit_k_scales<15>(from, {.first = -1.0f, .by = 0.1f, .count = 20});
  Block block{scales.d, scales.dmin, {}, {}};
  for (uint32_t s = 0; s < 8; ++s) {
    set_k_scale(block.scales, s, scales.pairs[s]);
    uint8_t q[32];
    round_to_k_scale<15>(from + 32 * s, scales, s, q);
    for (uint32_t i = 0; i < 32; ++i) block.q[s / 2 * 32 + i] |= static_cast<uint8_t>(q[i] << s % 2 * 4);
  }
  return block;
}

}  // namespace sluice
