// Products with f32 activations: weights are decoded sixteen at a time and never change the order of the sum.
//
// Output o of row r: lane l adds up elements i with i % 16 == l in ascending i, one fused multiply-add each; S::sum
// adds the lanes. This holds for every format, for any number of rows, and for a panel decoded beforehand. So two
// formats with equal weights give equal bits.
//
// Tiles of kTileWeights x kTileRows sums stay in registers. Many rows go in blocks (product_blocks.h), rows of few
// columns by sixteen outputs together (product_added.h).
#pragma once

#include "device/cpu/kernels/affine.h"
#include "device/cpu/kernels/formats.h"
#include "device/cpu/kernels/product_added.h"
#include "device/cpu/kernels/product_blocks.h"

namespace sluice::cpu {

template <class S>
struct Product {
  using F = typename S::F;
  static constexpr size_t kAhead = 512;         // bytes that one row prefetches, docs/experiments.md
  static constexpr uint32_t kFewColumns = 128;  // as ranks of adapters

  // Sums of W weight rows with X activation rows.
  template <class View, int W, int X>
  static void tile(const std::byte* const (&w)[W], const float* const (&x)[X], size_t columns, float (&out)[X][W]) {
    F sum[W][X];
    for (int i = 0; i < W; ++i)
      for (int j = 0; j < X; ++j) sum[i][j] = S::splat(0.0f);
    size_t k = 0;
    for (; k + 16 <= columns; k += 16) {
      F activation[X];
      for (int j = 0; j < X; ++j) activation[j] = S::load(x[j] + k);
      for (int i = 0; i < W; ++i) {
        if constexpr (X == 1 && requires { View::kElementBytes; })
          __builtin_prefetch(w[i] + k * View::kElementBytes + kAhead);
        const F weight = View::load16(w[i], k);
        for (int j = 0; j < X; ++j) sum[i][j] = S::fma(weight, activation[j], sum[i][j]);
      }
    }
    if constexpr (!View::kWhole)
      if (const int rest = static_cast<int>(columns - k); rest > 0)
        for (int i = 0; i < W; ++i)
          for (int j = 0; j < X; ++j)
            sum[i][j] = S::fma(View::load16(w[i], k, rest), S::load(x[j] + k, rest), sum[i][j]);
    for (int i = 0; i < W; ++i)
      for (int j = 0; j < X; ++j) out[j][i] = S::sum(sum[i][j]);
  }

  // Outputs [first, last) of rows [row, row + X). Behind the last output it reads the last row of weights again.
  template <class View, int X>
  static void strip(const ProductArgs& a, const std::byte* weight, uint64_t stride, uint32_t row, uint32_t first,
                    uint32_t last) {
    constexpr int W = S::kTileWeights;
    const float* x[X];
    for (int j = 0; j < X; ++j)
      x[j] = reinterpret_cast<const float*>(a.x + (row + static_cast<uint32_t>(j)) * a.x_stride);
    for (uint32_t o = first; o < last; o += W) {
      const std::byte* w[W];
      for (uint32_t i = 0; i < W; ++i) w[i] = weight + (o + i < last ? o + i - first : last - 1 - first) * stride;
      float sums[X][W];
      tile<View, W, X>(w, x, a.columns, sums);
      for (int j = 0; j < X; ++j)
        for (uint32_t i = 0; i < W && o + i < last; ++i)
          a.out[(row + static_cast<uint32_t>(j)) * a.out_stride + o + i] = sums[j][i];
    }
  }
  template <class View>
  static void all_rows(const ProductArgs& a, const std::byte* weight, uint64_t stride, uint32_t first, uint32_t last) {
    constexpr uint32_t X = S::kTileRows;
    uint32_t row = 0;
    for (; row + X <= a.rows; row += X) strip<View, X>(a, weight, stride, row, first, last);
    for (; row < a.rows; ++row) strip<View, 1>(a, weight, stride, row, first, last);
  }

  template <class View>
  static void decode(const std::byte* row, float* out, size_t n, float factor) {
    const F factors = S::splat(factor);
    size_t k = 0;
    for (; k + 16 <= n; k += 16) S::store(out + k, View::load16(row, k) * factors);
    if constexpr (!View::kWhole)
      if (const int rest = static_cast<int>(n - k); rest > 0)
        S::store(out + k, View::load16(row, k, rest) * factors, rest);
  }

