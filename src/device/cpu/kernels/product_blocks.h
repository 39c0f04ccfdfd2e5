// Products with f32 activations for many rows, with the bits of product.h. Columns are multiplied slice by slice, and
// the lanes of sums stay in memory between slices. A slice's weights are decoded once for a block of rows, in the first
// cache. A few panels take the same slice in turn, so they find its activations in the second cache.
#pragma once

#include "device/cpu/kernels.h"

namespace sluice::cpu {

template <class S>
struct ProductBlocks {
  using F = typename S::F;

  static constexpr uint32_t kFewestRows = 32 * S::kTileRows;  // with fewer rows product.h is faster

  // Outputs [first, last) of all rows, kPanels panels together. decode(output, k, n, to) gives elements [k, k + n) of a
  // row of weights as f32, padded with zeros to a multiple of sixteen.
  template <uint32_t kPanels, class Decode>
  static void product(const ProductArgs& a, uint32_t first, uint32_t last, float* scratch, const Decode& decode) {
    static_assert(kPanelOutputs * kSlice + kPanels * kPanelSums <= kBlockScratch);
    constexpr uint32_t kOutputs = kPanels * kPanelOutputs;
    for (uint32_t row = 0; row < a.rows; row += kRows)
      for (uint32_t o = first; o < last; o += kOutputs)
        block(a, row, a.rows - row < kRows ? a.rows - row : kRows, o, last - o < kOutputs ? last - o : kOutputs,
              scratch, decode);
  }

 private:
  static constexpr uint32_t W = S::kTileWeights, X = S::kTileRows;
  static constexpr uint32_t kRows = kFewestRows;  // the second cache holds a slice of them and their sums
  static constexpr uint32_t kSlice = 512;         // columns; the first cache holds those of a panel
  static constexpr uint32_t kRowSums = (kPanelOutputs + W - 1) / W * W * 16;  // floats of a row and panel
  static constexpr uint32_t kPanelSums = kRows * kRowSums;

  template <class Decode>
  static void block(const ProductArgs& a, uint32_t row, uint32_t rows, uint32_t output, uint32_t outputs,
                    float* scratch, const Decode& decode) {
    float* weights = scratch;
    float* sums = scratch + kPanelOutputs * kSlice;
    const uint32_t panels = (outputs + kPanelOutputs - 1) / kPanelOutputs;
    for (uint32_t i = 0; i < panels * kPanelSums; i += 16) S::store(sums + i, S::splat(0.0f));
    const auto of_panel = [&](uint32_t panel) {
      const uint32_t rest = outputs - panel * kPanelOutputs;
      return rest < kPanelOutputs ? rest : kPanelOutputs;
    };
    for (uint32_t k = 0; k < a.columns; k += kSlice) {
      const uint32_t n = a.columns - k < kSlice ? a.columns - k : kSlice;
      for (uint32_t panel = 0; panel < panels; ++panel) {
        for (uint32_t i = 0; i < of_panel(panel); ++i)
          decode(output + panel * kPanelOutputs + i, k, n, weights + i * kSlice);
        const std::byte* x = a.x + row * a.x_stride + uint64_t{k} * sizeof(float);
        float* to = sums + panel * kPanelSums;
        uint32_t r = 0;
        for (; r + X <= rows; r += X)
          add_rows<X>(weights, of_panel(panel), x + r * a.x_stride, a.x_stride, n, to + r * kRowSums);
        for (; r < rows; ++r)
          add_rows<1>(weights, of_panel(panel), x + r * a.x_stride, a.x_stride, n, to + r * kRowSums);
      }
    }
    for (uint32_t panel = 0; panel < panels; ++panel)
      for (uint32_t r = 0; r < rows; ++r) {
        float* out = a.out + (row + r) * a.out_stride + output + panel * kPanelOutputs;
        const float* from = sums + panel * kPanelSums + r * kRowSums;
        for (uint32_t i = 0; i < of_panel(panel); ++i) out[i] = S::sum(S::load(from + 16 * i));
      }
  }

  // Adds a slice to the sums of kCount rows. Behind the last output it reads the last row of weights again.
  template <uint32_t kCount>
  static void add_rows(const float* weights, uint32_t outputs, const std::byte* x, uint64_t x_stride, uint32_t n,
                       float* sums) {
    const float* rows[kCount];
    for (uint32_t j = 0; j < kCount; ++j) rows[j] = reinterpret_cast<const float*>(x + j * x_stride);
    for (uint32_t o = 0; o < outputs; o += W) {
      const float* w[W];
      for (uint32_t i = 0; i < W; ++i) w[i] = weights + (o + i < outputs ? o + i : outputs - 1) * kSlice;
      add_tile<kCount>(w, rows, n, sums + 16 * o);
    }
  }

  template <uint32_t kCount>
  static void add_tile(const float* const (&w)[W], const float* const (&x)[kCount], uint32_t n, float* sums) {
    F sum[W][kCount];
    for (uint32_t i = 0; i < W; ++i)
      for (uint32_t j = 0; j < kCount; ++j) sum[i][j] = S::load(sums + j * kRowSums + 16 * i);
    uint32_t k = 0;
    for (; k + 16 <= n; k += 16) {
      F activation[kCount];
      for (uint32_t j = 0; j < kCount; ++j) activation[j] = S::load(x[j] + k);
      for (uint32_t i = 0; i < W; ++i) {
        const F weight = S::load(w[i] + k);
        for (uint32_t j = 0; j < kCount; ++j) sum[i][j] = S::fma(weight, activation[j], sum[i][j]);
      }
    }
    if (const int rest = static_cast<int>(n - k); rest > 0)
      for (uint32_t i = 0; i < W; ++i)
        for (uint32_t j = 0; j < kCount; ++j)
          sum[i][j] = S::fma(S::load(w[i] + k, rest), S::load(x[j] + k, rest), sum[i][j]);
    for (uint32_t i = 0; i < W; ++i)
      for (uint32_t j = 0; j < kCount; ++j) S::store(sums + j * kRowSums + 16 * i, sum[i][j]);
  }
};

}  // namespace sluice::cpu
