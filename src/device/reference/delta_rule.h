// The gated delta rule of one value head (graph/ops/recurrent.h) in three forms: row by row, which is its meaning and
// the form that this device plays; in chunks of 64 rows, as products of matrices; in chunks with the bf16 roundings of
// GPU implementations. tests/device compares each form with the first one in f64.
#pragma once

#include <cstdint>

namespace sluice::reference {

template <class Real>
struct DeltaHead {
  uint64_t rows = 0;
  uint32_t key_width = 0, value_width = 0;
  const Real* q = nullptr;  // [rows][key width]
  const Real* k = nullptr;
  const Real* v = nullptr;      // [rows][value width]
  const Real* decay = nullptr;  // [rows], logarithms
  const Real* beta = nullptr;
  Real scale = 1;
  Real* state = nullptr;  // [key width][value width]
  Real* out = nullptr;    // [rows][value width]
};

// Row by row.
template <class Real>
void delta_recurrent(const DeltaHead<Real>& head);

// In chunks, all in f32. For a chunk with the state S before it: D(i, j) is the sum of the decays after row j up to row
// i, and g_i the sum from the chunk's first row on.
//
//   A_ij = beta_i (k_i . k_j) exp(D(i, j)) for j < i, else 0          X = (I + A)^-1
//   u_i = sum_j X_ij beta_j v_j                                       w_i = sum_j X_ij beta_j exp(g_j) k_j
//   n_i = u_i - S^T w_i
//   out_i = scale (exp(g_i) S^T q_i + sum_{j <= i} (q_i . k_j) exp(D(i, j)) n_j)
//   S = exp(g_last) S + sum_i exp(D(last, i)) k_i n_i^T
//
// Source: Yang et al. 2024 (arXiv:2412.06464). D is added up, never subtracted. So a decay to exactly 0 (a logarithm of
// minus infinity) gives 0 and no NaN, and rows behind a strong decay lose no digits.
void delta_chunked(const DeltaHead<float>& head);

// In chunks, with q, k, v, u, w, gated scores and the state that out reads rounded to bf16. Sums and the state itself
// are f32. X is f32, or rounded too.
enum class Inverse : uint8_t { f32, bf16 };
void delta_chunked_bf16(const DeltaHead<float>& head, Inverse inverse);

extern template void delta_recurrent(const DeltaHead<float>& head);
extern template void delta_recurrent(const DeltaHead<double>& head);

}  // namespace sluice::reference
