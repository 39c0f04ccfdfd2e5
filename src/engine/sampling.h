// Sampling settings of a request, and the inputs of the device's `sample` op that follow from them.
//
// Penalties apply to tokens among the history's last `penalty_window`, in prompt and answer alike. Repeat divides
// positive logits and multiplies negative ones (Keskar et al. 2019, arXiv:1909.05858). Presence is subtracted once,
// frequency once for each occurrence. Bias is added.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/history.h"
#include "graph/ops/sample.h"

namespace sluice {

inline constexpr uint32_t kMaxPenaltyWindow = 1024;
inline constexpr uint32_t kMaxLogitBiases = 1024;

struct SamplingSettings {
  float temperature = 1.0f;  // 0: greedy
  uint32_t top_k = 0;        // 0: all
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repeat_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  uint32_t penalty_window = 64;                            // tokens
  std::vector<std::pair<int32_t, float>> logit_bias = {};  // added; -inf forbids; the last entry of a token counts
  uint64_t seed = 0;
  uint32_t candidates = 0;  // tokens with the largest logits in each result, at most kCandidates
};

// One sentence about the first setting out of range.
Status check_sampling(const SamplingSettings& settings, uint32_t vocabulary);

// The row for the `sample` op, without the range of its adjustments.
SampleRow sample_row(const SamplingSettings& settings, uint32_t choice);

// The changes of logits before the token behind `history` is sampled, in ascending order of tokens. `suppressed` tokens
// are never sampled.
std::vector<Adjustment> sample_adjustments(const SamplingSettings& settings, const History& history,
                                           std::span<const int32_t> suppressed);
// The most adjustments that any history gives.
uint32_t most_adjustments(const SamplingSettings& settings, std::span<const int32_t> suppressed);

}  // namespace sluice
