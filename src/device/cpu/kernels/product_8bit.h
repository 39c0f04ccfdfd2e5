// Products of integer formats with activations rounded to 8 bits in blocks of 32 (quantise.h).
//
// Output o of row r: blocks in ascending order, each adding to the sum by fused multiply-adds of
//   one scale a block       float(integer sum) * (weight scale * scale)
//   one for each half       t * scale, where t = float(lower sum) * its weight scale + float(upper sum) * its own
//   minima, after that      weight minimum * (scale * the sum of the activations' integers), of the halves in order
// The integer sums are exact, so how a block is added up is free; a format has one sum for 1 and for n rows.
//
// Sixteen weight rows are turned into lanes (panel.h) a few blocks at a time; many rows share the turning.
#pragma once

#include "device/cpu/kernels/integers_k.h"
#include "device/cpu/kernels/integers_small.h"
#include "device/cpu/kernels/integers_table.h"

namespace sluice::cpu {

template <class S>
struct Product8Bit {
  using F = typename S::F;
  using I = typename S::I;
  using Block = QuantBlock<S>;

  // View: an integer view (panel.h).
  template <class View>
  static void product(const ProductArgs& a, uint32_t first, uint32_t last, float*) {
    for (uint32_t row = 0; row < a.rows; row += kRowsTogether)
      for (uint32_t o = first; o < last; o += kPanelOutputs) {
        const std::byte* rows[kPanelOutputs];
        for (uint32_t i = 0; i < kPanelOutputs; ++i)
          rows[i] = a.weight + (o + i < last ? o + i : last - 1) * a.weight_stride;
        panel<View>(a, rows, row, a.rows - row < kRowsTogether ? a.rows - row : kRowsTogether, o,
                    last - o < kPanelOutputs ? last - o : kPanelOutputs);
      }
  }

  // One block's part of a row's sixteen sums; `dots`: the integer sums of the halves, or twice the whole one.
  template <class View>
  static F add_block(const PanelBlock<S>& weights, const Block& x, const I (&dots)[2], F sum) {
    const F first = S::to_float(dots[0]), scale = S::splat(x.scale);
    if constexpr (View::kHalves) {
      const F both = S::fma(first, weights.scales[0], S::to_float(dots[1]) * weights.scales[1]);
      sum = S::fma(both, scale, sum);
    } else {
      sum = S::fma(first, weights.scales[0] * scale, sum);
    }
    if constexpr (View::kMinimum && View::kHalves)
      for (int half = 0; half < 2; ++half) sum = S::fma(weights.minima[half], S::splat(x.half_sums[half]), sum);
    if constexpr (View::kMinimum && !View::kHalves) sum = S::fma(weights.minima[0], S::splat(x.sum), sum);
    return sum;
  }

 private:
  static constexpr uint32_t kRowsTogether = 128;  // their blocks stay in the second cache for all weights
  static constexpr int kBlocksTogether = 16;

  // Sixteen outputs of at most kRowsTogether rows.
  template <class View>
  static void panel(const ProductArgs& a, PanelRows weights, uint32_t row, uint32_t rows, uint32_t output,
                    uint32_t outputs) {
    constexpr int kStep = View::kElements / kQuantElements;
    static_assert(kBlocksTogether % kStep == 0);
    F sums[kRowsTogether];
    for (uint32_t r = 0; r < rows; ++r) sums[r] = S::splat(0.0f);
    const int blocks = static_cast<int>(a.columns / kQuantElements);
    const std::byte* x = a.x + row * a.x_stride;
    for (int b = 0; b < blocks; b += kBlocksTogether) {
      const int count = blocks - b < kBlocksTogether ? blocks - b : kBlocksTogether;
      PanelBlock<S> turned[kBlocksTogether];
      for (int i = 0; i < count; i += kStep)
        View::turn(weights, static_cast<size_t>(b + i) * kQuantElements, a.columns, turned + i);
      uint32_t r = 0;
      for (; r + 4 <= rows; r += 4) add_blocks<View, 4>(turned, count, x + r * a.x_stride, a.x_stride, b, sums + r);
      for (; r < rows; ++r) add_blocks<View, 1>(turned, count, x + r * a.x_stride, a.x_stride, b, sums + r);
    }
    for (uint32_t r = 0; r < rows; ++r) {
      float* out = a.out + (row + r) * a.out_stride + output;
      outputs == kPanelOutputs ? S::store(out, sums[r]) : S::store(out, sums[r], static_cast<int>(outputs));
    }
  }

  template <class View, int X>
  static void add_blocks(const PanelBlock<S>* turned, int count, const std::byte* x, uint64_t x_stride, int first_block,
                         F* sums) {
    const Block* blocks[X];
    F sum[X];
    for (int j = 0; j < X; ++j) {
      blocks[j] = reinterpret_cast<const Block*>(x + static_cast<uint32_t>(j) * x_stride) + first_block;
      sum[j] = sums[j];
    }
    for (int b = 0; b < count; ++b) {
      I dots[2][X];
      for (int half = 0; half < kHalves<View>; ++half) {
        for (int j = 0; j < X; ++j) dots[half][j] = S::splat(correction<View>(blocks[j][b], half));
        constexpr int kVectors = PanelBlock<S>::kVectors / kHalves<View>;
        for (int v = half * kVectors; v < (half + 1) * kVectors; ++v)
          for (int j = 0; j < X; ++j)
            dots[half][j] =
                S::dot(dots[half][j], turned[b].weights[v], S::splat_group(blocks[j][b].q + v * S::kDotElements));
      }
      for (int j = 0; j < X; ++j) {
        const I block_dots[] = {dots[0][j], dots[kHalves<View> - 1][j]};
        sum[j] = add_block<View>(turned[b], blocks[j][b], block_dots, sum[j]);
      }
    }
    for (int j = 0; j < X; ++j) sums[j] = sum[j];
  }

  template <class View>
  static constexpr int kHalves = View::kHalves ? 2 : 1;

  // What an integer sum begins with, so that the weights' offset is taken off.
  template <class View>
  static int32_t correction(const Block& x, int half) {
    if constexpr (View::kOffset == 0 || S::kDotElements == 2) return 0;
    return View::kHalves ? x.half_corrections[half] : x.correction;
  }
};

}  // namespace sluice::cpu
