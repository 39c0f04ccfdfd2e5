// Kernels over single rows: norm, rope, element by element, sums of exponentials.
#pragma once

#include "device/cpu/kernels.h"
#include "device/cpu/kernels/math.h"

namespace sluice::cpu {

template <class S>
struct Elementwise {
  using F = typename S::F;
  using M = Math<S>;

  // Calls whole(i) for whole vectors and rest(i, n) for the n elements behind them.
  template <class Whole, class Rest>
  static void sweep(size_t count, const Whole& whole, const Rest& rest) {
    size_t i = 0;
    for (; i + 16 <= count; i += 16) whole(i);
    if (i < count) rest(i, static_cast<int>(count - i));
  }
  template <class Function>
  static void map(const float* x, float* out, size_t count, const Function& f) {
    sweep(
        count, [&](size_t i) { S::store(out + i, f(S::load(x + i))); },
        [&](size_t i, int n) { S::store(out + i, f(S::load(x + i, n)), n); });
  }
  template <class Function>
  static void map(const float* x, const float* y, float* out, size_t count, const Function& f) {
    sweep(
        count, [&](size_t i) { S::store(out + i, f(S::load(x + i), S::load(y + i))); },
        [&](size_t i, int n) { S::store(out + i, f(S::load(x + i, n), S::load(y + i, n)), n); });
  }

  static void rms_norm(const float* x, const float* weight, float eps, float* out, size_t n) {
    F squares = S::splat(0.0f);
    const auto add_square = [&](F v) { squares = S::fma(v, v, squares); };
    sweep(
        n, [&](size_t i) { add_square(S::load(x + i)); },
        [&](size_t i, int rest) { add_square(S::load(x + i, rest)); });
    const F inverse = S::splat(1.0f / __builtin_sqrtf(S::sum(squares) / static_cast<float>(n) + eps));
    if (weight == nullptr)
      map(x, out, n, [&](F v) { return v * inverse; });
    else
      map(x, weight, out, n, [&](F v, F w) { return v * inverse * w; });
  }

  static void l2_norm(const float* x, float eps, float* out, size_t n) {
    F squares = S::splat(0.0f);
    const auto add_square = [&](F v) { squares = S::fma(v, v, squares); };
    sweep(
        n, [&](size_t i) { add_square(S::load(x + i)); },
        [&](size_t i, int rest) { add_square(S::load(x + i, rest)); });
    const F inverse = S::splat(1.0f / __builtin_sqrtf(S::sum(squares) + eps));
    map(x, out, n, [&](F v) { return v * inverse; });
  }

  static F mean_of(const float* x, size_t n) {
    F sums = S::splat(0.0f);
    sweep(
        n, [&](size_t i) { sums = sums + S::load(x + i); },
        [&](size_t i, int rest) { sums = sums + S::load(x + i, rest); });
    return S::splat(S::sum(sums) / static_cast<float>(n));
  }

  // The rounding error of the mean can be as large as the differences between thousands of nearly equal numbers (a
  // patch of one colour). So the mean is subtracted, then the mean of the differences, and then the squares are summed.
  static void layer_norm(const LayerNormArgs& a) {
    F squares = S::splat(0.0f);
    const F mean = mean_of(a.x, a.n);
    map(a.x, a.out, a.n, [&](F v) { return v - mean; });
    const F left = mean_of(a.out, a.n);
    map(a.out, a.out, a.n, [&](F v) { return v - left; });
    const auto add_square = [&](F v) { squares = S::fma(v, v, squares); };
    sweep(
        a.n, [&](size_t i) { add_square(S::load(a.out + i)); },
        [&](size_t i, int rest) { add_square(S::load(a.out + i, rest)); });
    const F inverse = S::splat(1.0f / __builtin_sqrtf(S::sum(squares) / static_cast<float>(a.n) + a.eps));
    if (a.weight == nullptr)
      map(a.out, a.out, a.n, [&](F v) { return v * inverse; });
    else
      map(a.out, a.weight, a.out, a.n, [&](F v, F w) { return v * inverse * w; });
    if (a.bias != nullptr) add(a.out, a.bias, a.out, a.n);
  }

