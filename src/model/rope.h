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

}  // namespace sluice
