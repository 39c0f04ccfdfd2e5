// Products of integer formats with activations rounded to 8 bits in blocks of 32 (quantise.h).
//
// Output o of row r: blocks in ascending order, each adding to the sum by fused multiply-adds of
//   one scale a block       float(integer sum) * (weight scale * scale)
//   one for each half       t * scale, where t = float(lower sum) * its weight scale + float(upper sum) * its own
//   minima, after that      weight minimum * (scale * the sum of the activations' integers), of the halves in order
// Integer sums are exact, so a block may be added up in any order. A format has one order for 1 and for n rows.
//
// Sixteen weight rows are turned into lanes (panel.h) a few blocks at a time. Many rows share that work.
#pragma once

#include "device/cpu/kernels/integers_k.h"
#include "device/cpu/kernels/integers_small.h"
#include "device/cpu/kernels/integers_table.h"

namespace sluice::cpu {

template <class S>
struct Product8Bit;

// A block of a panel that is multiplied by one row while it is transposed, and not kept.
template <class S, class View>
struct DotBlock {
  static constexpr int kHalves = View::kHalves ? 2 : 1;

  const QuantBlock<S>* x;
  typename S::F* sum;  // of the row
  typename S::I dots[kHalves];
  typename S::F scales[2];
  typename S::F minima[2];

  SLUICE_INLINE void put(int v, typename S::I bytes, int offset) {
    constexpr int kVectors = 4 / S::kDotElements;
    typename S::I weights[kVectors];
    S::store_weights(weights, bytes, offset);
    typename S::I& dot = dots[v * kHalves / 8];
    for (int i = 0; i < kVectors; ++i)
      dot = S::dot(dot, weights[i], S::splat_group(x->q + 4 * v + i * S::kDotElements));
  }
  SLUICE_INLINE void finish() {
    const typename S::I both[] = {dots[0], dots[kHalves - 1]};
    *sum = Product8Bit<S>::template add_block<View>(*this, *x, both, *sum);
  }
};

template <class S>
struct Product8Bit {
  using F = typename S::F;
  using I = typename S::I;
  using Block = QuantBlock<S>;

  // View: an integer view, Rows: MappedRows or PackedRows (panel.h).
  template <class View, class Rows>
  static void product(const ProductArgs& a, uint32_t first, uint32_t last, float*) {
    for (uint32_t row = 0; row < a.rows; row += kRowsTogether)
      for (uint32_t o = first; o < last; o += kPanelOutputs) {
        const Rows weights(a, o, last);
        const uint32_t rows = a.rows - row < kRowsTogether ? a.rows - row : kRowsTogether;
        const uint32_t outputs = last - o < kPanelOutputs ? last - o : kPanelOutputs;
        rows == 1 ? one_row<View>(a, weights, row, o, outputs) : panel<View>(a, weights, row, rows, o, outputs);
      }
  }

