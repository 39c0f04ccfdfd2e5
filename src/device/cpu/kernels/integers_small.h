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
  using Stored = Q8_0;
  static constexpr size_t kElements = Q8_0::kBlockElements;
  static constexpr bool kHalves = false, kMinimum = false;
  static constexpr int kOffset = cpu::kOffset;

  template <class Rows, class Block>
  SLUICE_INLINE static void turn(const Rows& rows, size_t k, size_t, Block* blocks) {
    const size_t block = k / kElements;
    typename S::I words[8];
    rows.load_words(block, offsetof(Q8_0::Block, q), words);
    SLUICE_UNROLL for (int v = 0; v < 8; ++v) blocks[0].put(v, words[v] ^ P::every_byte(0x80), kOffset);
    blocks[0].scales[0] = rows.load_f16(block, offsetof(Q8_0::Block, d));
    blocks[0].finish();
  }
};

// Blocks whose integers are the halves of sixteen bytes. It reads two blocks at a time, so that words fill a vector.
template <class S, class Format>
struct HalvesOf32 {
  using P = Panel<S>;
  using I = typename S::I;
  using Stored = Format;
  static_assert(Format::kBlockElements == 32);
  static constexpr size_t kElements = 64;
  static constexpr bool kHalves = false;

  // make(at, block) makes the scales of the block stored at `at` and returns finish. finish(nibbles, v) makes the four
  // bytes of vector v from the low four bits of each.
  template <class Rows, class Block, class Make>
  SLUICE_INLINE static void turn(const Rows& rows, size_t k, size_t columns, Block* blocks, int offset,
                                 const Make& make) {
    const size_t first = k / 32, second = k + 32 < columns ? first + 1 : first;
    I words[8];
    rows.load_words(first, second, offsetof(typename Format::Block, q), words);
    SLUICE_UNROLL for (int b = 0; b < 2; ++b) {
      const auto finish = make(b == 0 ? first : second, blocks[b]);
      SLUICE_UNROLL for (int v = 0; v < 8; ++v) blocks[b].put(
          v, finish(P::bits(words[4 * b + v % 4], v / 4 * 4, 15), v), offset);
      blocks[b].finish();
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
template <class S>
struct Q4_0Integers : HalvesOf32<S, Q4_0> {
  using Base = HalvesOf32<S, Q4_0>;
  using P = Panel<S>;
  using I = typename S::I;
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = cpu::kOffset;

  template <class Rows, class Block>
  SLUICE_INLINE static void turn(const Rows& rows, size_t k, size_t columns, Block* blocks) {
    Base::turn(rows, k, columns, blocks, kOffset, [&](size_t at, Block& block) {
      block.scales[0] = rows.load_f16(at, 0);
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

  template <class Rows, class Block>
  SLUICE_INLINE static void turn(const Rows& rows, size_t k, size_t columns, Block* blocks) {
    Base::turn(rows, k, columns, blocks, 0, [&](size_t at, Block& block) {
      block.scales[0] = rows.load_f16(at, 0);
      block.minima[0] = rows.load_f16(at, offsetof(Q4_1::Block, m));
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

  template <class Rows, class Block>
  SLUICE_INLINE static void turn(const Rows& rows, size_t k, size_t columns, Block* blocks) {
    Base::turn(rows, k, columns, blocks, kOffset, [&](size_t at, Block& block) {
      block.scales[0] = rows.load_f16(at, 0);
      const I high = rows.load_word(at, offsetof(Q5_0::Block, high));
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

  template <class Rows, class Block>
  SLUICE_INLINE static void turn(const Rows& rows, size_t k, size_t columns, Block* blocks) {
    Base::turn(rows, k, columns, blocks, 0, [&](size_t at, Block& block) {
      block.scales[0] = rows.load_f16(at, 0);
      block.minima[0] = rows.load_f16(at, offsetof(Q5_1::Block, m));
      const I high = rows.load_word(at, offsetof(Q5_1::Block, high));
      return [high](I low, int v) { return low | fifth_bits<S>(high, v); };
    });
  }
};

}  // namespace sluice::cpu
