// Sampling settings of a request, and what the device's `sample` op is given for them.
//
// Penalties count the tokens of the last `penalty_window` of the history, prompt and answer alike: repeat divides or
// multiplies (Keskar et al. 2019, arXiv:1909.05858), presence subtracts once, frequency once a time. Bias is added.
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
  uint32_t penalty_window = 64;  // tokens
  std::vector<std::pair<int32_t, float>> logit_bias =
      {};  // added; -inf forbids; of one token named twice the last counts
  uint64_t seed = 0;
  uint32_t candidates = 0;  // tokens of the largest logits that each result tells, at most kCandidates
};

// One sentence about the first setting out of range.
Status check_sampling(const SamplingSettings& settings, uint32_t vocabulary);

// Without the range of its adjustments.
SampleRow sample_row(const SamplingSettings& settings, uint32_t choice);

// What changes logits before the token that follows `history`, in ascending order of tokens. `suppressed` tokens are
// never sampled.
std::vector<Adjustment> sample_adjustments(const SamplingSettings& settings, const History& history,
                                           std::span<const int32_t> suppressed);
// No history gives more.
uint32_t most_adjustments(const SamplingSettings& settings, std::span<const int32_t> suppressed);

}  // namespace sluice
