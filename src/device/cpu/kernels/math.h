// Elementary functions over 16 lanes, with the same arithmetic in every lane.
//
// exp: x = n ln 2 + r with |r| <= ln(2) / 2, then the Taylor series of e^r to r^7. Its first missing term is
// 0.35^8 / 8! = 6e-9 of the result, a tenth of a rounding. The error is at most 2 ulp over the whole range, with
// gradual underflow. NaN stays NaN.
//
// gelu: erfc(z) = t exp(P(t) - z^2) with t = 1 / (1 + z / 2), z >= 0, as in Hastings' approximations (1955). P of
// degree 9 is fitted to ln(erfc(z) exp(z^2) / t) in Chebyshev nodes over t in (0, 1], at most 1.9e-7 off. The result is
// within 3e-7 |x| of the true value, and small results keep their digits.
#pragma once

#include "graph/ops/elementwise.h"

namespace sluice::cpu {

template <class S>
struct Math {
  using F = typename S::F;

  static F exp(F x) {
    // Clamped to the range beyond which the result is 0 or infinite anyway. A NaN is the second operand and passes.
    x = S::min(S::splat(89.0f), S::max(S::splat(-105.0f), x));
    const Reduced y = reduce(x);
    return S::scale_by_power(y.exp_minus_1 + S::splat(1.0f), y.n);
  }

  // tanh |x| = -m / (m + 2) with m = exp(-2 |x|) - 1, which has no cancellation: near 0 m is the series alone.
  static F tanh(F x) {
    const F y = S::max(S::splat(-40.0f), S::splat(-2.0f) * S::abs(x));
    const Reduced z = reduce(y);
    const F power = S::scale_by_power(S::splat(1.0f), z.n);
    const F m = S::fma(power, z.exp_minus_1, power - S::splat(1.0f));
    return S::copy_sign(S::splat(0.0f) - m / (m + S::splat(2.0f)), x);
  }

  static F sigmoid(F x) { return S::splat(1.0f) / (S::splat(1.0f) + exp(S::splat(0.0f) - x)); }
  static F silu(F x) { return x / (S::splat(1.0f) + exp(S::splat(0.0f) - x)); }
  // 0.5 x (1 + tanh(u)) is x / (1 + exp(-2 u)), which keeps its precision for negative u.
  static F gelu_tanh(F x) {
    constexpr float kSqrt2OverPi = 0.7978845608f;
    const F inner = x * S::fma(x * x, S::splat(0.044715f), S::splat(1.0f));
    return x / (S::splat(1.0f) + exp(S::splat(-2.0f * kSqrt2OverPi) * inner));
  }

  // A NaN is the second operand and passes.
  static F relu(F x) { return S::max(S::splat(0.0f), x); }
  // x Phi(x) = max(x, 0) - |x| erfc(|x| / sqrt(2)) / 2
  static F gelu(F x) {
    constexpr float kFit[] = {0.182045102f,  -0.872641623f, 1.58359671f,  -1.23176146f, 0.336006463f,
                              -0.206139565f, 0.1006542f,    0.373714834f, 1.00003779f,  -1.26551235f};
    const F size = S::abs(x);
    const F t = S::splat(1.0f) / S::fma(size, S::splat(0.353553391f), S::splat(1.0f));
    F fit = S::splat(kFit[0]);
    for (int i = 1; i < 10; ++i) fit = S::fma(fit, t, S::splat(kFit[i]));
    const F tail = t * exp(S::fma(x * x, S::splat(-0.5f), fit));
    return S::fma(S::splat(-0.5f) * size, tail, relu(x));
  }

  template <ActivationKind kKind>
  static F activation(F x) {
    if constexpr (kKind == ActivationKind::gelu_tanh) return gelu_tanh(x);
    if constexpr (kKind == ActivationKind::silu) return silu(x);
    if constexpr (kKind == ActivationKind::sigmoid) return sigmoid(x);
    if constexpr (kKind == ActivationKind::relu) return relu(x);
    if constexpr (kKind == ActivationKind::gelu) return gelu(x);
  }

 private:
  struct Reduced {
    F n;            // nearest integer of x / ln 2
    F exp_minus_1;  // of r
  };
  static Reduced reduce(F x) {
    constexpr float kLog2e = 1.4426950409f;
    constexpr float kLn2High = 0.693359375f;  // 9 bits, so that n times it is exact
    constexpr float kLn2Low = -2.12194440e-4f;
    const F n = S::round(x * S::splat(kLog2e));
    F r = S::fma(n, S::splat(-kLn2High), x);
    r = S::fma(n, S::splat(-kLn2Low), r);
    F series = S::splat(1.0f / 5040);
    series = S::fma(series, r, S::splat(1.0f / 720));
    series = S::fma(series, r, S::splat(1.0f / 120));
    series = S::fma(series, r, S::splat(1.0f / 24));
    series = S::fma(series, r, S::splat(1.0f / 6));
    series = S::fma(series, r, S::splat(1.0f / 2));
    return {n, S::fma(r * r, series, r)};
  }
};

}  // namespace sluice::cpu
