// Products of bf16 weights with activations rounded to bf16, to nearest even. Numbers too small for a normal f32 count
// as zero, as the instructions have it.
//
// Output o of row r without tiles: lane l adds up the products of the pairs of elements 32 j + 2 l and 32 j + 2 l + 1
// in ascending j; S::sum adds the lanes. product_tiles_bf16.h has the order of tiles. The rows of a call never matter.
#pragma once

#include "device/cpu/kernels.h"

namespace sluice::cpu {

inline constexpr uint32_t kPairedElements = 32;  // that a vector holds

template <class S>
struct ProductBf16 {
  using F = typename S::F;

  // An odd number of vectors. With a large power of two, rows would evict each other from the cache.
  static uint64_t row_bytes(uint64_t columns) { return ((columns + kPairedElements - 1) / kPairedElements | 1) * 64; }

  // Zeros follow the last element.
  static void round(const float* x, std::byte* out, size_t columns) {
    auto* to = reinterpret_cast<uint16_t*>(out);
    size_t k = 0;
    for (; k + kPairedElements <= columns; k += kPairedElements)
      S::store_bf16(to + k, S::load(x + k), S::load(x + k + 16));
    if (const int rest = static_cast<int>(columns - k); rest > 0)
      S::store_bf16(to + k, S::load(x + k, rest < 16 ? rest : 16), S::load(x + k + 16, rest > 16 ? rest - 16 : 0));
  }

  static void product(const ProductArgs& a, uint32_t first, uint32_t last, float*) {
    for (uint32_t row = 0; row < a.rows; row += kRowsTogether) {
      const uint32_t end = a.rows - row < kRowsTogether ? a.rows : row + kRowsTogether;
      for (uint32_t o = first; o < last; o += kPanelOutputs)
        panel(a, row, end, o, last - o < kPanelOutputs ? last : o + kPanelOutputs);
    }
  }

 private:
  static constexpr uint32_t kRowsTogether = 128;  // the second cache holds them for all panels
  static constexpr size_t kAhead = 512;           // bytes that one row prefetches, docs/experiments.md

  static void panel(const ProductArgs& a, uint32_t row, uint32_t end, uint32_t first, uint32_t last) {
    constexpr uint32_t X = S::kTileRows;
    for (; row + X <= end; row += X) strip<X>(a, row, first, last);
    for (; row < end; ++row) strip<1>(a, row, first, last);
  }

  // Behind the last output it reads the last row of weights again.
  template <uint32_t X>
  static void strip(const ProductArgs& a, uint32_t row, uint32_t first, uint32_t last) {
    constexpr uint32_t W = S::kTileWeights;
    const std::byte* x[X];
    for (uint32_t j = 0; j < X; ++j) x[j] = a.x + (row + j) * a.x_stride;
    for (uint32_t o = first; o < last; o += W) {
      const std::byte* w[W];
      for (uint32_t i = 0; i < W; ++i) w[i] = a.weight + (o + i < last ? o + i : last - 1) * a.weight_stride;
      F sums[W][X];
      tile<W, X>(w, x, a.columns, sums);
      for (uint32_t j = 0; j < X; ++j)
        for (uint32_t i = 0; i < W && o + i < last; ++i) a.out[(row + j) * a.out_stride + o + i] = S::sum(sums[i][j]);
    }
  }

  template <uint32_t W, uint32_t X>
  static void tile(const std::byte* const (&w)[W], const std::byte* const (&x)[X], size_t columns, F (&sums)[W][X]) {
    for (uint32_t i = 0; i < W; ++i)
      for (uint32_t j = 0; j < X; ++j) sums[i][j] = S::splat(0.0f);
    size_t k = 0;
    for (; k + kPairedElements <= columns; k += kPairedElements) {
      typename S::Pairs activations[X];
      for (uint32_t j = 0; j < X; ++j) activations[j] = S::load_pairs(x[j] + 2 * k);
      for (uint32_t i = 0; i < W; ++i) {
        if constexpr (X == 1) __builtin_prefetch(w[i] + 2 * k + kAhead);
        const auto weights = S::load_pairs(w[i] + 2 * k);
        for (uint32_t j = 0; j < X; ++j) sums[i][j] = S::dot_pairs(sums[i][j], weights, activations[j]);
      }
    }
    if (const int rest = static_cast<int>(columns - k); rest > 0)
      for (uint32_t i = 0; i < W; ++i)
        for (uint32_t j = 0; j < X; ++j)
          sums[i][j] = S::dot_pairs(sums[i][j], S::load_pairs(w[i] + 2 * k, rest), S::load_pairs(x[j] + 2 * k));
  }
};

}  // namespace sluice::cpu
