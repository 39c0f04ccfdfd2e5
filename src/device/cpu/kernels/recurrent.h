// Kernels of the gated delta net: the short convolution and the delta rule, row by row.
//
// The columns of a head's state are independent: an update reads only k, q and the column's own part of v. A call runs
// all rows of a sequence through a few vectors of columns. Several rows work on a copy of these columns, because parts
// of the state's rows, a power of two apart, would share a part of the first cache. A single row works on the state,
// which comes from memory. Where that is read faster so (DeltaArgs::ahead), a call takes more columns, and prefetches
// them.
// Sums along the key width are in ascending order in every column.
#pragma once

#include <algorithm>

#include "device/cpu/kernels.h"
#include "device/cpu/kernels/math.h"
#include "graph/ops/recurrent.h"

namespace sluice::cpu {

template <class S>
struct Recurrent {
  using F = typename S::F;
  using M = Math<S>;

  static void short_conv(const ConvArgs& a) {
    for (uint64_t c = a.first; c < a.last; c += kStrip) conv_channels(a, c, std::min(a.last, c + kStrip));
  }

  static void delta_rule(const DeltaArgs& a) {
    uint32_t j = a.first;
    constexpr uint32_t kWide = 16 * S::kStateVectors;
    if (a.ahead)
      for (; j + kWide <= a.last; j += kWide) delta_columns<S::kStateVectors, true>(a, j, Whole());
    const bool gathered = a.rows > 1 && a.key_width <= kMostGathered;
    for (; j + 64 <= a.last; j += 64) gathered ? delta_rows<4>(a, j, Whole()) : delta_columns<4, false>(a, j, Whole());
    for (; j + 16 <= a.last; j += 16) gathered ? delta_rows<1>(a, j, Whole()) : delta_columns<1, false>(a, j, Whole());
    if (j < a.last) {
      const Rest rest{static_cast<int>(a.last - j)};
      gathered ? delta_rows<1>(a, j, rest) : delta_columns<1, false>(a, j, rest);
    }
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

  // So many channels are computed together, row by row. Sixteen would take one cache line of each row, and lines that
  // are a power of two apart share a small part of the first cache (docs/experiments.md).
  static constexpr uint64_t kStrip = 256;

  static void conv_channels(const ConvArgs& a, uint64_t first, uint64_t last) {
    alignas(64) float columns[kMaxConvTaps][kStrip];  // of the weight
    for (uint64_t c = first; c < last; ++c)
      for (uint32_t j = 0; j < a.taps; ++j) columns[j][c - first] = a.weight[c * a.taps + j];
    const uint64_t kept = a.taps - 1;
    // Row t, counted from the oldest one that the state holds, or null for zeros.
    const auto x = [&](uint64_t t) {
      if (t >= kept) return a.x + (t - kept) * a.channels;
      return a.slot.before == nullptr ? nullptr : a.slot.before + t * a.channels;
    };
    for (uint64_t t = 0; t < a.rows; ++t) {
      const float* rows[kMaxConvTaps];
      for (uint32_t j = 0; j < a.taps; ++j) rows[j] = x(t + j);
      float* const out = a.out + t * a.channels;
      const auto sum_up = [&](uint64_t c, const auto& access) {
        F sum = S::splat(0.0f);
        for (uint32_t j = 0; j < a.taps; ++j) {
          const F one = rows[j] == nullptr ? S::splat(0.0f) : access.load(rows[j] + c);
          sum = S::fma(S::load(columns[j] + (c - first)), one, sum);
        }
        access.store(out + c, M::silu(sum));
      };
      uint64_t c = first;
      for (; c + 16 <= last; c += 16) sum_up(c, Whole());
      if (c < last) sum_up(c, Rest{static_cast<int>(last - c)});
    }
    for (uint64_t j = 0; j < kept; ++j) {
      const float* const row = x(a.rows + j);
      float* const after = a.slot.after + j * a.channels;
      if (row == nullptr)
        std::fill(after + first, after + last, 0.0f);
      else
        std::copy(row + first, row + last, after + first);
    }
  }

  static constexpr uint64_t kRowsAhead = 8;  // of a state, that are prefetched: docs/experiments.md

  static constexpr uint32_t kMostGathered = 128;  // of the key width: 64 columns take 32 KB

  // Several rows, which work on a copy of the columns in `table`. One pass over it finishes row t's update and output,
  // and begins row t + 1: it multiplies the state by that row's decay and by its key.
  template <int kVectors, class Access>
  static void delta_rows(const DeltaArgs& a, uint32_t column, const Access& access) {
    alignas(64) float table[kMostGathered * 16 * kVectors];
    const uint32_t keys = a.key_width;
    const uint64_t width = a.value_width;
    const auto decay = [&](uint64_t t) { return M::exp(S::splat(a.decay[t * a.gate_stride])); };
    F read[kVectors], out[kVectors], errors[kVectors];
    for (F& sum : read) sum = S::splat(0.0f);
    F factor = decay(0);
    for (uint32_t i = 0; i < keys; ++i)
      for (int n = 0; n < kVectors; ++n) {
        const uint64_t at = i * width + column + 16 * static_cast<uint64_t>(n);
        const F before = a.slot.before == nullptr ? S::splat(0.0f) : access.load(a.slot.before + at);
        const F s = before * factor;
        S::store(table + 16 * (kVectors * i + static_cast<uint32_t>(n)), s);
        read[n] = S::fma(s, S::splat(a.k[i]), read[n]);
      }
    for (uint64_t t = 0; t < a.rows; ++t) {
      const float* k = a.k + t * a.key_stride;
      const float* q = a.q + t * a.key_stride;
      const F beta = S::splat(a.beta[t * a.gate_stride]);
      for (int n = 0; n < kVectors; ++n) {
        errors[n] = beta * (access.load(a.v + t * a.value_stride + column + 16 * n) - read[n]);
        read[n] = out[n] = S::splat(0.0f);
      }
      if (t + 1 < a.rows) {
        const float* const next = k + a.key_stride;
        factor = decay(t + 1);
        for (uint32_t i = 0; i < keys; ++i) {
          float* const row = table + 16 * kVectors * i;
          const F ki = S::splat(k[i]), qi = S::splat(q[i]), next_ki = S::splat(next[i]);
          for (int n = 0; n < kVectors; ++n) {
            F s = S::fma(ki, errors[n], S::load(row + 16 * n));
            out[n] = S::fma(s, qi, out[n]);
            s = s * factor;
            S::store(row + 16 * n, s);
            read[n] = S::fma(s, next_ki, read[n]);
          }
        }
      } else {
        for (uint32_t i = 0; i < keys; ++i)
          for (int n = 0; n < kVectors; ++n) {
            const float* const from = table + 16 * (kVectors * i + static_cast<uint32_t>(n));
            const F s = S::fma(S::splat(k[i]), errors[n], S::load(from));
            access.store(a.slot.after + i * width + column + 16 * static_cast<uint64_t>(n), s);
            out[n] = S::fma(s, S::splat(q[i]), out[n]);
          }
      }
      for (int n = 0; n < kVectors; ++n)
        access.store(a.out + t * a.value_stride + column + 16 * n, out[n] * S::splat(a.scale));
    }
  }

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
