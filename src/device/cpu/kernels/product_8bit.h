// Products of integer formats with activations rounded to 8 bits in blocks of 32 (quantise.h).
//
// Output o of row r: blocks in ascending order, each adding to the sum by fused multiply-adds of
//   one scale a block       float(integer sum) * (weight scale * scale)
//   one for each half       t * scale, where t = float(lower sum) * its weight scale + float(upper sum) * its own
//   minima, after that      weight minimum * (scale * the sum of the activations' integers), of the halves in order
// Integer sums are exact, so a block may be added up in any order. A format has one order for 1 and for n rows.
//
// Sixteen weight rows are turned into lanes (panel.h) a few blocks at a time. Many rows share that work. Some panels
// are multiplied together, so that they share the reading of rows.
#pragma once

#include <span>

#include "device/cpu/kernels/integers_k.h"
#include "device/cpu/kernels/integers_small.h"
#include "device/cpu/kernels/integers_table.h"

namespace sluice::cpu {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLUICE_SANITIZED true
#endif
#endif
#ifndef SLUICE_SANITIZED
#define SLUICE_SANITIZED false
#endif
inline constexpr bool kSanitized = SLUICE_SANITIZED;
#undef SLUICE_SANITIZED

template <class S>
struct Product8Bit;

// A block of a panel that is multiplied by X rows while it is transposed, and not kept.
template <class S, class View, int X>
struct DotBlock {
  static constexpr int kHalves = View::kHalves ? 2 : 1;

  const QuantBlock<S>* x[X];
  typename S::F* sums;  // of the rows
  typename S::I dots[X][kHalves];
  typename S::F scales[2];
  typename S::F minima[2];

  SLUICE_INLINE void put(int v, typename S::I bytes, int offset) {
    constexpr int kVectors = 4 / S::kDotElements;
    typename S::I weights[kVectors];
    S::store_weights(weights, bytes, offset);
    SLUICE_UNROLL for (int r = 0; r < X; ++r) {
      typename S::I& dot = dots[r][v * kHalves / 8];
      for (int i = 0; i < kVectors; ++i)
        dot = S::dot(dot, weights[i], S::splat_group(x[r]->q + 4 * v + i * S::kDotElements));
    }
  }
  SLUICE_INLINE void finish() {
    SLUICE_UNROLL for (int r = 0; r < X; ++r) {
      const typename S::I both[] = {dots[r][0], dots[r][kHalves - 1]};
      sums[r] = Product8Bit<S>::template add_block<View>(*this, *x[r], both, sums[r]);
    }
  }
};

template <class S>
struct Product8Bit {
  using F = typename S::F;
  using I = typename S::I;
  using Block = QuantBlock<S>;

  // What is prefetched while something else is computed, `step` bytes at a time.
  struct Prefetch {
    const std::byte* at = nullptr;
    size_t step = 0;

    SLUICE_INLINE void fetch() {
      for (const std::byte* line = at; line < at + step; line += 64) __builtin_prefetch(line, 0, 2);
      at += step;
    }
  };

