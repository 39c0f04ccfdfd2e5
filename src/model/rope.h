// Inverse frequencies of rotary embeddings, bit for bit as transformers computes them in f32.
//
//   inv[j] = 1 / base^(2j / width) / factor[j]
//
// Source: transformers modeling_rope_utils.py (types default and proportional). The power is computed in f64 and
// rounded. That gives the same bits on every machine. PyTorch's vectorised f32 power, which is not the same everywhere,
// differs by a unit in the last place in about one of two hundred entries.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

// A factor this large means that the pair does not turn. GGUF's rope_freqs.weight has it for such pairs.
inline constexpr float kStillFactor = 1e30f;

// width / 2 frequencies. `factors`: one a pair, or none for all ones.
std::vector<float> inverse_frequencies(float base, uint32_t width, std::span<const float> factors = {});

// YaRN (Peng et al. 2023, arXiv:2309.00071), as transformers' type yarn. Pairs that turn at least beta_fast times
// within the original context keep their frequency. Pairs that turn at most beta_slow times get the frequency of
// positions divided by `factor`. Between them frequencies go over gradually. Both borders are rounded outwards to whole
// pairs.
struct Yarn {
  float factor = 1;  // 1: nothing is stretched
  uint32_t original_context = 0;
  float beta_fast = 32, beta_slow = 1;
};
// `factors` as above; YaRN's frequencies are divided by them. `base` must be above 1 when YaRN stretches.
std::vector<float> yarn_frequencies(float base, uint32_t width, const Yarn& yarn, std::span<const float> factors = {});
// The factor for cos and sin that the paper suggests, so that attention is as sharp as before.
double yarn_magnitude(double factor, double mscale = 1);

}  // namespace sluice
