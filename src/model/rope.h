// Inverse frequencies of rotary embeddings, bit for bit as transformers computes them in f32.
//
//   inv[j] = 1 / base^(2j / width) / factor[j]
//
// Source: transformers modeling_rope_utils.py (types default and proportional). The power is computed in f64 and
// rounded, which gives the same bits on every machine. PyTorch's vectorised f32 power depends on the machine and
// differs by a unit in the last place in about one of two hundred entries.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

// A factor this large means that the pair does not turn. GGUF's rope_freqs.weight marks such pairs by 1e30.
inline constexpr float kStillFactor = 1e30f;

// width / 2 frequencies. `factors` has one factor a pair, or is empty if all are 1.
std::vector<float> inverse_frequencies(float base, uint32_t width, std::span<const float> factors = {});

// YaRN (Peng et al. 2023, arXiv:2309.00071), as transformers' type yarn. Pairs that turn at least beta_fast times
// within the original context keep their frequency. Pairs that turn at most beta_slow times get their frequency divided
// by `factor`. Between these borders frequencies are interpolated. Both borders are rounded outwards to whole pairs.
struct Yarn {
  float factor = 1;  // 1: the context is not stretched
  uint32_t original_context = 0;
  float beta_fast = 32, beta_slow = 1;
};
// YaRN's frequencies divided by `factors`, as in inverse_frequencies. `base` must be above 1 if yarn.factor is.
std::vector<float> yarn_frequencies(float base, uint32_t width, const Yarn& yarn, std::span<const float> factors = {});
// The factor for cos and sin that the paper suggests, so that attention stays as sharp as without stretching.
double yarn_magnitude(double factor, double mscale = 1);

}  // namespace sluice
