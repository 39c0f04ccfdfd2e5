// The products of product_bf16.h with tiles (AMX). One instruction multiplies sixteen rows of activations by sixteen
// outputs and 32 columns.
//
// Output o of row r: 32 columns at a time, the sums of the products of even and of odd elements, each in ascending
// order, are added to each other and then to the result (Intel's manual, TDPBF16PS).
//
// Two panels of weights are transposed a slice of columns at a time, which the first cache holds; a block of rows takes
// a slice in turn. Sums wait in memory between slices.
#pragma once

#include "device/cpu/kernels/product_bf16.h"

namespace sluice::cpu {

template <class S>
struct ProductTilesBf16 {
  using F = typename S::F;
  using I = typename S::I;

  static void product(const ProductArgs& a, uint32_t first, uint32_t last, float* scratch) {
    auto& p = *reinterpret_cast<Panels*>(scratch);
    const auto before = S::begin_tiles(kTile);
    for (uint32_t row = 0; row < a.rows; row += kRows)
      for (uint32_t o = first; o < last; o += kPanels * kPanelOutputs)
        panels(a, row, a.rows - row < kRows ? a.rows - row : kRows, o,
               last - o < kPanels * kPanelOutputs ? last - o : kPanels * kPanelOutputs, p);
    S::end_tiles(before);
  }

 private:
  static constexpr uint32_t kTile = 16;   // rows, outputs, and pairs of columns
  static constexpr uint32_t kRows = 256;  // the second cache holds a slice of them
  static constexpr uint32_t kPanels = 2;
  static constexpr uint32_t kSteps = 16;  // tiles of a slice
  static constexpr uint32_t kStepBytes = 2 * kPairedElements;

  // A tile of weights has a pair of columns a vector, an output a lane.
  struct Panels {
    I weights[kPanels][kSteps][kTile];
    F sums[kPanels][kRows];
    std::byte last_rows[kTile][kSteps * kStepBytes];  // where fewer than a tile are left; the other rows do not matter
  };
  static_assert(sizeof(Panels) <= kBlockScratch * sizeof(float));

  static void panels(const ProductArgs& a, uint32_t row, uint32_t rows, uint32_t output, uint32_t outputs, Panels& p) {
    const uint32_t tiles = (rows + kTile - 1) / kTile;
    for (auto& sums : p.sums)
      for (uint32_t r = 0; r < tiles * kTile; ++r) sums[r] = S::splat(0.0f);
    const uint32_t steps = (a.columns + kPairedElements - 1) / kPairedElements;
    for (uint32_t step = 0; step < steps; step += kSteps) {
      const uint32_t some = steps - step < kSteps ? steps - step : kSteps;
      for (uint32_t i = 0; i < kPanels; ++i)  // a panel behind the last one repeats its last row
        turn(a, output + i * kPanelOutputs, output + outputs, step, some, p.weights[i]);
      const std::byte* x = a.x + row * a.x_stride + uint64_t{step} * kStepBytes;
      for (uint32_t r = 0; r < rows; r += kTile) {
        if (rows - r >= kTile) {
          S::add_bf16_tiles(x + r * a.x_stride, a.x_stride, p.weights[0][0], p.weights[1][0], some, &p.sums[0][r],
                            &p.sums[1][r]);
          continue;
        }
        for (uint32_t i = 0; i < rows - r; ++i)
          __builtin_memcpy(p.last_rows[i], x + (r + i) * a.x_stride, some * kStepBytes);
        S::add_bf16_tiles(p.last_rows[0], sizeof(p.last_rows[0]), p.weights[0][0], p.weights[1][0], some, &p.sums[0][r],
                          &p.sums[1][r]);
      }
    }
    for (uint32_t i = 0; i < kPanels && i * kPanelOutputs < outputs; ++i) {
      const uint32_t rest = outputs - i * kPanelOutputs;
      for (uint32_t r = 0; r < rows; ++r) {
        float* out = a.out + (row + r) * a.out_stride + output + i * kPanelOutputs;
        rest >= kPanelOutputs ? S::store(out, p.sums[i][r]) : S::store(out, p.sums[i][r], static_cast<int>(rest));
      }
    }
  }

  // Transposes `count` steps of sixteen outputs. Behind the last column are zeros.
  static void turn(const ProductArgs& a, uint32_t first, uint32_t last, uint32_t step, uint32_t count,
                   I (&to)[kSteps][kTile]) {
    const std::byte* rows[kTile];
    for (uint32_t o = 0; o < kTile; ++o)
      rows[o] = a.weight + (first + o < last ? first + o : last - 1) * a.weight_stride + uint64_t{step} * kStepBytes;
    const uint32_t whole = a.columns / kPairedElements;
    for (uint32_t i = 0; i < count; ++i) {
      if (step + i < whole) {
        turn(rows, i * kStepBytes, to[i]);
        continue;
      }
      std::byte padded[kTile][kStepBytes] = {};
      const std::byte* padded_rows[kTile];
      for (uint32_t o = 0; o < kTile; ++o) {
        __builtin_memcpy(padded[o], rows[o] + i * kStepBytes, size_t{2} * (a.columns - whole * kPairedElements));
        padded_rows[o] = padded[o];
      }
      turn(padded_rows, 0, to[i]);
    }
  }
  static void turn(const std::byte* const (&rows)[kTile], size_t at, I (&to)[kTile]) {
    for (uint32_t half = 0; half < 2; ++half, at += 32) {
      I words[8];
      for (uint32_t i = 0; i < 8; ++i)
        words[i] = S::load_words(rows[i] + at, rows[i] + at + 16, rows[i + 8] + at, rows[i + 8] + at + 16);
      S::transpose8(words);
      for (uint32_t i = 0; i < 8; ++i) to[8 * half + i] = words[i];
    }
  }
};

}  // namespace sluice::cpu
