// Inverse frequencies of rotary embeddings, bit for bit as transformers computes them in f32.
//
//   inv[j] = 1 / base^(2j / width) / factor[j]
//
// Source: transformers modeling_rope_utils.py (types default and proportional). The power is taken in f64 and rounded,
// which is what PyTorch's vectorised f32 power gives too but for a unit in the last place in about one entry of two
// hundred; on every machine alike, which that is not.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

// A factor that large says that the pair does not turn: GGUF's rope_freqs.weight holds it for such pairs.
inline constexpr float kStillFactor = 1e30f;

// width / 2 frequencies. `factors`: one a pair, or none for all ones.
std::vector<float> inverse_frequencies(float base, uint32_t width, std::span<const float> factors = {});

// YaRN (Peng et al. 2023, arXiv:2309.00071), as transformers' type yarn: between pairs that turn beta_fast times within
// the original context and pairs that turn beta_slow times, frequencies go over from their own to those of positions
// divided by `factor`. Both borders are rounded outwards to whole pairs.
struct Yarn {
  float factor = 1;  // 1: nothing is stretched
  uint32_t original_context = 0;
  float beta_fast = 32, beta_slow = 1;
};
// `factors`: as above; what YaRN gives is divided by them. `base` is above 1 where something is stretched.
std::vector<float> yarn_frequencies(float base, uint32_t width, const Yarn& yarn, std::span<const float> factors = {});
// What cos and sin are multiplied by, as the paper suggests, so that attention is as sharp as before.
double yarn_magnitude(double factor, double mscale = 1);

}  // namespace sluice
