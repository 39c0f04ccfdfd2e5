// Integer views (panel.h) of the formats with blocks of 32.
#pragma once

#include "device/cpu/kernels/panel.h"
#include "format/q4_0.h"
#include "format/q4_1.h"
#include "format/q5_0.h"
#include "format/q5_1.h"
#include "format/q8_0.h"

namespace sluice::cpu {

template <class S>
struct Q8_0Integers {
  using P = Panel<S>;
  static constexpr size_t kElements = Q8_0::kBlockElements;
  static constexpr bool kHalves = false, kMinimum = false;
  static constexpr int kOffset = cpu::kOffset;

  static void turn(PanelRows rows, size_t k, size_t, PanelBlock<S>* blocks) {
    const size_t at = k / kElements * sizeof(Q8_0::Block);
    typename S::I words[8];
    P::load_words(rows, at + offsetof(Q8_0::Block, q), words);
    for (int v = 0; v < 8; ++v) P::store(blocks[0], v, words[v] ^ P::every_byte(0x80), kOffset);
    blocks[0].scales[0] = P::load_f16(rows, at + offsetof(Q8_0::Block, d));
  }
};

// Blocks whose integers are the halves of sixteen bytes; two blocks are read at a time, so that words fill a vector.
template <class S, class Format>
struct HalvesOf32 {
  using P = Panel<S>;
  using I = typename S::I;
  static_assert(Format::kBlockElements == 32);
  static constexpr size_t kBlockBytes = sizeof(typename Format::Block);
  static constexpr size_t kElements = 64;
  static constexpr bool kHalves = false;

  // make(nibbles, v, block, at): the four bytes of vector v from the low four bits of each; `at` is the block's place.
  template <class Make>
  static void turn(PanelRows rows, size_t k, size_t columns, PanelBlock<S>* blocks, int offset, const Make& make) {
    const size_t first = k / 32 * kBlockBytes, second = k + 32 < columns ? first + kBlockBytes : first;
    constexpr size_t kQ = offsetof(typename Format::Block, q);
    I words[8];
    P::load_words(rows, first + kQ, second + kQ, words);
    for (int b = 0; b < 2; ++b) {
      const auto finish = make(b == 0 ? first : second, blocks[b]);
      for (int v = 0; v < 8; ++v)
        P::store(blocks[b], v, finish(P::bits(words[4 * b + v % 4], v / 4 * 4, 15), v), offset);
    }
  }
};

// The fifth bits of elements [4 v, 4 v + 4), from the word that has them all.
template <class S>
typename S::I fifth_bits(typename S::I high, int v) {
  const auto four = S::shift_right(high, 4 * v) & S::splat(15);
  const auto two_by_two = four | S::shift_left(four, 14);
  const auto spread = two_by_two | S::shift_left(two_by_two, 7);
  return S::shift_left(spread & Panel<S>::every_byte(1), 4);
}
// The word at `at` of every row.
template <class S>
typename S::I load_word(PanelRows rows, size_t at) {
  alignas(64) std::byte words[64];
  for (int i = 0; i < 16; ++i) __builtin_memcpy(words + 4 * i, rows[i] + at, 4);
  return S::load_words(words, words + 32);
}

template <class S>
struct Q4_0Integers : HalvesOf32<S, Q4_0> {
  using Base = HalvesOf32<S, Q4_0>;
  using P = Panel<S>;
  using I = typename S::I;
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = cpu::kOffset;

  static void turn(PanelRows rows, size_t k, size_t columns, PanelBlock<S>* blocks) {
    Base::turn(rows, k, columns, blocks, kOffset, [&](size_t at, PanelBlock<S>& block) {
      block.scales[0] = P::load_f16(rows, at);
      return [](I low, int) { return low + P::every_byte(120); };  // q - 8 + 128
    });
  }
};

template <class S>
struct Q4_1Integers : HalvesOf32<S, Q4_1> {
  using Base = HalvesOf32<S, Q4_1>;
  using P = Panel<S>;
  using I = typename S::I;
  static constexpr bool kMinimum = true;
  static constexpr int kOffset = 0;

  static void turn(PanelRows rows, size_t k, size_t columns, PanelBlock<S>* blocks) {
    Base::turn(rows, k, columns, blocks, 0, [&](size_t at, PanelBlock<S>& block) {
      block.scales[0] = P::load_f16(rows, at);
      block.minima[0] = P::load_f16(rows, at + offsetof(Q4_1::Block, m));
      return [](I low, int) { return low; };
    });
  }
};

template <class S>
struct Q5_0Integers : HalvesOf32<S, Q5_0> {
  using Base = HalvesOf32<S, Q5_0>;
  using P = Panel<S>;
  using I = typename S::I;
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = cpu::kOffset;

  static void turn(PanelRows rows, size_t k, size_t columns, PanelBlock<S>* blocks) {
    Base::turn(rows, k, columns, blocks, kOffset, [&](size_t at, PanelBlock<S>& block) {
      block.scales[0] = P::load_f16(rows, at);
      const I high = load_word<S>(rows, at + offsetof(Q5_0::Block, high));
      return [high](I low, int v) { return (low | fifth_bits<S>(high, v)) + P::every_byte(112); };  // q - 16 + 128
    });
  }
};

template <class S>
struct Q5_1Integers : HalvesOf32<S, Q5_1> {
  using Base = HalvesOf32<S, Q5_1>;
  using P = Panel<S>;
  using I = typename S::I;
  static constexpr bool kMinimum = true;
  static constexpr int kOffset = 0;

  static void turn(PanelRows rows, size_t k, size_t columns, PanelBlock<S>* blocks) {
    Base::turn(rows, k, columns, blocks, 0, [&](size_t at, PanelBlock<S>& block) {
      block.scales[0] = P::load_f16(rows, at);
      block.minima[0] = P::load_f16(rows, at + offsetof(Q5_1::Block, m));
      const I high = load_word<S>(rows, at + offsetof(Q5_1::Block, high));
      return [high](I low, int v) { return low | fifth_bits<S>(high, v); };
    });
  }
};

}  // namespace sluice::cpu
