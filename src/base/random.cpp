#include "base/random.h"

#include <cmath>

namespace sluice {

float gumbel_from_bits(uint32_t bits) {
  const double v = (bits + 0.5) / 4294967296.0;
  return static_cast<float>(-std::log(-std::log1p(-v)));
}

PhiloxCounter gumbel_draw(uint64_t seed, uint32_t choice, uint32_t position, uint32_t group) {
  return philox4x32({group, position, choice, 0}, {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

float gumbel(uint64_t seed, uint32_t choice, uint32_t position, uint32_t token) {
  return gumbel_from_bits(gumbel_draw(seed, choice, position, token / 4)[token % 4]);
}

}  // namespace sluice
