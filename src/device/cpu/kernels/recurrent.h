// Kernels of the gated delta net: the short convolution and the delta rule, row by row.
//
// The columns of a head's state are independent: an update reads only k, q and the column's own part of v. A call runs
// all rows of a sequence through a few vectors of columns, which fit into the first cache. The state of a single row
// comes from memory. Where that is read faster so (DeltaArgs::ahead), a call takes more columns, and prefetches them.
// Sums along the key width are in ascending order in every column.
#pragma once

#include "device/cpu/kernels.h"
#include "device/cpu/kernels/math.h"
#include "graph/ops/recurrent.h"

namespace sluice::cpu {

template <class S>
struct Recurrent {
  using F = typename S::F;
  using M = Math<S>;

  static void short_conv(const ConvArgs& a) {
    uint64_t c = a.first;
    for (; c + 16 <= a.last; c += 16) conv_channels(a, c, Whole());
    if (c < a.last) conv_channels(a, c, Rest{static_cast<int>(a.last - c)});
  }

  static void delta_rule(const DeltaArgs& a) {
    uint32_t j = a.first;
    constexpr uint32_t kWide = 16 * S::kStateVectors;
    if (a.ahead)
      for (; j + kWide <= a.last; j += kWide) delta_columns<S::kStateVectors, true>(a, j, Whole());
    for (; j + 64 <= a.last; j += 64) delta_columns<4, false>(a, j, Whole());
    for (; j + 16 <= a.last; j += 16) delta_columns<1, false>(a, j, Whole());
    if (j < a.last) delta_columns<1, false>(a, j, Rest{static_cast<int>(a.last - j)});
  }

 private:
  // Load and store a vector: all sixteen elements, or only the n that exist.
  struct Whole {
    F load(const float* from) const { return S::load(from); }
    void store(float* to, const F& x) const { S::store(to, x); }
  };
  struct Rest {
    int n;
    F load(const float* from) const { return S::load(from, n); }
    void store(float* to, const F& x) const { S::store(to, x, n); }
  };
  static int count(const Whole&) { return 16; }
  static int count(const Rest& rest) { return rest.n; }

  template <class Access>
  static void conv_channels(const ConvArgs& a, uint64_t c, const Access& access) {
    float columns[kMaxConvTaps][16] = {};  // of the weight
    for (int i = 0; i < count(access); ++i)
      for (uint32_t j = 0; j < a.taps; ++j) columns[j][i] = a.weight[(c + static_cast<uint64_t>(i)) * a.taps + j];
    const uint64_t kept = a.taps - 1;
    // Row t, counted from the oldest one that the state holds.
    const auto x = [&](uint64_t t) {
      if (t >= kept) return access.load(a.x + (t - kept) * a.channels + c);
      return a.slot.before == nullptr ? S::splat(0.0f) : access.load(a.slot.before + t * a.channels + c);
    };
    for (uint64_t t = 0; t < a.rows; ++t) {
      F sum = S::splat(0.0f);
      for (uint32_t j = 0; j < a.taps; ++j) sum = S::fma(S::load(columns[j]), x(t + j), sum);
      access.store(a.out + t * a.channels + c, M::silu(sum));
    }
    for (uint64_t j = 0; j < kept; ++j) access.store(a.slot.after + j * a.channels + c, x(a.rows + j));
  }

  static constexpr uint64_t kRowsAhead = 8;  // of a state, that are prefetched: docs/experiments.md

  template <int kVectors, bool kAhead, class Access>
  static void delta_columns(const DeltaArgs& a, uint32_t column, const Access& access) {
    float* state = a.slot.after + column;
    const float* before = a.slot.before == nullptr ? nullptr : a.slot.before + column;
    for (uint64_t t = 0; t < a.rows; ++t, before = state) {
      const float* k = a.k + t * a.key_stride;
      const float* q = a.q + t * a.key_stride;
      const float* v = a.v + t * a.value_stride + column;
      const F decay = M::exp(S::splat(a.decay[t * a.gate_stride])), beta = S::splat(a.beta[t * a.gate_stride]);
      F sums[kVectors];
      for (F& sum : sums) sum = S::splat(0.0f);
      for (uint32_t i = 0; i < a.key_width; ++i) {
        const F ki = S::splat(k[i]);
        for (int n = 0; n < kVectors; ++n) {
          const uint64_t at = uint64_t{i} * a.value_width + 16 * static_cast<uint64_t>(n);
          if constexpr (kAhead) __builtin_prefetch(before + at + kRowsAhead * a.value_width);
          const F s = (before == nullptr ? S::splat(0.0f) : access.load(before + at)) * decay;
          access.store(state + at, s);
          sums[n] = S::fma(s, ki, sums[n]);
        }
      }
      F errors[kVectors];
      for (int n = 0; n < kVectors; ++n) {
        errors[n] = beta * (access.load(v + 16 * n) - sums[n]);
        sums[n] = S::splat(0.0f);
      }
      for (uint32_t i = 0; i < a.key_width; ++i) {
        const F ki = S::splat(k[i]), qi = S::splat(q[i]);
        for (int n = 0; n < kVectors; ++n) {
          const uint64_t at = uint64_t{i} * a.value_width + 16 * static_cast<uint64_t>(n);
          const F s = S::fma(ki, errors[n], access.load(state + at));
          access.store(state + at, s);
          sums[n] = S::fma(s, qi, sums[n]);
        }
      }
      float* out = a.out + t * a.value_stride + column;
      for (int n = 0; n < kVectors; ++n) access.store(out + 16 * n, sums[n] * S::splat(a.scale));
    }
  }
};

}  // namespace sluice::cpu
