#include "engine/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice {
namespace {

bool has_penalties(const SamplingSettings& settings) {
  return settings.repeat_penalty != 1.0f || settings.presence_penalty != 0.0f || settings.frequency_penalty != 0.0f;
}

Status check_range(const char* name, float value, float low, float high) {
  if (value >= low && value <= high) return {};  // false for NaN
  return error(ErrorKind::invalid, name, " is ", double{value}, ": want a number from ", double{low}, " to ",
               double{high});
}

Status check_biases(const SamplingSettings& settings, uint32_t vocabulary) {
  if (settings.logit_bias.size() > kMaxLogitBiases) {
    return error(ErrorKind::invalid, "logit bias names ", settings.logit_bias.size(), " tokens: want at most ",
                 kMaxLogitBiases);
  }
  for (const auto& [token, bias] : settings.logit_bias) {
    if (token < 0 || static_cast<uint32_t>(token) >= vocabulary)
      return error(ErrorKind::invalid, "logit bias names token ", token, ": want one from 0 to ", vocabulary - 1);
    if (std::isnan(bias) || bias == std::numeric_limits<float>::infinity())
      return error(ErrorKind::invalid, "logit bias of token ", token, " is ", double{bias}, ": want a number or -inf");
  }
  return {};
}

// The tokens in the window and how often each occurs, ascending.
std::vector<std::pair<int32_t, uint32_t>> count_tokens(const History& history, size_t window) {
  std::vector<int32_t> tokens;
  for (size_t i = history.size() - std::min(window, history.size()); i < history.size(); ++i)
    tokens.push_back(history[i].token);
  std::sort(tokens.begin(), tokens.end());
  std::vector<std::pair<int32_t, uint32_t>> counts;
  for (const int32_t token : tokens) {
    if (counts.empty() || counts.back().first != token) counts.emplace_back(token, 0);
    ++counts.back().second;
  }
  return counts;
}

// Adjustments by token. A lookup adds an adjustment without effect if there is none.
class Adjustments {
 public:
  Adjustment& operator[](int32_t token) {
    const auto at = std::lower_bound(all_.begin(), all_.end(), token,
                                     [](const Adjustment& a, int32_t wanted) { return a.token < wanted; });
    if (at != all_.end() && at->token == token) return *at;
    return *all_.insert(at, Adjustment{.token = token});
  }
  std::vector<Adjustment> take() && { return std::move(all_); }

 private:
  std::vector<Adjustment> all_;
};

}  // namespace

Status check_sampling(const SamplingSettings& settings, uint32_t vocabulary) {
  TRY_STATUS(check_range("temperature", settings.temperature, 0.0f, 100.0f));
  TRY_STATUS(check_range("top-p", settings.top_p, 0.0f, 1.0f));
  TRY_STATUS(check_range("min-p", settings.min_p, 0.0f, 1.0f));
  TRY_STATUS(check_range("repeat penalty", settings.repeat_penalty, 0.01f, 100.0f));
  TRY_STATUS(check_range("presence penalty", settings.presence_penalty, -100.0f, 100.0f));
  TRY_STATUS(check_range("frequency penalty", settings.frequency_penalty, -100.0f, 100.0f));
  if (has_penalties(settings) && settings.penalty_window > kMaxPenaltyWindow) {
    return error(ErrorKind::invalid, "penalty window is ", settings.penalty_window, " tokens: want at most ",
                 kMaxPenaltyWindow);
  }
  if (settings.candidates > kCandidates)
    return error(ErrorKind::invalid, "candidates is ", settings.candidates, ": want at most ", kCandidates);
  return check_biases(settings, vocabulary);
}

SampleRow sample_row(const SamplingSettings& settings, uint32_t choice) {
  return {.temperature = settings.temperature,
          .top_k = settings.top_k,
          .top_p = settings.top_p,
          .min_p = settings.min_p,
          .seed_low = static_cast<uint32_t>(settings.seed),
          .seed_high = static_cast<uint32_t>(settings.seed >> 32),
          .choice = choice,
          .candidates = settings.candidates};
}

std::vector<Adjustment> sample_adjustments(const SamplingSettings& settings, const History& history,
                                           std::span<const int32_t> suppressed) {
  Adjustments adjustments;
  if (has_penalties(settings)) {
    for (const auto& [token, times] : count_tokens(history, settings.penalty_window)) {
      Adjustment& adjustment = adjustments[token];
      adjustment.repeat = settings.repeat_penalty;
      adjustment.add = -(settings.presence_penalty + settings.frequency_penalty * static_cast<float>(times));
    }
  }
  Adjustments biases;
  for (const auto& [token, bias] : settings.logit_bias) biases[token].add = bias;
  for (const Adjustment& bias : std::move(biases).take()) adjustments[bias.token].add += bias.add;
  for (const int32_t token : suppressed) adjustments[token].add = -std::numeric_limits<float>::infinity();
  return std::move(adjustments).take();
}

uint32_t most_adjustments(const SamplingSettings& settings, std::span<const int32_t> suppressed) {
  const size_t penalised = has_penalties(settings) ? settings.penalty_window : 0;
  return static_cast<uint32_t>(penalised + settings.logit_bias.size() + suppressed.size());
}

}  // namespace sluice
