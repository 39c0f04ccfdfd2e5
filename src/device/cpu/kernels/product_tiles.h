// The products of product_8bit.h for many rows with tiles (AMX). One instruction multiplies sixteen activation rows by
// a block of a panel. Integer sums and float sums over blocks are the same, so every bit of the result is.
//
// Several panels are transposed a few blocks at a time, so that they and their activations stay in the first caches. A
// tile's sums go through memory. While one block is added to the rows' sums, the next one is stored and the one after
// it is multiplied.
#pragma once

#include "device/cpu/kernels/product_8bit.h"

namespace sluice::cpu {

template <class S>
struct ProductTiles {
  using F = typename S::F;
  using I = typename S::I;
  using Block = QuantBlock<S>;

  template <class View, class Rows>
  static void product(const ProductArgs& a, uint32_t first, uint32_t last, float* scratch) {
    const uint32_t tiled = a.rows / kTile * kTile;
    if (tiled < a.rows) {
      ProductArgs rest = a;
      rest.x += tiled * a.x_stride;
      rest.out += tiled * a.out_stride;
      rest.rows = a.rows - tiled;
      Product8Bit<S>::template product<View, Rows>(rest, first, last, scratch);
    }
    if (tiled == 0) return;
    const auto before = S::begin_tiles(kVectors<View>);
    for (uint32_t row = 0; row < tiled; row += kRowsTogether)
      for (uint32_t o = first; o < last; o += kOutputsTogether)
        panels<View, Rows>(a, row, tiled - row < kRowsTogether ? tiled - row : kRowsTogether, o,
                           last - o < kOutputsTogether ? last - o : kOutputsTogether);
    S::end_tiles(before);
  }

 private:
  static constexpr uint32_t kTile = 16;  // rows, and outputs
  static constexpr uint32_t kRowsTogether = 128;
  static constexpr uint32_t kPanelsTogether = 2;
  static constexpr uint32_t kOutputsTogether = kPanelsTogether * kPanelOutputs;
  static constexpr int kBlocksTogether = 16;
  template <class View>
  static constexpr int kHalves = View::kHalves ? 2 : 1;
  template <class View>
  static constexpr int kVectors = PanelBlock<S>::kVectors / kHalves<View>;  // of a tile of weights

  struct Panels {
    PanelBlock<S> blocks[kPanelsTogether][kBlocksTogether];
    F sums[kPanelsTogether][kRowsTogether];
  };

  template <class View, class Rows>
  static void panels(const ProductArgs& a, uint32_t row, uint32_t rows, uint32_t output, uint32_t outputs) {
    Panels p;
    const uint32_t count = (outputs + kPanelOutputs - 1) / kPanelOutputs;
    for (uint32_t i = 0; i < count; ++i)
      for (uint32_t r = 0; r < rows; ++r) p.sums[i][r] = S::splat(0.0f);
    const int blocks = static_cast<int>(a.columns / kQuantElements);
    for (int b = 0; b < blocks; b += kBlocksTogether) {
      const int some = blocks - b < kBlocksTogether ? blocks - b : kBlocksTogether;
      for (uint32_t i = 0; i < count; ++i)
        turn<View>(Rows(a, output + i * kPanelOutputs, output + outputs), a.columns, b, some, p.blocks[i]);
      for (uint32_t r = 0; r < rows; r += kTile) {
        const std::byte* x = a.x + (row + r) * a.x_stride + static_cast<size_t>(b) * sizeof(Block);
        for (uint32_t i = 0; i < count; ++i) add_tiles<View>(p.blocks[i], some, x, a.x_stride, p.sums[i] + r);
      }
    }
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t rest = outputs - i * kPanelOutputs;
      for (uint32_t r = 0; r < rows; ++r) {
        float* out = a.out + (row + r) * a.out_stride + output + i * kPanelOutputs;
        rest >= kPanelOutputs ? S::store(out, p.sums[i][r]) : S::store(out, p.sums[i][r], static_cast<int>(rest));
      }
    }
  }

  // Transposes weights and makes them signed, as tiles take them.
  template <class View, class Rows>
  static void turn(const Rows& rows, uint32_t columns, int block, int count, PanelBlock<S>* to) {
    for (int i = 0; i < count; i += View::kElements / kQuantElements)
      View::turn(rows, static_cast<size_t>(block + i) * kQuantElements, columns, to + i);
    if constexpr (View::kOffset != 0)
      for (int i = 0; i < count; ++i)
        for (I& bytes : to[i].weights) bytes = S::subtract_bytes(bytes, View::kOffset);
  }

  // The integer sums of sixteen rows with a block's halves, or with the whole of it.
  struct Dots {
    alignas(64) int32_t of[2][kTile][kPanelOutputs];
  };

  // Sums of even blocks use the first two tiles, sums of odd blocks the other two.
  template <class View, int kOdd, int kHalf = 0>
  static void multiply(const PanelBlock<S>& weights, const std::byte* x, uint64_t x_stride) {
    const auto* q = reinterpret_cast<const Block*>(x)->q;
    S::template multiply_tiles<2 * kOdd + kHalf>(q + 16 * kHalf, x_stride, weights.weights + kHalf * kVectors<View>);
    if constexpr (kHalf + 1 < kHalves<View>) multiply<View, kOdd, kHalf + 1>(weights, x, x_stride);
  }
  template <class View, int kOdd>
  static void store(Dots& dots) {
    S::template store_tile<2 * kOdd>(&dots.of[0][0][0]);
    if constexpr (View::kHalves) S::template store_tile<2 * kOdd + 1>(&dots.of[1][0][0]);
  }

  template <class View>
  static void add_tiles(const PanelBlock<S>* weights, int count, const std::byte* x, uint64_t x_stride, F* sums) {
    F sum[kTile];
    for (uint32_t r = 0; r < kTile; ++r) sum[r] = sums[r];
    Dots dots[2];
    const auto at = [&](int b) { return x + static_cast<size_t>(b) * sizeof(Block); };
    const auto step = [&]<int kOdd>(int b) {
      if (b + 2 < count) multiply<View, kOdd>(weights[b + 2], at(b + 2), x_stride);
      if (b + 1 < count) store<View, 1 - kOdd>(dots[1 - kOdd]);
      const Dots& now = dots[kOdd];
      for (uint32_t r = 0; r < kTile; ++r) {
        const I both[] = {S::load_integers(now.of[0][r]), S::load_integers(now.of[kHalves<View> - 1][r])};
        const auto& block = *reinterpret_cast<const Block*>(at(b) + r * x_stride);
        sum[r] = Product8Bit<S>::template add_block<View>(weights[b], block, both, sum[r]);
      }
    };
    multiply<View, 0>(weights[0], x, x_stride);
    if (count > 1) multiply<View, 1>(weights[1], at(1), x_stride);
    store<View, 0>(dots[0]);
    for (int b = 0; b < count; b += 2) {
      step.template operator()<0>(b);
      if (b + 1 < count) step.template operator()<1>(b + 1);
    }
    for (uint32_t r = 0; r < kTile; ++r) sums[r] = sum[r];
  }
};

}  // namespace sluice::cpu
