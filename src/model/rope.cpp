#include "model/rope.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace sluice {
namespace {

// base^(2j / width)
float power(float base, uint32_t width, size_t j) {
  const float exponent = static_cast<float>(2 * j) / static_cast<float>(width);
  return static_cast<float>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
}

}  // namespace

std::vector<float> inverse_frequencies(float base, uint32_t width, std::span<const float> factors) {
  CHECK(factors.empty() || factors.size() == width / 2);
  std::vector<float> frequencies(width / 2);
  for (size_t j = 0; j < frequencies.size(); ++j) {
    const float factor = factors.empty() ? 1.0f : factors[j];
    if (factor >= kStillFactor) continue;
    frequencies[j] = 1.0f / power(base, width, j) / factor;
  }
  return frequencies;
}

std::vector<float> yarn_frequencies(float base, uint32_t width, const Yarn& yarn, std::span<const float> factors) {
  if (yarn.factor <= 1) return inverse_frequencies(base, width, factors);
  CHECK(factors.empty() || factors.size() == width / 2);
  std::vector<float> frequencies = inverse_frequencies(base, width);
  constexpr double kTurn = 6.283185307179586;
  // The index, not rounded, of the pair that turns so many times within the original context.
  const auto pair_of = [&](double turns) {
    return width * std::log(yarn.original_context / (turns * kTurn)) / (2 * std::log(static_cast<double>(base)));
  };
  const double low = std::max(std::floor(pair_of(static_cast<double>(yarn.beta_fast))), 0.0);
  double high = std::min(std::ceil(pair_of(static_cast<double>(yarn.beta_slow))), width - 1.0);
  if (high == low) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float ramp = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float own = 1.0f - std::clamp(ramp, 0.0f, 1.0f);
    frequencies[i] = 1.0f / (yarn.factor * power(base, width, i)) * (1.0f - own) + frequencies[i] * own;
    if (!factors.empty()) frequencies[i] = factors[i] >= kStillFactor ? 0.0f : frequencies[i] / factors[i];
  }
  return frequencies;
}

double yarn_magnitude(double factor, double mscale) { return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1; }

}  // namespace sluice