  // View: an integer view, Rows: MappedRows or PackedRows (panel.h).
  template <class View, class Rows>
  static void product(const ProductArgs& a, uint32_t first, uint32_t last, float*) {
    constexpr bool kNext = Rows::kAhead;
    const int slice = blocks(a) <= kMostBlocks ? blocks(a) : kBlocksOfSlice;
    const uint32_t together = rows_together(a.rows, slice);
    for (uint32_t row = 0; row < a.rows; row += together) {
      const uint32_t rows = a.rows - row < together ? a.rows - row : together;
      if (rows <= (kTogether<Rows> ? kFewRows<View> : 1)) {
        few_rows<View, Rows>(a, row, rows, first, last);
        continue;
      }
      for (int b = 0; b < blocks(a); b += slice) {
        const Slice of{.begin = b, .end = blocks(a) - b < slice ? blocks(a) : b + slice};
        for (uint32_t o = first; o < last; o += S::kDotPanels * kPanelOutputs)
          last - o > kPanelOutputs ? panels<View, typename Rows::Usual, S::kDotPanels>(a, row, rows, o, last, of, kNext)
                                   : panels<View, typename Rows::Usual, 1>(a, row, rows, o, last, of, kNext);
      }
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

  // What add_rows() wants done to a block of a panel.
  static void pair([[maybe_unused]] PanelBlock<S>& block) {
    if constexpr (S::kPairs)
      for (int v = 0; v < PanelBlock<S>::kVectors; v += 2) S::pair_weights(block.weights + v);
  }
  // Adds the products with `count` blocks of some panels to the sums of rows that begin at `x`.
  template <class View, int P>
  static void add_rows(const PanelBlock<S>* const (&panels)[P], int count, const std::byte* x, uint64_t x_stride,
                       uint32_t rows, F* const (&sums)[P], std::span<Prefetch> meanwhile = {}) {
    uint32_t r = 0;
    for (; r + S::kDotRows <= rows; r += S::kDotRows) {
      add_blocks<View, S::kDotRows>(panels, count, x + r * x_stride, x_stride, sums, r);
      for (Prefetch& next : meanwhile) next.fetch();
    }
    for (; r < rows; ++r) add_blocks<View, 1>(panels, count, x + r * x_stride, x_stride, sums, r);
  }

 private:
  static constexpr uint32_t kRowsTogether = 128;
  static constexpr int kBlocksOfSlice = 64;  // the second cache holds those of kRowsTogether rows for all weights
  // Rows of up to so many blocks are multiplied whole, and fewer of them together. Longer rows are multiplied in
  // slices, between which all sums are stored and read.
  static constexpr int kMostBlocks = 2 * kBlocksOfSlice;
  // More in AVX-512 with VNNI: turning panels and keeping them is a larger part of the time there
  // (docs/experiments.md).
  template <class View>
  static constexpr uint32_t kFewRows = S::kDotPanels == 1 ? 8
                                       : View::kHalves    ? 16
                                                          : 24;
  // Whether few rows share the reading of weights. Each such kernel costs compilers much time, so only packed weights
  // have them. Beneath sanitizers it would be minutes a file, and none have them.
  template <class Rows>
  static constexpr bool kTogether = Rows::kPacked && !kSanitized;
  static constexpr int kBlocksTogether = 16;  // of a panel, which the first cache holds
  static_assert(!S::kPairs || S::kDotPanels == 1);

  struct Slice {
    int begin = 0, end = 0;  // blocks of a row
  };

  // How many rows are multiplied with all weights before the next rows are: equal parts of `rows`, so small that the
  // second cache holds `slice` blocks of each row.
  static uint32_t rows_together(uint32_t rows, int slice) {
    uint32_t most = kRowsTogether;
    if (slice > kBlocksOfSlice) most = kRowsTogether * kBlocksOfSlice / static_cast<uint32_t>(slice);
    const uint32_t parts = rows == 0 ? 1 : (rows + most - 1) / most;
    return ((rows + parts - 1) / parts + S::kDotRows - 1) / S::kDotRows * S::kDotRows;
  }

  static void store(const ProductArgs& a, uint32_t row, uint32_t output, uint32_t outputs, F sums) {
    float* out = a.out + row * a.out_stride + output;
    outputs == kPanelOutputs ? S::store(out, sums) : S::store(out, sums, static_cast<int>(outputs));
  }

  // One to four rows.
  template <class View, class Rows>
  static void pass(const ProductArgs& a, const Rows& weights, uint32_t row, uint32_t rows, uint32_t output,
                   uint32_t outputs, Prefetch& next) {
    if (rows == 1)
      rows_of_panel<View, 1>(a, weights, row, 1, output, outputs, next);
    else if (rows == 2)
      rows_of_panel<View, 2>(a, weights, row, 2, output, outputs, next);
    else
      rows_of_panel<View, 4>(a, weights, row, rows, output, outputs, next);
  }

  // Few rows are multiplied as the weights are turned: four rows in each pass over a panel, which stays in the first
  // caches. For so few rows that costs less than storing the turned weights. If there are several passes, each of them
  // prefetches a part of the next panel.
  template <class View, class Rows>
  static void few_rows(const ProductArgs& a, uint32_t row, uint32_t rows, uint32_t first, uint32_t last) {
    for (uint32_t o = first; o < last; o += kPanelOutputs) {
      const Rows weights(a, o, last);
      const uint32_t outputs = last - o < kPanelOutputs ? last - o : kPanelOutputs;
      Prefetch next;
      if constexpr (!kTogether<Rows>) {
        rows_of_panel<View, 1>(a, weights, row, 1, o, outputs, next);
      } else {
        const typename Rows::Usual again(a, o, last);
        const uint32_t passes = (rows + 3) / 4;
        if (Rows::kAhead && passes > 1 && o + kPanelOutputs < last)
          next = {.at = again.blocks + kPanelOutputs * a.weight_stride,
                  .step = kPanelOutputs * a.weight_stride * View::kElements / a.columns / passes};
        for (uint32_t r = 0; r < rows; r += 4) {
          const uint32_t left = rows - r < 4 ? rows - r : 4;
          // What was prefetched is not prefetched again.
          r == 0 && (o == first || passes == 1) ? pass<View>(a, weights, row + r, left, o, outputs, next)
                                                : pass<View>(a, again, row + r, left, o, outputs, next);
        }
      }
    }
  }

  // Sixteen outputs of up to X rows, in which the last one stands for those that are missing.
  template <class View, int X, class Rows>
  static void rows_of_panel(const ProductArgs& a, const Rows& weights, uint32_t row, uint32_t rows, uint32_t output,
                            uint32_t outputs, Prefetch& next) {
    constexpr int kStep = View::kElements / kQuantElements;
    const Block* x[X];
    F sums[X], ignored[X];
    for (uint32_t r = 0; r < static_cast<uint32_t>(X); ++r) {
      x[r] = reinterpret_cast<const Block*>(a.x + (row + (r < rows ? r : rows - 1)) * a.x_stride);
      sums[r] = ignored[r] = S::splat(0.0f);
    }
    const int count = blocks(a);
    for (int b = 0; b < count; b += kStep) {
      DotBlock<S, View, X> dots[kStep];
      SLUICE_UNROLL for (int i = 0; i < kStep; ++i) {
        const bool there = kWhole<View> || b + i < count;
        dots[i].sums = there ? sums : ignored;
        SLUICE_UNROLL for (int r = 0; r < X; ++r) {
          dots[i].x[r] = &x[r][there ? b + i : b];
          for (int half = 0; half < kHalves<View>; ++half)
            dots[i].dots[r][half] = S::splat(correction<View>(*dots[i].x[r], half));
        }
      }
      View::turn(weights, static_cast<size_t>(b) * kQuantElements, a.columns, dots);
      next.fetch();
    }
    for (uint32_t r = 0; r < rows; ++r) store(a, row + r, output, outputs, sums[r]);
  }

  static int blocks(const ProductArgs& a) { return static_cast<int>(a.columns / kQuantElements); }

  // P panels, from `output` on, of at most kRowsTogether rows: a slice of the blocks. Sums wait in `out` between
  // slices. `prefetch`: while blocks are multiplied, those that come next are prefetched.
  template <class View, class Rows, int P>
  static void panels(const ProductArgs& a, uint32_t row, uint32_t rows, uint32_t output, uint32_t last,
                     const Slice& slice, bool prefetch) {
    constexpr int kStep = View::kElements / kQuantElements;
    static_assert(kBlocksTogether % kStep == 0);
    static_assert(kBlocksOfSlice % kBlocksTogether == 0);
    F sums[P][kRowsTogether];
    F* to[P];
    uint32_t outputs[P];
    for (uint32_t p = 0; p < P; ++p) {
      const uint32_t o = output + p * kPanelOutputs;
      outputs[p] = last - o < kPanelOutputs ? last - o : kPanelOutputs;
      to[p] = sums[p];
      for (uint32_t r = 0; r < rows; ++r)
        sums[p][r] = slice.begin == 0 ? S::splat(0.0f)
                                      : S::load(a.out + (row + r) * a.out_stride + o, static_cast<int>(outputs[p]));
    }
    const std::byte* x = a.x + row * a.x_stride;
    for (int b = slice.begin; b < slice.end; b += kBlocksTogether) {
      const int count = slice.end - b < kBlocksTogether ? slice.end - b : kBlocksTogether;
      PanelBlock<S> turned[P][kBlocksTogether];
      const PanelBlock<S>* from[P];
      Prefetch next[P];
      for (uint32_t p = 0; p < P; ++p) {
        const Rows weights(a, output + p * kPanelOutputs, last);
        for (int i = 0; i < count; i += kStep)
          View::turn(weights, static_cast<size_t>(b + i) * kQuantElements, a.columns, turned[p] + i);
        for (int i = 0; i < count; ++i) pair(turned[p][i]);
        from[p] = turned[p];
        if constexpr (Rows::kPacked)
          if (prefetch) next[p] = behind(weights, a, output + p * kPanelOutputs, last, b, slice, rows);
      }
      add_rows<View>(from, count, x + static_cast<size_t>(b) * sizeof(Block), a.x_stride, rows, to, next);
    }
    for (uint32_t p = 0; p < P; ++p)
      for (uint32_t r = 0; r < rows; ++r) store(a, row + r, output + p * kPanelOutputs, outputs[p], sums[p][r]);
  }

  // The blocks that panels() turns next, in equal parts for the groups of rows that are multiplied before.
  template <class Weights>
  static Prefetch behind(const Weights& weights, const ProductArgs& a, uint32_t output, uint32_t last, int block,
                         const Slice& slice, uint32_t rows) {
    constexpr int kStep = static_cast<int>(Weights::kElements / kQuantElements);
    const bool same = block + kBlocksTogether < slice.end;
    if (!same && output + S::kDotPanels * kPanelOutputs >= last) return {};
    const uint64_t panel = same ? 0 : S::kDotPanels * kPanelOutputs * a.weight_stride;
    const int from = same ? block + kBlocksTogether : slice.begin;
    const size_t bytes = static_cast<size_t>(kBlocksTogether / kStep) * Weights::kBlockBytes;
    const size_t step = bytes / ((rows + S::kDotRows - 1) / S::kDotRows);
    return {.at = weights.blocks + panel + static_cast<size_t>(from / kStep) * Weights::kBlockBytes,
            .step = (step + 63) / 64 * 64};
  }

  // X rows, whose sums begin at `row`.
  template <class View, int X, int P>
  static void add_blocks(const PanelBlock<S>* const (&panels)[P], int count, const std::byte* x, uint64_t x_stride,
                         F* const (&sums)[P], uint32_t row) {
    const Block* blocks[X];
    F sum[P][X];
    for (int j = 0; j < X; ++j) {
      blocks[j] = reinterpret_cast<const Block*>(x + static_cast<uint32_t>(j) * x_stride);
      for (int p = 0; p < P; ++p) sum[p][j] = sums[p][row + static_cast<uint32_t>(j)];
    }
    for (int b = 0; b < count; ++b) {
      I dots[2][P][X];
      for (int half = 0; half < kHalves<View>; ++half)
        if constexpr (S::kPairs)
          pair_dots<View>(panels[0][b], blocks, b, half, dots[half][0]);
        else
          row_dots<View>(panels, blocks, b, half, dots[half]);
      for (int p = 0; p < P; ++p)
        for (int j = 0; j < X; ++j) {
          const I block_dots[] = {dots[0][p][j], dots[kHalves<View> - 1][p][j]};
          sum[p][j] = add_block<View>(panels[p][b], blocks[j][b], block_dots, sum[p][j]);
        }
    }
    for (int p = 0; p < P; ++p)
      for (int j = 0; j < X; ++j) sums[p][row + static_cast<uint32_t>(j)] = sum[p][j];
  }

  // The integer sums of X rows with a half of a block, or all of it.
  template <class View, int X, int P>
  SLUICE_INLINE static void row_dots(const PanelBlock<S>* const (&panels)[P], const Block* const (&x)[X], int b,
                                     int half, I (&dots)[P][X]) {
    for (int j = 0; j < X; ++j)
      for (int p = 0; p < P; ++p) dots[p][j] = S::splat(correction<View>(x[j][b], half));
    for (int v = half * kVectors<View>; v < (half + 1) * kVectors<View>; ++v)
      for (int j = 0; j < X; ++j) {
        const I group = S::splat_group(x[j][b].q + v * S::kDotElements);
        for (int p = 0; p < P; ++p) dots[p][j] = S::dot(dots[p][j], panels[p][b].weights[v], group);
      }
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
