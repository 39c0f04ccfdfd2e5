// Least squares fits of scales for the encoders of the k and iq4 formats. A fit tries several roundings of a few
// elements to integers and keeps the scale with the least weighted squared error. The parameters and the order of the
// tries are ggml's (ggml-quants.c), so blocks have the same errors as ggml's.
#pragma once

#include <cmath>
#include <cstdint>

#include "format/rounding.h"

namespace sluice {

// A block whose magnitudes are all below this is encoded as zeros.
inline constexpr float kFitNothing = 1e-15f;

// Sums over elements x with weights w rounded to q.
struct FitSums {
  float xq = 0, qq = 0;  // the sums of w x q and of w q q
  float scale() const { return qq > 0 ? xq / qq : 0.0f; }
  // With the best scale for these roundings the squared error is sum(w x x) - xq * xq / qq.
  bool better_than(float best) const { return qq > 0 && xq * xq > best * qq; }
  float gain() const { return scale() * xq; }
};

// x = scale * q - minimum.
struct MinimumFit {
  float scale = 0, minimum = 0;
};
// The roundings to try: (x - low) / step, for the steps (high - low) / (levels + first + k * by) with k = 0 .. count.
struct MinimumTries {
  float first, by;
  int count;
  bool absolute = false;  // the error is the weighted sum of absolute differences, not of squares
};

// Fits N elements with 0 <= q <= kLevels, minimum >= 0.
template <int kLevels, int N>
class MinimumFitter {
 public:
  MinimumFitter(const float* x, const float* w, bool absolute) : x_(x), w_(w), absolute_(absolute) {
    for (int i = 0; i < N; ++i) {
      sum_w_ += w[i];
      sum_x_ += w[i] * x[i];
    }
  }

  MinimumFit fit(const MinimumTries& tries) {
    const Range range = range_of(x_, N);
    MinimumFit best{0, std::fmax(-range.low, 0.0f)};
    if (!(range.high > -best.minimum)) return best;
    best.scale = (range.high + best.minimum) / kLevels;
    round(kLevels / (range.high + best.minimum), best.minimum);
    float least = error(best);
    for (int k = 0; k <= tries.count; ++k) {
      const float steps = tries.first + tries.by * static_cast<float>(k) + kLevels;
      round(steps / (range.high + best.minimum), best.minimum);  // from the best minimum so far, as ggml does
      if (!solvable()) continue;
      const MinimumFit tried = solve();
      const float found = error(tried);
      if (!(found < least)) continue;
      least = found;
      best = tried;
    }
    return best;
  }

 private:
  void round(float inverse, float minimum) {
    sum_q_ = sum_qq_ = sum_xq_ = 0;
    for (int i = 0; i < N; ++i) {
      q_[i] = static_cast<float>(nearest(inverse * (x_[i] + minimum), 0, kLevels));
      sum_q_ += w_[i] * q_[i];
      sum_qq_ += w_[i] * q_[i] * q_[i];
      sum_xq_ += w_[i] * q_[i] * x_[i];
    }
  }

  float determinant() const { return sum_w_ * sum_qq_ - sum_q_ * sum_q_; }
  bool solvable() const { return determinant() > 0; }

  // The scale and minimum that fit the current rounding best.
  MinimumFit solve() const {
    const float minimum = (sum_q_ * sum_xq_ - sum_qq_ * sum_x_) / determinant();
    if (minimum < 0) return {sum_xq_ / sum_qq_, 0};
    return {(sum_w_ * sum_xq_ - sum_x_ * sum_q_) / determinant(), minimum};
  }

  float error(MinimumFit fit) const {
    float sum = 0;
    for (int i = 0; i < N; ++i) {
      const float off = fit.scale * q_[i] - fit.minimum - x_[i];
      sum += w_[i] * (absolute_ ? std::fabs(off) : off * off);
    }
    return sum;
  }

  const float* x_;
  const float* w_;
  bool absolute_;
  float sum_w_ = 0, sum_x_ = 0, sum_q_ = 0, sum_qq_ = 0, sum_xq_ = 0;
  float q_[N] = {};
};

template <int kLevels, int N>
MinimumFit fit_minimum(const float* x, const float* w, const MinimumTries& tries) {
  return MinimumFitter<kLevels, N>(x, w, tries.absolute).fit(tries);
}

// Fits x = scale * q with -kLevels <= q < kLevels. The element of largest magnitude becomes about -kLevels.
template <int kLevels, int N>
float fit_signed(const float* x, const float* w) {
  const float farthest = farthest_from_0(x, N);
  if (!(std::fabs(farthest) >= kFitNothing)) return 0;
  const auto sums = [&](float inverse) {
    FitSums s;
    for (int i = 0; i < N; ++i) {
      const auto q = static_cast<float>(nearest(inverse * x[i], -kLevels, kLevels - 1));
      s.xq += w[i] * x[i] * q;
      s.qq += w[i] * q * q;
    }
    return s;
  };
  FitSums kept = sums(-kLevels / farthest);
  float best = kept.gain();
  for (int k = -9; k <= 9; ++k) {
    if (k == 0) continue;
    const FitSums tried = sums(-(kLevels + 0.1f * static_cast<float>(k)) / farthest);
    if (!tried.better_than(best)) continue;
    kept = tried;
    best = tried.gain();
  }
  return kept.scale();
}

// Like fit_signed with weights x * x, but it starts from one rounding and then moves single elements to other integers
// as long as the error falls, in at most five passes.
template <int kLevels, int N>
float fit_one_by_one(const float* x) {
  const float farthest = farthest_from_0(x, N);
  if (!(std::fabs(farthest) >= kFitNothing)) return 0;
  int q[N];
  FitSums sums;
  for (int i = 0; i < N; ++i) {
    q[i] = nearest(-kLevels / farthest * x[i], -kLevels, kLevels - 1);
    const float w = x[i] * x[i];
    sums.xq += w * x[i] * static_cast<float>(q[i]);
    sums.qq += w * static_cast<float>(q[i] * q[i]);
  }
  const auto improve = [&](int i) {
    const float w = x[i] * x[i];
    FitSums rest = sums;
    rest.xq -= w * x[i] * static_cast<float>(q[i]);
    rest.qq -= w * static_cast<float>(q[i] * q[i]);
    if (!(rest.xq > 0)) return false;
    const int moved = nearest(x[i] * rest.qq / rest.xq, -kLevels, kLevels - 1);
    if (moved == q[i]) return false;
    rest.xq += w * x[i] * static_cast<float>(moved);
    rest.qq += w * static_cast<float>(moved * moved);
    const bool better = rest.qq > 0 && rest.xq * rest.xq * sums.qq > sums.xq * sums.xq * rest.qq;
    if (!better) return false;
    sums = rest;
    q[i] = moved;
    return true;
  };
  for (int pass = 0; pass < 5; ++pass) {
    bool changed = false;
    for (int i = 0; i < N; ++i) changed |= improve(i);
    if (!changed) break;
  }
  return sums.scale();
}

}  // namespace sluice