  // Adds one block to a row's sixteen sums. `dots` has the integer sums of both halves, or the block's sum twice.
  template <class View, class Weights>
  static F add_block(const Weights& weights, const Block& x, const I (&dots)[2], F sum) {
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
  static constexpr uint32_t kRowsTogether = 128;  // the second cache holds their blocks for all weights
  static constexpr int kBlocksTogether = 16;

  static void store(const ProductArgs& a, uint32_t row, uint32_t output, uint32_t outputs, F sums) {
    float* out = a.out + row * a.out_stride + output;
    outputs == kPanelOutputs ? S::store(out, sums) : S::store(out, sums, static_cast<int>(outputs));
  }

  // Sixteen outputs of one row.
  template <class View, class Rows>
  static void one_row(const ProductArgs& a, const Rows& weights, uint32_t row, uint32_t output, uint32_t outputs) {
    constexpr int kStep = View::kElements / kQuantElements;
    const auto* x = reinterpret_cast<const Block*>(a.x + row * a.x_stride);
    const int blocks = static_cast<int>(a.columns / kQuantElements);
    F sum = S::splat(0.0f), ignored = sum;
    for (int b = 0; b < blocks; b += kStep) {
      DotBlock<S, View> dots[kStep];
      SLUICE_UNROLL for (int i = 0; i < kStep; ++i) {
        const bool there = kWhole<View> || b + i < blocks;
        dots[i].x = &x[there ? b + i : b];
        dots[i].sum = there ? &sum : &ignored;
        for (int half = 0; half < kHalves<View>; ++half)
          dots[i].dots[half] = S::splat(correction<View>(*dots[i].x, half));
      }
      View::turn(weights, static_cast<size_t>(b) * kQuantElements, a.columns, dots);
    }
    store(a, row, output, outputs, sum);
  }

  // Sixteen outputs of at most kRowsTogether rows.
  template <class View, class Rows>
  static void panel(const ProductArgs& a, const Rows& weights, uint32_t row, uint32_t rows, uint32_t output,
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
      if constexpr (S::kPairs)
        for (int i = 0; i < count; ++i)
          for (int v = 0; v < PanelBlock<S>::kVectors; v += 2) S::pair_weights(turned[i].weights + v);
      uint32_t r = 0;
      for (; r + S::kDotRows <= rows; r += S::kDotRows)
        add_blocks<View, S::kDotRows>(turned, count, x + r * a.x_stride, a.x_stride, b, sums + r);
      for (; r < rows; ++r) add_blocks<View, 1>(turned, count, x + r * a.x_stride, a.x_stride, b, sums + r);
    }
    for (uint32_t r = 0; r < rows; ++r) store(a, row + r, output, outputs, sums[r]);
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
      for (int half = 0; half < kHalves<View>; ++half)
        if constexpr (S::kPairs)
          pair_dots<View>(turned[b], blocks, b, half, dots[half]);
        else
          row_dots<View>(turned[b], blocks, b, half, dots[half]);
      for (int j = 0; j < X; ++j) {
        const I block_dots[] = {dots[0][j], dots[kHalves<View> - 1][j]};
        sum[j] = add_block<View>(turned[b], blocks[j][b], block_dots, sum[j]);
      }
    }
    for (int j = 0; j < X; ++j) sums[j] = sum[j];
  }

  // The integer sums of X rows with a half of a block, or all of it.
  template <class View, int X>
  SLUICE_INLINE static void row_dots(const PanelBlock<S>& weights, const Block* const (&x)[X], int b, int half,
                                     I (&dots)[X]) {
    for (int j = 0; j < X; ++j) dots[j] = S::splat(correction<View>(x[j][b], half));
    for (int v = half * kVectors<View>; v < (half + 1) * kVectors<View>; ++v)
      for (int j = 0; j < X; ++j)
        dots[j] = S::dot(dots[j], weights.weights[v], S::splat_group(x[j][b].q + v * S::kDotElements));
  }
  // The same for paired weights, two rows at a time. A single last row is paired with itself.
  template <class View, int X>
  SLUICE_INLINE static void pair_dots(const PanelBlock<S>& weights, const Block* const (&x)[X], int b, int half,
                                      I (&dots)[X]) {
    static_assert(!S::kUnsignedWeights);
    constexpr int kRowPairs = (X + 1) / 2;
    I sums[kRowPairs][2];
    for (I(&pair)[2] : sums) pair[0] = pair[1] = S::splat(0);
    for (int v = half * kVectors<View>; v < (half + 1) * kVectors<View>; v += 2)
      for (int p = 0; p < kRowPairs; ++p) {
        const Block &first = x[2 * p][b], &second = x[X == 1 ? 0 : 2 * p + 1][b];
        S::dot_pairs(sums[p], &weights.weights[v], first.q + v * S::kDotElements, second.q + v * S::kDotElements);
      }
    for (int j = 0; j < X; ++j) {
      if (j % 2 == 0) S::part_pairs(sums[j / 2]);
      dots[j] = sums[j / 2][j % 2];
    }
  }

  template <class View>
  static constexpr bool kWhole =
      View::kElements == View::Stored::kBlockElements;  // no turn() has blocks behind the end
  template <class View>
  static constexpr int kHalves = View::kHalves ? 2 : 1;
  template <class View>
  static constexpr int kVectors = PanelBlock<S>::kVectors / kHalves<View>;  // of a half

  // The initial value of an integer sum. It removes the weights' offset.
  template <class View>
  static int32_t correction(const Block& x, int half) {
    if constexpr (View::kOffset == 0 || !S::kUnsignedWeights) return 0;
    return View::kHalves ? x.half_corrections[half] : x.correction;
  }
};

}  // namespace sluice::cpu
