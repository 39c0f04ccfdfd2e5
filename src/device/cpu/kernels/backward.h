// Kernels of training: sums of products in which rows of one operand are added up, and derivatives.
#pragma once

#include "device/cpu/kernels/elementwise.h"

namespace sluice::cpu {

template <class S>
struct Backward {
  using F = typename S::F;
  using M = Math<S>;
  using E = Elementwise<S>;

  // Element (r, c): one fused multiply-add for each k in ascending order, beginning with what out holds. Tiles of rows
  // and vectors stay in registers; which tile an element is in changes no bit.
  static void multiply_add(const MultiplyAddArgs& a) {
    constexpr uint32_t kRows = S::kTileQueries;
    uint64_t row = 0;
    for (; row + kRows <= a.rows; row += kRows) strip<kRows>(a, row);
    for (; row < a.rows; ++row) strip<1>(a, row);
  }

  static float dot(const float* a, const float* b, size_t n) {
    F sum = S::splat(0.0f);
    E::sweep(
        n, [&](size_t i) { sum = S::fma(S::load(a + i), S::load(b + i), sum); },
        [&](size_t i, int rest) { sum = S::fma(S::load(a + i, rest), S::load(b + i, rest), sum); });
    return S::sum(sum);
  }

  // g = d_out weight; d_x = g / root - x sum(g x) / (size root^3).
  static void norm_backward(const NormBackwardArgs& a) {
    const auto weighted = [&](F d, const float* weight, size_t i) {
      return a.weight == nullptr ? d : d * S::load(weight + i);
    };
    const auto weighted_rest = [&](F d, const float* weight, size_t i, int n) {
      return a.weight == nullptr ? d : d * S::load(weight + i, n);
    };
    F squares = S::splat(0.0f), both = S::splat(0.0f);
    const auto add = [&](F x, F g) {
      squares = S::fma(x, x, squares);
      both = S::fma(g, x, both);
    };
    E::sweep(
        a.n, [&](size_t i) { add(S::load(a.x + i), weighted(S::load(a.d_out + i), a.weight, i)); },
        [&](size_t i, int n) { add(S::load(a.x + i, n), weighted_rest(S::load(a.d_out + i, n), a.weight, i, n)); });
    const float root = __builtin_sqrtf(S::sum(squares) / a.size + a.eps);
    const F inverse = S::splat(1.0f / root);
    const F share = S::splat(S::sum(both) / (a.size * root * root) * (1.0f / root));
    E::sweep(
        a.n,
        [&](size_t i) {
          S::store(a.d_x + i, weighted(S::load(a.d_out + i), a.weight, i) * inverse - S::load(a.x + i) * share);
        },
        [&](size_t i, int n) {
          const F g = weighted_rest(S::load(a.d_out + i, n), a.weight, i, n);
          S::store(a.d_x + i, g * inverse - S::load(a.x + i, n) * share, n);
        });
  }

  template <ActivationKind kKind>
  static void activation_backward(const float* x, const float* d_out, float* d_x, size_t n) {
    E::map(x, d_out, d_x, n, [](F v, F d) { return d * slope<kKind>(v); });
  }

 private:
  template <uint32_t R>
  static void strip(const MultiplyAddArgs& a, uint64_t row) {
    uint64_t c = 0;
    constexpr int kVectors = S::kTileVectors;
    for (; c + 16 * kVectors <= a.columns; c += 16 * kVectors) tile<R, kVectors>(a, row, c, 16);
    for (; c + 16 <= a.columns; c += 16) tile<R, 1>(a, row, c, 16);
    if (c < a.columns) tile<R, 1>(a, row, c, static_cast<int>(a.columns - c));
  }
  // Vectors of 16; the last has `rest` elements.
  template <uint32_t R, int V>
  static void tile(const MultiplyAddArgs& a, uint64_t row, uint64_t c, int rest) {
    const auto load = [&](const float* from) { return rest == 16 ? S::load(from) : S::load(from, rest); };
    F sum[R][V];
    for (uint32_t r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v) sum[r][v] = load(a.out + (row + r) * a.out_stride + c + 16 * v);
    const float* left = a.left + row * a.left_row_stride;
    const float* right = a.right + c;
    for (uint64_t k = 0; k < a.depth; ++k, left += a.left_stride, right += a.right_stride) {
      F x[V];
      for (int v = 0; v < V; ++v) x[v] = load(right + 16 * v);
      for (uint32_t r = 0; r < R; ++r) {
        const F factor = S::splat(left[r * a.left_row_stride]);
        for (int v = 0; v < V; ++v) sum[r][v] = S::fma(factor, x[v], sum[r][v]);
      }
    }
    for (uint32_t r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v) {
        float* to = a.out + (row + r) * a.out_stride + c + 16 * v;
        if (rest == 16)
          S::store(to, sum[r][v]);
        else
          S::store(to, sum[r][v], rest);
      }
  }

  template <ActivationKind kKind>
  static F slope(F x) {
    if constexpr (kKind == ActivationKind::gelu_tanh) {
      const F one = S::splat(1.0f);
      constexpr float kRoot = 0.7978845608f;  // sqrt(2 / pi)
      const F square = x * x;
      // 0.5 (1 + tanh u) = sigmoid(2 u), and 1 - tanh(u)^2 = 4 sigmoid(2 u) (1 - sigmoid(2 u)).
      const F inner = S::splat(kRoot) * x * S::fma(square, S::splat(0.044715f), one);
      const F s = M::sigmoid(inner + inner), left = M::sigmoid(S::splat(0.0f) - inner - inner);
      const F of_inner = S::splat(kRoot) * S::fma(square, S::splat(0.134145f), one);
      return S::fma(S::splat(2.0f) * x * s * left, of_inner, s);
    }
    const F s = M::sigmoid(x), left = M::sigmoid(S::splat(0.0f) - x);
    if constexpr (kKind == ActivationKind::sigmoid) return s * left;
    return S::fma(s * x, left, s);
  }
};

}  // namespace sluice::cpu