  template <class View>
  static void product(const ProductArgs& a, uint32_t first, uint32_t last, float* scratch) {
    if constexpr (View::kDecoded)
      if (a.columns <= kFewColumns && a.rows >= AddedProduct<S>::kFewestTurned)
        return AddedProduct<S>::template product<View>(a, first, last, scratch);
    if (a.rows >= Blocks::kFewestRows)
      return Blocks::template product<2>(a, first, last, scratch,
                                         [&](uint32_t output, uint32_t k, uint32_t n, float* to) {
                                           slice<View>(a.weight + output * a.weight_stride, k, n, to);
                                         });
    if (!View::kDecoded && a.rows > 2 * S::kTileRows)
      return decoded_product<&Product::decode<View>>(a, first, last, scratch);
    for (uint32_t o = first; o < last; o += kPanelOutputs) {
      const uint32_t end = o + kPanelOutputs < last ? o + kPanelOutputs : last;
      all_rows<View>(a, a.weight + o * a.weight_stride, a.weight_stride, o, end);
    }
  }

  // Decodes weights to f32 panel by panel, then multiplies.
  template <auto kDecode>
  static void decoded_product(const ProductArgs& a, uint32_t first, uint32_t last, float* scratch) {
    each_panel(a, first, last, scratch, [&](uint32_t begin, uint32_t end, float* panel) {
      for (uint32_t o = begin; o < end; ++o)
        kDecode(a.weight + o * a.weight_stride, panel + uint64_t{o - begin} * a.columns, a.columns, 1.0f);
    });
  }

  // The same for weights in parts.
  static void product_in_parts(const ProductArgs& a, uint32_t first, uint32_t last, float* scratch) {
    if (a.affine.group == 0) {
      const ExpertRows rows(*a.source, a.expert);
      return each_panel(a, first, last, scratch,
                        [&](uint32_t begin, uint32_t end, float* panel) { rows.decode(begin, end - begin, panel); });
    }
    each_panel(a, first, last, scratch, [&](uint32_t begin, uint32_t end, float* panel) {
      for (uint32_t o = begin; o < end; ++o)
        Affine<S>::decode(a.affine, a.weight + o * a.weight_stride, o, a.columns,
                          panel + uint64_t{o - begin} * a.columns);
    });
  }

  // The decoder of a format that has no view.
  template <Format kFormat>
  static void decode_by_format(const std::byte* row, float* out, size_t n, float factor) {
    format_info(kFormat).decode(row, out, n);
    if (factor != 1.0f) decode<F32View<S>>(reinterpret_cast<const std::byte*>(out), out, n, factor);
  }

 private:
  using Blocks = ProductBlocks<S>;

  // Elements [k, k + n) of a row, and zeros up to whole sixteens.
  template <class View>
  static void slice(const std::byte* row, uint32_t k, uint32_t n, float* to) {
    const uint32_t end = k + n;
    for (; k + 16 <= end; k += 16, to += 16) S::store(to, View::load16(row, k));
    if constexpr (!View::kWhole)
      if (k < end) S::store(to, View::load16(row, k, static_cast<int>(end - k)));
  }

  // Calls decode(begin, end, to) for each panel's rows, then multiplies the panel by the rows of x.
  template <class Decode>
  static void each_panel(const ProductArgs& a, uint32_t first, uint32_t last, float* scratch, const Decode& decode) {
    float* panel = scratch + kBlockScratch;
    const auto* bytes = reinterpret_cast<const std::byte*>(panel);
    const uint64_t stride = uint64_t{a.columns} * sizeof(float);
    for (uint32_t o = first; o < last; o += kPanelOutputs) {
      const uint32_t end = o + kPanelOutputs < last ? o + kPanelOutputs : last;
      decode(o, end, panel);
      if (a.rows >= Blocks::kFewestRows)
        Blocks::template product<1>(a, o, end, scratch, [&](uint32_t output, uint32_t k, uint32_t n, float* to) {
          slice<F32View<S>>(bytes + (output - o) * stride, k, n, to);
        });
      else
        all_rows<F32View<S>>(a, bytes, stride, o, end);
    }
  }
};

}  // namespace sluice::cpu
