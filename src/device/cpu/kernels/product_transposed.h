// Products of transposed weights with rows rounded to 8 bits (quantise.h): a column of the weights becomes an output.
//
// Blocks of 32 decoded weights of a column, one of each row, are rounded to 8 bits as activations are: q = w / scale,
// to nearest, with scale = largest |w| / 127. Then sixteen columns are a panel. Output o of row r: blocks in ascending
// order, each adding float(integer sum) * (weight scale * scale) to the sum by a fused multiply-add.
#pragma once

#include "device/cpu/kernels/product_8bit.h"

namespace sluice::cpu {

template <class S>
struct ProductTransposed {
  using F = typename S::F;
  using I = typename S::I;
  using P8 = Product8Bit<S>;
  using Panel = PanelBlock<S>[kColumnBlocks];

  struct View {
    static constexpr bool kHalves = false, kMinimum = false;
    static constexpr int kOffset = cpu::kOffset;
  };
  static_assert(kColumnPanels * sizeof(Panel) <= kColumnsScratch * sizeof(float));

  static void round(const float* weights, uint64_t stride, uint32_t columns, uint32_t block, float* panels) {
    auto* to = reinterpret_cast<Panel*>(panels);
    for (uint32_t c = 0; c < columns; c += kPanelOutputs)
      round(weights + c, stride, columns - c < kPanelOutputs ? columns - c : kPanelOutputs,
            to[c / kPanelOutputs][block]);
  }

  static void add(const TransposedArgs& a) {
    constexpr int P = S::kDotPanels;
    const auto* panels = reinterpret_cast<const Panel*>(a.panels);
    for (uint32_t row = 0; row < a.rows; row += kRowsTogether) {
      const uint32_t rows = a.rows - row < kRowsTogether ? a.rows - row : kRowsTogether;
      for (uint32_t c = 0; c < a.columns; c += P * kPanelOutputs)
        a.columns - c > kPanelOutputs ? add<P>(a, panels + c / kPanelOutputs, row, rows, c)
                                      : add<1>(a, panels + c / kPanelOutputs, row, rows, c);
    }
  }

 private:
  static constexpr uint32_t kRowsTogether = 128;  // the second cache holds their blocks beside the panels

  static void round(const float* weights, uint64_t stride, uint32_t columns, PanelBlock<S>& block) {
    const auto load = [&](size_t row) {
      const float* from = weights + row * stride;
      return columns == kPanelOutputs ? S::load(from) : S::load(from, static_cast<int>(columns));
    };
    F largest = S::splat(0.0f);
    for (size_t row = 0; row < kQuantElements; ++row) largest = S::max(S::abs(load(row)), largest);
    const F inverse = S::splat(127.0f) / S::max(largest, S::splat(0x1p-120f));  // the inverse must be finite
    for (size_t v = 0; v < kQuantElements / 4; ++v) {
      const auto byte = [&](size_t i) {
        return S::to_integers(S::fma(load(4 * v + i), inverse, S::splat(float{kOffset})));
      };
      const I low = byte(0) | S::shift_left(byte(1), 8), high = byte(2) | S::shift_left(byte(3), 8);
      block.put(static_cast<int>(v), low | S::shift_left(high, 16), kOffset);
    }
    block.scales[0] = largest * S::splat(1.0f / 127.0f);
    P8::pair(block);
  }

  template <int P>
  static void add(const TransposedArgs& a, const Panel* panels, uint32_t row, uint32_t rows, uint32_t column) {
    F sums[P][kRowsTogether];
    const PanelBlock<S>* from[P];
    F* to[P];
    int columns[P];
    for (uint32_t p = 0; p < P; ++p) {
      const uint32_t c = column + p * kPanelOutputs;
      columns[p] = static_cast<int>(a.columns - c < kPanelOutputs ? a.columns - c : kPanelOutputs);
      from[p] = panels[p];
      to[p] = sums[p];
      for (uint32_t r = 0; r < rows; ++r)
        sums[p][r] = a.begins ? S::splat(0.0f) : S::load(a.out + (row + r) * a.out_stride + c, columns[p]);
    }
    P8::template add_rows<View>(from, static_cast<int>(a.blocks), a.x + row * a.x_stride, a.x_stride, rows, to);
    for (uint32_t p = 0; p < P; ++p)
      for (uint32_t r = 0; r < rows; ++r)
        S::store(a.out + (row + r) * a.out_stride + column + p * kPanelOutputs, sums[p][r], columns[p]);
  }
};

}  // namespace sluice::cpu
