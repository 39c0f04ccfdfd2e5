// Products of integer formats with activations rounded to 8 bits in blocks of 32.
//
// A row of activations is a row of QuantBlocks: q = x / scale to the nearest, scale = largest |x| / 127. Output o of
// row r: the sum over blocks in ascending order of float(integer sum of the block) * (weight scale * scale), one fused
// multiply-add each. The integer sums are exact, so how a block is added up is free.
//
// Sixteen weight rows are turned, a few blocks at a time, into lanes: lane l of a vector holds the next integers of
// weight row l, and one instruction multiplies them with the same activations, broadcast. No lane is ever added to
// another, and many rows share the turning.
#pragma once

#include "device/cpu/kernels/formats.h"

namespace sluice::cpu {

inline constexpr size_t kQuantElements = 32;

// What is not finite in a block makes its scale NaN, and so every sum it enters.
template <class S>
struct QuantBlock {
  float scale;
  int32_t correction;  // S::kWeightOffset * sum of q: what the offset of the weights added to the sum
  typename S::Quant q[kQuantElements];
};

template <class S>
struct Product8Bit {
  using F = typename S::F;
  using I = typename S::I;
  using Block = QuantBlock<S>;

  static uint64_t quantised_bytes(uint64_t columns) { return columns / kQuantElements * sizeof(Block); }

  static void quantise(const float* x, std::byte* out, size_t columns) {
    auto* blocks = reinterpret_cast<Block*>(out);
    for (size_t b = 0; b < columns / kQuantElements; ++b) quantise_block(x + b * kQuantElements, blocks[b]);
  }

  // View: an integer view (formats.h).
  template <class View>
  static void product(const ProductArgs& a, uint32_t first, uint32_t last, float*) {
    for (uint32_t o = first; o < last; o += kPanelOutputs) {
      const std::byte* rows[kPanelOutputs];
      for (uint32_t i = 0; i < kPanelOutputs; ++i)
        rows[i] = a.weight + (o + i < last ? o + i : last - 1) * a.weight_stride;
      const int outputs = static_cast<int>(last - o < kPanelOutputs ? last - o : kPanelOutputs);
      for (uint32_t row = 0; row < a.rows; row += kRowsTogether)
        panel<View>(a, rows, row, a.rows - row < kRowsTogether ? a.rows - row : kRowsTogether, o, outputs);
    }
  }

 private:
  static constexpr uint32_t kRowsTogether = 64;
  static constexpr int kBlocksTogether = 16;
  static constexpr int kVectors = kQuantElements / S::kDotElements;  // of a block of sixteen weight rows

  struct Panel {
    I weights[kBlocksTogether][kVectors];
    uint16_t scales[kBlocksTogether][16];  // f16
  };

  static void quantise_block(const float* x, Block& block) {
    const F low = S::load(x), high = S::load(x + 16);
    const float largest = S::largest(S::max(S::abs(low), S::abs(high)));
    const F zero = S::splat(0.0f);
    const float nan_or_0 = S::sum(S::fma(high, zero, low * zero));
    const F inverse = S::splat(largest > 0x1p-120f ? 127.0f / largest : 0.0f);  // the inverse must be finite
    block.scale = largest / 127.0f + nan_or_0;
    S::store_quants(block.q, rounded(low * inverse));
    S::store_quants(block.q + 16, rounded(high * inverse));
    int32_t sum = 0;
    for (const auto q : block.q) sum += q;
    block.correction = sum * S::kWeightOffset;
  }
  // NaN becomes -127: max returns its second operand.
  static F rounded(F x) { return S::round(S::min(S::max(x, S::splat(-127.0f)), S::splat(127.0f))); }

  // Sixteen outputs of at most kRowsTogether rows.
  template <class View>
  static void panel(const ProductArgs& a, const std::byte* const (&weights)[kPanelOutputs], uint32_t row, uint32_t rows,
                    uint32_t output, int outputs) {
    F sums[kRowsTogether];
    for (uint32_t r = 0; r < rows; ++r) sums[r] = S::splat(0.0f);
    const int blocks = static_cast<int>(a.columns / kQuantElements);
    const std::byte* x = a.x + row * a.x_stride;
    for (int b = 0; b < blocks; b += kBlocksTogether) {
      const int count = blocks - b < kBlocksTogether ? blocks - b : kBlocksTogether;
      Panel turned;
      for (int i = 0; i < count; ++i) turn<View>(weights, static_cast<size_t>(b + i) * kQuantElements, turned, i);
      uint32_t r = 0;
      for (; r + 4 <= rows; r += 4) add_blocks<4>(turned, count, x + r * a.x_stride, a.x_stride, b, sums + r);
      for (; r < rows; ++r) add_blocks<1>(turned, count, x + r * a.x_stride, a.x_stride, b, sums + r);
    }
    for (uint32_t r = 0; r < rows; ++r) {
      float* out = a.out + (row + r) * a.out_stride + output;
      outputs == 16 ? S::store(out, sums[r]) : S::store(out, sums[r], outputs);
    }
  }

  template <class View>
  static void turn(const std::byte* const (&rows)[kPanelOutputs], size_t k, Panel& panel, int block) {
    for (int i = 0; i < 16; ++i) __builtin_memcpy(&panel.scales[block][i], View::scale(rows[i], k), sizeof(uint16_t));
    for (int v = 0; v < kVectors; v += 8) {
      I lanes[8];
      const int at = v * S::kDotElements;
      for (int i = 0; i < 8; ++i)
        lanes[i] = S::load_weights(View::quants(rows[i], k) + at, View::quants(rows[i + 8], k) + at);
      S::transpose8(lanes);
      for (int i = 0; i < 8; ++i) panel.weights[block][v + i] = lanes[i];
    }
  }

  template <int X>
  static void add_blocks(const Panel& panel, int count, const std::byte* x, uint64_t x_stride, int first_block,
                         F* sums) {
    const Block* blocks[X];
    F sum[X];
    for (int j = 0; j < X; ++j) {
      blocks[j] = reinterpret_cast<const Block*>(x + static_cast<uint32_t>(j) * x_stride) + first_block;
      sum[j] = sums[j];
    }
    for (int b = 0; b < count; ++b) {
      I dot[X];
      for (int j = 0; j < X; ++j) dot[j] = S::splat(-blocks[j][b].correction);
      for (int v = 0; v < kVectors; ++v)
        for (int j = 0; j < X; ++j)
          dot[j] = S::dot(dot[j], panel.weights[b][v], S::splat_group(blocks[j][b].q + v * S::kDotElements));
      const F scales = S::load_f16(panel.scales[b]);
      for (int j = 0; j < X; ++j) sum[j] = S::fma(S::to_float(dot[j]), scales * S::splat(blocks[j][b].scale), sum[j]);
    }
    for (int j = 0; j < X; ++j) sums[j] = sum[j];
  }
};

}  // namespace sluice::cpu
