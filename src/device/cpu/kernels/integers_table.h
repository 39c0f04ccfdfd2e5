// Integer views (panel.h) of the formats whose 4-bit integers are indices into a table: iq4_nl, iq4_xs, mxfp4.
#pragma once

#include "device/cpu/kernels/integers_small.h"
#include "format/fp4.h"
#include "format/iq4.h"

namespace sluice::cpu {

// The table's numbers plus kOffset.
template <class S>
typename S::I looked_up(const int8_t (&table)[16], typename S::I places) {
  return S::look_up(table, places) ^ Panel<S>::every_byte(0x80);
}

template <class S>
struct IQ4_NLIntegers : HalvesOf32<S, IQ4_NL> {
  using Base = HalvesOf32<S, IQ4_NL>;
  using I = typename S::I;
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = cpu::kOffset;

  template <class Rows, class Block>
  SLUICE_INLINE static void turn(const Rows& rows, size_t k, size_t columns, Block* blocks) {
    Base::turn(rows, k, columns, blocks, kOffset, [&](size_t at, Block& block) {
      block.scales[0] = rows.load_f16(at, 0);
      return [](I low, int) { return looked_up<S>(IQ4_NL::kNumbers, low); };
    });
  }
};

template <class S>
struct MXFP4Integers : HalvesOf32<S, MXFP4> {
  using Base = HalvesOf32<S, MXFP4>;
  using I = typename S::I;
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = cpu::kOffset;

  template <class Rows, class Block>
  SLUICE_INLINE static void turn(const Rows& rows, size_t k, size_t columns, Block* blocks) {
    Base::turn(rows, k, columns, blocks, kOffset, [&](size_t at, Block& block) {
      float scales[kPanelOutputs];
      for (uint32_t i = 0; i < kPanelOutputs; ++i) scales[i] = MXFP4::half_scale(rows.byte(at, 0, i));
      block.scales[0] = S::load(scales);
      return [](I low, int) { return looked_up<S>(kDoubledE2M1, low); };
    });
  }
};

template <class S>
struct IQ4_XSIntegers {
  using P = Panel<S>;
  using Stored = IQ4_XS;
  static constexpr size_t kElements = IQ4_XS::kBlockElements;
  static constexpr bool kHalves = false, kMinimum = false;
  static constexpr int kOffset = cpu::kOffset;

  template <class Rows, class Block>
  SLUICE_INLINE static void turn(const Rows& rows, size_t k, size_t, Block* blocks) {
    const typename Rows::template Words<sizeof(IQ4_XS::Block) / 4> words(rows, k / kElements);
    constexpr int kQ = offsetof(IQ4_XS::Block, q) / 4;
    const auto header = words[0], low_bits = words[1];
    const auto d = S::low_f16(header);
    SLUICE_UNROLL for (int b = 0; b < 8; ++b) {
      SLUICE_UNROLL for (int v = 0; v < 4; ++v) {
        keep_order();
        const auto q = words[kQ + 4 * b + v];
        SLUICE_UNROLL for (int part = 0; part < 2; ++part) blocks[b].put(
            v + 4 * part, looked_up<S>(IQ4_NL::kNumbers, P::bits(q, 4 * part, 15)), kOffset);
      }
      const auto low = S::shift_right(low_bits, 4 * b) & S::splat(15);
      const auto high = S::shift_left(S::shift_right(header, 16 + 2 * b) & S::splat(3), 4);
      blocks[b].scales[0] = d * (S::to_float(low | high) - S::splat(32.0f));
      blocks[b].finish();
    }
  }
};

}  // namespace sluice::cpu
