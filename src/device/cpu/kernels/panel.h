// Sixteen weight rows turned into lanes: lane l of a vector holds the next integers of weight row l, so that one
// instruction multiplies them with the same activations, broadcast, and no lane is ever added to another.
//
// A format's integer view (integers_k.h, integers_small.h) makes blocks of a panel from where its rows lie:
//
//   kElements  that it turns at a time; a multiple of 32
//   kHalves    scales and minima belong to 16 elements, in place of 32
//   kOffset    what the integers it gives are above those of the format: 0, or kOffset, kHalfOffset (quantise.h)
//   kMinimum   x = scale q + minimum
//   turn(rows, k, columns, blocks)  elements [k, k + kElements), where columns end sooner any blocks after them
#pragma once

#include "device/cpu/kernels.h"
#include "device/cpu/kernels/quantise.h"

namespace sluice::cpu {

template <class S>
struct PanelBlock {
  static constexpr int kVectors = kQuantElements / S::kDotElements;
  typename S::I weights[kVectors];
  typename S::F scales[2];  // of the halves; the first of both
  typename S::F minima[2];
};

using PanelRows = const std::byte* const (&)[kPanelOutputs];

template <class S>
struct Panel {
  using F = typename S::F;
  using I = typename S::I;
  using Block = PanelBlock<S>;

  // The next kWords words of every row, from `at` bytes on: word w of row l in lane l of words[w]. At least eight.
  template <int kWords>
  static void load_words(PanelRows rows, size_t at, I (&words)[kWords]) {
    static_assert(kWords >= 8);
    for (int w = 0; w < kWords; w += 8) {
      const int first = w + 8 <= kWords ? w : kWords - 8;  // the last eight may be read again
      I lanes[8];
      for (int i = 0; i < 8; ++i) lanes[i] = S::load_words(rows[i] + at + 4 * first, rows[i + 8] + at + 4 * first);
      S::transpose8(lanes);
      for (int i = w - first; i < 8; ++i) words[first + i] = lanes[i];
    }
  }
  // Four words from `at`, four from `then`.
  static void load_words(PanelRows rows, size_t at, size_t then, I (&words)[8]) {
    for (int i = 0; i < 8; ++i)
      words[i] = S::load_words(rows[i] + at, rows[i] + then, rows[i + 8] + at, rows[i + 8] + then);
    S::transpose8(words);
  }
  // An f16 of every row.
  static F load_f16(PanelRows rows, size_t at) {
    uint16_t bits[16];
    for (int i = 0; i < 16; ++i) __builtin_memcpy(&bits[i], rows[i] + at, sizeof(uint16_t));
    return S::load_f16(bits);
  }

  // A word of every lane with this byte four times.
  static I every_byte(uint8_t byte) { return S::splat(static_cast<int32_t>(byte * 0x01010101u)); }
  // Bits [shift, shift + n) of every byte, where mask has the lowest n.
  static I bits(I x, int shift, uint8_t mask) { return S::shift_right(x, shift) & every_byte(mask); }
  static F byte(I x, int b) { return S::to_float(S::shift_right(x, 8 * b) & S::splat(255)); }
  static F signed_byte(I x, int b) { return S::to_float(S::shift_signed(S::shift_left(x, 24 - 8 * b), 24)); }
  static F high_f16(I x) { return S::low_f16(S::shift_right(x, 16)); }

  // Elements [4 v, 4 v + 4) of the block.
  static void store(Block& block, int v, I bytes, int offset) {
    S::store_weights(&block.weights[v * (4 / S::kDotElements)], bytes, offset);
  }
};

}  // namespace sluice::cpu
