#include "device/cpu/sample.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "device/cpu/executor.h"

namespace sluice::cpu {
namespace {

// Elements that are compared together.
constexpr size_t kPart = 1024;

bool all_finite(std::span<const float> values) {
  uint32_t beyond = 0;
  for (const float value : values) beyond |= (std::bit_cast<uint32_t>(value) & 0x7f800000u) == 0x7f800000u ? 1 : 0;
  return beyond == 0;
}

float largest(const Kernels& kernels, std::span<const float> values) {
  return kernels.largest(values.data(), values.size());
}

double exp_sum(const Kernels& kernels, std::span<const float> values, float shift) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); i += kPart)
    sum += kernels.exp_sum(values.data() + i, shift, std::min(kPart, values.size() - i));
  return sum;
}

// The `count` tokens with the largest values, in descending order; the lower index first among equals.
std::vector<int32_t> largest_tokens(const Kernels& kernels, std::span<const float> values, size_t count) {
  const auto value = [&](int32_t token) { return values[static_cast<size_t>(token)]; };
  const auto better = [&](int32_t a, int32_t b) { return value(a) != value(b) ? value(a) > value(b) : a < b; };
  std::vector<int32_t> best;  // a heap, the worst on top
  best.reserve(std::min(count, values.size()));
  for (size_t i = 0; i < values.size(); i += kPart) {
    const std::span<const float> part = values.subspan(i, std::min(kPart, values.size() - i));
    if (best.size() == count && !(largest(kernels, part) > value(best.front()))) continue;
    for (size_t j = i; j < i + part.size(); ++j) {
      const auto token = static_cast<int32_t>(j);
      if (best.size() == count) {
        if (!better(token, best.front())) continue;
        std::pop_heap(best.begin(), best.end(), better);
        best.pop_back();
      }
      best.push_back(token);
      std::push_heap(best.begin(), best.end(), better);
    }
  }
  std::sort_heap(best.begin(), best.end(), better);
  return best;
}

// Chooses among t = logits / temperature.
class Chooser {
 public:
  Chooser(const Kernels& kernels, const SampleArgs& args, std::span<const float> t)
      : kernels_(kernels), row_(args.row), position_(args.position), t_(t), largest_(largest(kernels, t)) {}

  int32_t choose(float* scratch) const {
    const bool few = row_.top_k != 0 && row_.top_k < t_.size();
    if (few) {
      std::vector<int32_t> tokens = largest_tokens(kernels_, t_, row_.top_k);
      double all = 0;
      for (const int32_t token : tokens) all += share(token);
      cut_top_p(tokens, all);
      return choose_among(tokens);
    }
    return row_.top_p < 1 ? choose_among(most_probable()) : choose_among_all(scratch);
  }

 private:
  float value(int32_t token) const { return t_[static_cast<size_t>(token)]; }
  float share(int32_t token) const { return std::exp(value(token) - largest_); }  // of the best, 1
  uint64_t seed() const { return uint64_t{row_.seed_high} << 32 | row_.seed_low; }

  // Keeps the shortest prefix that reaches top_p of `all`; true when it was reached.
  bool cut_top_p(std::vector<int32_t>& tokens, double all) const {
    if (row_.top_p >= 1) return true;
    double reached = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      reached += share(tokens[i]);
      if (reached < row_.top_p * all) continue;
      tokens.resize(i + 1);
      return true;
    }
    return false;
  }

  // The prefix of all tokens that reaches top_p: mostly short, so that sorting a few suffices.
  std::vector<int32_t> most_probable() const {
    const double all = exp_sum(kernels_, t_, largest_);
    for (size_t count = 64;; count *= 8) {
      std::vector<int32_t> tokens = largest_tokens(kernels_, t_, std::min(count, t_.size()));
      if (cut_top_p(tokens, all) || count >= t_.size()) return tokens;
    }
  }

  int32_t choose_among(const std::vector<int32_t>& tokens) const {
    Best best;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && share(tokens[i]) < row_.min_p) break;
      best.offer(tokens[i],
                 value(tokens[i]) + gumbel(seed(), row_.choice, position_, static_cast<uint32_t>(tokens[i])));
    }
    return best.token;
  }

  // Every token with p >= min_p. A token beats the best so far, b, when its noise exceeds b - t; by -log(1 - v) >= v
  // that needs v < exp(t - b), which spares nearly all tokens the logarithms of their noise.
  int32_t choose_among_all(float* shares) const {
    for (size_t i = 0; i < t_.size(); ++i) shares[i] = t_[i] - largest_;
    kernels_.exp(shares, shares, t_.size());
    Best best;
    float factor = 0;  // exp(largest - b), with room for rounding; 0: no best yet
    for (size_t i = 0; i < t_.size(); i += 4) {
      const PhiloxCounter draw = gumbel_draw(seed(), row_.choice, position_, static_cast<uint32_t>(i / 4));
      for (size_t j = i; j < std::min(i + 4, t_.size()); ++j) {
        const auto v = static_cast<float>(draw[j % 4]) * 0x1p-32f;
        if (shares[j] < row_.min_p && t_[j] < largest_) continue;
        if (factor > 0 && v > shares[j] * factor) continue;
        if (best.offer(static_cast<int32_t>(j), t_[j] + gumbel_from_bits(draw[j % 4])))
          factor = std::exp(largest_ - best.value) * 1.001f;
      }
    }
    return best.token;
  }

  struct Best {
    int32_t token = -1;
    float value = 0;
    bool offer(int32_t other, float other_value) {
      if (token >= 0 && (other_value < value || (other_value == value && other > token))) return false;
      token = other;
      value = other_value;
      return true;
    }
  };

  const Kernels& kernels_;
  const SampleRow& row_;
  uint32_t position_;
  std::span<const float> t_;
  float largest_;
};