  static void rope_halves(const RopeArgs& a) {
    const auto turn = [&](const float* x, const float* y, const float* y_factor, bool plus, float* to) {
      sweep(
          a.pairs,
          [&](size_t i) {
            S::store(to + i,
                     turned(S::load(x + i), S::load(a.cosines + i), S::load(y + i), S::load(y_factor + i), plus));
          },
          [&](size_t i, int n) {
            const F v =
                turned(S::load(x + i, n), S::load(a.cosines + i, n), S::load(y + i, n), S::load(y_factor + i, n), plus);
            S::store(to + i, v, n);
          });
    };
    turn(a.x, a.x + a.pairs, a.sines, false, a.out);
    turn(a.x + a.pairs, a.x, a.sines, true, a.out + a.pairs);
    copy_rest(a);
  }
  static void rope_adjacent(const RopeArgs& a) {
    turn_adjacent(a, a.out, a.out + 1, 2);
    copy_rest(a);
  }
  static void rope_adjacent_to_halves(const RopeArgs& a) {
    turn_adjacent(a, a.out, a.out + a.pairs, 1);
    copy_rest(a);
  }

  static void add(const float* a, const float* b, float* out, size_t n) {
    map(a, b, out, n, [](F x, F y) { return x + y; });
  }
  static void mul(const float* a, const float* b, float* out, size_t n) {
    map(a, b, out, n, [](F x, F y) { return x * y; });
  }
  static void scale(const float* x, float factor, float* out, size_t n) {
    map(x, out, n, [&](F v) { return v * S::splat(factor); });
  }
  static void clamp(const float* x, float low, float high, float* out, size_t n) {
    map(x, out, n, [&](F v) { return S::min(S::splat(high), S::max(S::splat(low), v)); });
  }
  static void softcap(const float* x, float cap, float* out, size_t n) {
    map(x, out, n, [&](F v) { return S::splat(cap) * M::tanh(v / S::splat(cap)); });
  }
  template <ActivationKind kKind>
  static void activation(const float* x, float* out, size_t n) {
    map(x, out, n, [](F v) { return M::template activation<kKind>(v); });
  }
  template <ActivationKind kKind>
  static void gated_activation(const float* gate, const float* up, float* out, size_t n) {
    map(gate, up, out, n, [](F g, F u) { return M::template activation<kKind>(g) * u; });
  }
  static void exp(const float* x, float* out, size_t n) {
    map(x, out, n, [](F v) { return M::exp(v); });
  }
  static void tanh(const float* x, float* out, size_t n) {
    map(x, out, n, [](F v) { return M::tanh(v); });
  }
  static void accumulate(const float* x, float factor, float* out, size_t n) {
    map(x, out, out, n, [&](F v, F sum) { return S::fma(v, S::splat(factor), sum); });
  }

  static float largest(const float* x, size_t n) {
    float best = -__builtin_inff();
    F bests = S::splat(best);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) bests = S::max(S::load(x + i), bests);
    best = S::largest(bests);
    for (; i < n; ++i) best = x[i] > best ? x[i] : best;
    return best;
  }
  static float exp_sum(const float* x, float shift, size_t n) {
    F sums = S::splat(0.0f);
    const F shifts = S::splat(shift);
    sweep(
        n, [&](size_t i) { sums = sums + M::exp(S::load(x + i) - shifts); },
        [&](size_t i, int rest) {
          float padded[16];
          S::store(padded, S::splat(-__builtin_inff()));
          S::store(padded, S::load(x + i, rest), rest);
          sums = sums + M::exp(S::load(padded) - shifts);
        });
    return S::sum(sums);
  }

 private:
  static F turned(F x, F cosine, F y, F sine, bool plus) {
    const F other = y * sine;
    return plus ? x * cosine + other : x * cosine - other;
  }
  static void turn_adjacent(const RopeArgs& a, float* first, float* second, uint32_t stride) {
    for (uint32_t i = 0; i < a.pairs; ++i) {
      const float x = a.x[2 * i], y = a.x[2 * i + 1];
      first[i * stride] = x * a.cosines[i] - y * a.sines[i];
      second[i * stride] = y * a.cosines[i] + x * a.sines[i];
    }
  }
  static void copy_rest(const RopeArgs& a) {
    for (uint32_t i = 2 * a.pairs; i < a.width; ++i) a.out[i] = a.x[i];
  }
};

}  // namespace sluice::cpu
