// Products with few columns, as the second one of an adapter, which is scaled and added to another product's results.
// Their sums have the bits of product.h.
//
// One row: the sixteen sums of a panel are added up together. More rows: the panel's weights are turned once, so that
// lane l of a vector belongs to output l, and the lanes that product.h adds up are vectors here.
#pragma once

#include "device/cpu/kernels/formats.h"

namespace sluice::cpu {

template <class S>
struct AddedProduct {
  using F = typename S::F;
  using I = typename S::I;

  static constexpr uint32_t kFewestTurned = 3;  // rows

  template <class View>
  static void add(const ProductArgs& a, const float* scales, uint32_t first, uint32_t last, float* scratch) {
    panels<View>(a, first, last, scratch, [&](uint32_t r, float* out, uint32_t outputs, F sums) {
      const F factor = S::splat(scales[r]);
      if (outputs == kPanelOutputs) return S::store(out, S::fma(sums, factor, S::load(out)));
      const int n = static_cast<int>(outputs);
      S::store(out, S::fma(sums, factor, S::load(out, n)), n);
    });
  }

  // The product alone.
  template <class View>
  static void product(const ProductArgs& a, uint32_t first, uint32_t last, float* scratch) {
    panels<View>(a, first, last, scratch, [](uint32_t, float* out, uint32_t outputs, F sums) {
      outputs == kPanelOutputs ? S::store(out, sums) : S::store(out, sums, static_cast<int>(outputs));
    });
  }

 private:
  // Calls put(row, out, outputs, sums) for the outputs of a panel and each row.
  template <class View, class Put>
  static void panels(const ProductArgs& a, uint32_t first, uint32_t last, float* scratch, const Put& put) {
    for (uint32_t o = first; o < last; o += kPanelOutputs) {
      const uint32_t outputs = last - o < kPanelOutputs ? last - o : kPanelOutputs;
      // Behind the last output the last row of weights is read again.
      const std::byte* w[kPanelOutputs];
      for (uint32_t i = 0; i < kPanelOutputs; ++i)
        w[i] = a.weight + (o + (i < outputs ? i : outputs - 1)) * a.weight_stride;
      if (a.rows < kFewestTurned) {
        for (uint32_t r = 0; r < a.rows; ++r)
          put(r, a.out + r * a.out_stride + o, outputs, sums_of_row<View>(w, row(a, r), a.columns));
        continue;
      }
      const uint32_t padded = (a.columns + 15) / 16 * 16;
      float* turned = scratch + kPanelOutputs * padded;
      turn<View>(w, a.columns, padded, scratch, turned);
      for (uint32_t r = 0; r < a.rows; ++r)
        put(r, a.out + r * a.out_stride + o, outputs, sums_of_turned(turned, row(a, r), a.columns));
    }
  }

  static const float* row(const ProductArgs& a, uint32_t r) {
    return reinterpret_cast<const float*>(a.x + r * a.x_stride);
  }
  template <class View>
  static F sums_of_row(const std::byte* const (&w)[kPanelOutputs], const float* x, uint32_t columns) {
    F sum[kPanelOutputs];
    for (F& one : sum) one = S::splat(0.0f);
    uint32_t k = 0;
    for (; k + 16 <= columns; k += 16) {
      const F activation = S::load(x + k);
      for (uint32_t i = 0; i < kPanelOutputs; ++i) sum[i] = S::fma(View::load16(w[i], k), activation, sum[i]);
    }
    if (const int rest = static_cast<int>(columns - k); rest > 0) {
      const F activation = S::load(x + k, rest);
      for (uint32_t i = 0; i < kPanelOutputs; ++i) sum[i] = S::fma(View::load16(w[i], k, rest), activation, sum[i]);
    }
    if constexpr (requires { S::sums(sum); }) {
      return S::sums(sum);
    } else {
      float lanes[kPanelOutputs];
      for (uint32_t i = 0; i < kPanelOutputs; ++i) lanes[i] = S::sum(sum[i]);
      return S::load(lanes);
    }
  }

  // turned[k][output] = w[output][k], and zeros up to `padded` columns. `decoded`: 16 `padded` floats of scratch.
  template <class View>
  static void turn(const std::byte* const (&w)[kPanelOutputs], uint32_t columns, uint32_t padded, float* decoded,
                   float* turned) {
    for (uint32_t i = 0; i < kPanelOutputs; ++i)
      for (uint32_t k = 0; k < padded; k += 16)
        S::store(decoded + i * padded + k,
                 k + 16 <= columns ? View::load16(w[i], k) : View::load16(w[i], k, static_cast<int>(columns - k)));
    static_assert(sizeof(I) == 16 * sizeof(float));
    for (uint32_t k = 0; k < padded; k += 8) {
      I words[8];
      for (uint32_t i = 0; i < 8; ++i)
        words[i] = S::load_words(reinterpret_cast<const std::byte*>(decoded + i * padded + k),
                                 reinterpret_cast<const std::byte*>(decoded + (i + 8) * padded + k));
      S::transpose8(words);
      __builtin_memcpy(turned + uint64_t{k} * 16, words, sizeof(words));
    }
  }

  // The tree of S::sum.
  static F sums_of_turned(const float* turned, const float* x, uint32_t columns) {
    F lane[16];
    for (F& one : lane) one = S::splat(0.0f);
    uint32_t k = 0;
    for (; k + 16 <= columns; k += 16) add_sixteen(turned + uint64_t{k} * 16, x + k, lane);
    if (k < columns) {
      float rest[16] = {};
      __builtin_memcpy(rest, x + k, sizeof(float) * (columns - k));
      add_sixteen(turned + uint64_t{k} * 16, rest, lane);
    }
    for (int width = 8; width > 0; width /= 2)
      for (int i = 0; i < width; ++i) lane[i] = lane[i] + lane[i + width];
    return lane[0];
  }
  static void add_sixteen(const float* turned, const float* x, F (&lane)[16]) {
    for (int i = 0; i < 16; ++i) lane[i] = S::fma(S::load(turned + 16 * i), S::splat(x[i]), lane[i]);
  }
};

}  // namespace sluice::cpu