// Words of 32 tokens are mostly all allowed or all forbidden.
void forbid(std::span<float> logits, std::span<const uint32_t> mask) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  for (size_t word = 0; word < mask.size(); ++word) {
    const uint32_t allowed = mask[word];
    if (allowed == UINT32_MAX) continue;
    const std::span<float> own = logits.subspan(word * 32, std::min<size_t>(32, logits.size() - word * 32));
    for (size_t i = 0; i < own.size(); ++i)
      if ((allowed >> i & 1) == 0) own[i] = kNever;
  }
}

// The logits after adjustments and mask; the row itself if there are none.
std::span<const float> adjusted(const SampleArgs& args) {
  if (args.adjustments.empty() && args.mask.empty()) return args.logits;
  const std::span<float> copy(args.scratch, args.logits.size());
  std::copy(args.logits.begin(), args.logits.end(), copy.begin());
  for (const Adjustment& adjustment : args.adjustments) {
    CHECK(adjustment.token >= 0 && static_cast<size_t>(adjustment.token) < copy.size());
    float& logit = copy[static_cast<size_t>(adjustment.token)];
    logit = logit > 0 ? logit / adjustment.repeat : logit * adjustment.repeat;
    logit += adjustment.add;
  }
  forbid(copy, args.mask);
  return copy;
}

int32_t choose(const Kernels& kernels, const SampleArgs& args) {
  const std::span<const float> logits = adjusted(args);
  if (args.row.temperature == 0) return largest_tokens(kernels, logits, 1)[0];
  const std::span<float> t(args.scratch, logits.size());
  std::transform(logits.begin(), logits.end(), t.begin(), [&](float logit) { return logit / args.row.temperature; });
  return Chooser(kernels, args, t).choose(args.scratch + t.size());
}

}  // namespace

SampleResult sample_row(const Kernels& kernels, const SampleArgs& args) {
  SampleResult result{};
  result.finite = all_finite(args.logits) ? 1 : 0;
  if (result.finite == 0) return result;
  const auto logit = [&](int32_t token) { return args.logits[static_cast<size_t>(token)]; };
  const std::vector<int32_t> order = largest_tokens(kernels, args.logits, std::max(args.row.candidates, 1u));
  const double log_sum_exp = logit(order[0]) + std::log(exp_sum(kernels, args.logits, logit(order[0])));

  result.token = choose(kernels, args);
  result.log_prob = static_cast<float>(logit(result.token) - log_sum_exp);
  result.log_sum_exp = static_cast<float>(log_sum_exp);
  for (size_t i = 0; i < kCandidates; ++i) {
    const bool there = i < std::min<size_t>(args.row.candidates, order.size());
    result.candidates[i] = {.token = there ? order[i] : -1, .logit = there ? logit(order[i]) : 0};
  }
  return result;
}

void Executor::run(const Sample& op) {
  share_out(pool_, rows(op.out), 4 * columns(op.logits), [&](const Share& share) {
    for (uint64_t row = share.first; row < share.last; ++row) {
      const SampleRow& setting = step_->sample_rows()[row];
      const SampleArgs args{.logits = {reals(op.logits, row), columns(op.logits)},
                            .row = setting,
                            .adjustments = step_->adjustments().subspan(setting.first_adjustment, setting.adjustments),
                            .mask = step_->mask(setting.mask),
                            .position = static_cast<uint32_t>(step_->positions()[step_row(op.out, row)]),
                            .scratch = memory_.sample_thread(share.thread)};
      *reinterpret_cast<SampleResult*>(integer_result(op.out, row)) = sample_row(kernels_, args);
    }
  });
}

}  // namespace sluice::cpu
