#include "model/rope.h"

#include <cmath>

#include "base/check.h"

namespace sluice {

std::vector<float> inverse_frequencies(float base, uint32_t width, std::span<const float> factors) {
  CHECK(factors.empty() || factors.size() == width / 2);
  std::vector<float> frequencies(width / 2);
  for (size_t j = 0; j < frequencies.size(); ++j) {
    const float factor = factors.empty() ? 1.0f : factors[j];
    if (factor >= kStillFactor) continue;
    const float exponent = static_cast<float>(2 * j) / static_cast<float>(width);
    const auto power = static_cast<float>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
    frequencies[j] = 1.0f / power / factor;
  }
  return frequencies;
}

}  // namespace sluice
