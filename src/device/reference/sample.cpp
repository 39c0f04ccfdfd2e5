// The steps of graph/ops/sample.h, in their order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "device/reference/interpreter.h"

namespace sluice::reference {
namespace {

// Tokens with larger values first, equal ones by index.
template <class Real>
std::vector<int32_t> descending(const std::vector<Real>& values) {
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto value = [&](int32_t token) { return values[static_cast<size_t>(token)]; };
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return value(a) != value(b) ? value(a) > value(b) : a < b; });
  return order;
}

template <class Real>
void adjust(std::vector<Real>& logits, std::span<const Adjustment> adjustments) {
  for (const Adjustment& adjustment : adjustments) {
    CHECK(adjustment.token >= 0 && static_cast<size_t>(adjustment.token) < logits.size());
    Real& logit = logits[static_cast<size_t>(adjustment.token)];
    logit = logit > 0 ? logit / adjustment.repeat : logit * adjustment.repeat;
    logit += adjustment.add;
  }
}

template <class Real>
void forbid(std::vector<Real>& logits, std::span<const uint32_t> mask) {
  for (size_t token = 0; token < logits.size(); ++token)
    if (!allows(mask, static_cast<uint32_t>(token))) logits[token] = -std::numeric_limits<Real>::infinity();
}

// How many of the tokens, largest t first, remain after top_k, top_p and min_p.
template <class Real>
size_t kept(const std::vector<Real>& t, const std::vector<int32_t>& order, const SampleRow& row) {
  size_t count = row.top_k == 0 ? order.size() : std::min<size_t>(row.top_k, order.size());
  const Real largest = t[static_cast<size_t>(order[0])];
  const auto p = [&](size_t i) { return std::exp(t[static_cast<size_t>(order[i])] - largest); };  // of the best, 1
  if (row.top_p < 1) {
    Real all = 0, reached = 0;
    for (size_t i = 0; i < count; ++i) all += p(i);
    for (size_t i = 0; i < count; ++i) {
      reached += p(i);
      if (reached >= row.top_p * all) count = i + 1;
    }
  }
  while (count > 1 && p(count - 1) < row.min_p) --count;
  return count;
}

template <class Real>
int32_t choose(std::vector<Real> logits, const SampleRow& row, uint32_t position) {
  if (row.temperature == 0) return descending(logits)[0];
  for (Real& logit : logits) logit /= row.temperature;
  const std::vector<int32_t> order = descending(logits);
  const uint64_t seed = uint64_t{row.seed_high} << 32 | row.seed_low;
  const size_t count = kept(logits, order, row);
  int32_t best = -1;
  Real best_value = 0;
  for (size_t i = 0; i < count; ++i) {
    const int32_t token = order[i];
    const Real value =
        logits[static_cast<size_t>(token)] + gumbel(seed, row.choice, position, static_cast<uint32_t>(token));
    if (best >= 0 && (value < best_value || (value == best_value && token > best))) continue;
    best = token;
    best_value = value;
  }
  return best;
}

template <class Real>
SampleResult sample(std::span<const Real> logits, const SampleRow& row, std::span<const Adjustment> adjustments,
                    std::span<const uint32_t> mask, uint32_t position) {
  SampleResult result{};
  if (!std::all_of(logits.begin(), logits.end(), [](Real logit) { return std::isfinite(logit); })) {
    result.finite = 0;
    return result;
  }
  std::vector<Real> adjusted(logits.begin(), logits.end());
  const std::vector<int32_t> order = descending(adjusted);
  const auto logit = [&](int32_t token) { return logits[static_cast<size_t>(token)]; };
  Real sum = 0;
  for (const Real one : logits) sum += std::exp(one - logit(order[0]));
  const Real log_sum_exp = logit(order[0]) + std::log(sum);

  adjust(adjusted, adjustments);
  forbid(adjusted, mask);
  result.token = choose(adjusted, row, position);
  result.log_prob = static_cast<float>(logit(result.token) - log_sum_exp);
  result.log_sum_exp = static_cast<float>(log_sum_exp);
  for (size_t i = 0; i < kCandidates; ++i) {
    const bool there = i < std::min<size_t>(row.candidates, order.size());
    result.candidates[i] = {.token = there ? order[i] : -1, .logit = there ? static_cast<float>(logit(order[i])) : 0};
  }
  return result;
}

}  // namespace

SampleResult sample_row(std::span<const float> logits, const SampleRow& row, std::span<const Adjustment> adjustments,
                        std::span<const uint32_t> mask, uint32_t position) {
  return sample(logits, row, adjustments, mask, position);
}
SampleResult sample_row(std::span<const double> logits, const SampleRow& row, std::span<const Adjustment> adjustments,
                        std::span<const uint32_t> mask, uint32_t position) {
  return sample(logits, row, adjustments, mask, position);
}

}  // namespace sluice::reference
