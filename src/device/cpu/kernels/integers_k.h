// Integer views (panel.h) of the formats with blocks of 256. The formats' headers have the layouts. Bytes are read as
// words; a vector has word w of sixteen rows.
#pragma once

#include "device/cpu/kernels/panel.h"
#include "format/q2_k.h"
#include "format/q3_k.h"
#include "format/q4_k.h"
#include "format/q5_k.h"
#include "format/q6_k.h"

namespace sluice::cpu {

template <class S>
struct Q2_KIntegers {
  using P = Panel<S>;
  using Stored = Q2_K;
  static constexpr size_t kElements = Q2_K::kBlockElements;
  static constexpr bool kHalves = true, kMinimum = true;
  static constexpr int kOffset = 0;

  template <class Rows, class Block>
  SLUICE_INLINE static void turn(const Rows& rows, size_t k, size_t, Block* blocks) {
    typename S::I words[sizeof(Q2_K::Block) / 4];
    rows.load_words(k / kElements, 0, words);
    const auto *scales = words, *q = words + offsetof(Q2_K::Block, q) / 4;
    const auto d = S::low_f16(words[20]), dmin = S::splat(0.0f) - P::high_f16(words[20]);
    SLUICE_UNROLL for (int b = 0; b < 8; ++b) {
      SLUICE_UNROLL for (int v = 0; v < 8; ++v) blocks[b].put(v, P::bits(q[b / 4 * 8 + v], b % 4 * 2, 3), 0);
      SLUICE_UNROLL for (int half = 0; half < 2; ++half) {
        const int part = 2 * b + half;
        blocks[b].scales[half] = d * P::byte(P::bits(scales[part / 4], 0, 15), part % 4);
        blocks[b].minima[half] = dmin * P::byte(P::bits(scales[part / 4], 4, 15), part % 4);
      }
    }
  }
};

template <class S>
struct Q3_KIntegers {
  using P = Panel<S>;
  using Stored = Q3_K;
  static constexpr size_t kElements = Q3_K::kBlockElements;
  static constexpr bool kHalves = true, kMinimum = false;
  static constexpr int kOffset = kHalfOffset;

  template <class Rows, class Block>
  SLUICE_INLINE static void turn(const Rows& rows, size_t k, size_t, Block* blocks) {
    constexpr int kWords = offsetof(Q3_K::Block, d) / 4;
    const size_t block = k / kElements;
    typename S::I words[kWords];
    rows.load_words(block, 0, words);
    const auto *high = words, *q = words + offsetof(Q3_K::Block, q) / 4;
    const auto* scales = words + offsetof(Q3_K::Block, scales) / 4;
    const auto d = rows.load_f16(block, offsetof(Q3_K::Block, d));
    SLUICE_UNROLL for (int b = 0; b < 8; ++b) {
      SLUICE_UNROLL for (int v = 0; v < 8; ++v) {
        const auto third = S::shift_left(P::bits(high[v], b, 1), 2);
        // q - 4 + 32
        blocks[b].put(v, P::bits(q[b / 4 * 8 + v], b % 4 * 2, 3) + third + P::every_byte(28), kOffset);
      }
      SLUICE_UNROLL for (int half = 0; half < 2; ++half) {
        const int part = 2 * b + half;
        const auto low_bits = P::bits(scales[part % 8 / 4], part / 8 * 4, 15);
        const auto high_bits = S::shift_left(P::bits(scales[2], part / 4 * 2, 3), 4);
        blocks[b].scales[half] = d * (P::byte(low_bits | high_bits, part % 4) - S::splat(32.0f));
      }
    }
  }
};

// Reads scales and minima of q4_k and q5_k (format/k_scales.h) from the words before the integers.
template <class S, class Block>
SLUICE_INLINE void turn_k_scales(const typename S::I* words, Block* blocks) {
  using P = Panel<S>;
  const auto d = S::low_f16(words[0]), dmin = S::splat(0.0f) - P::high_f16(words[0]);
  const auto last_four = words[3];
  const typename S::I scales[] = {P::bits(words[1], 0, 63),
                                  P::bits(last_four, 0, 15) | S::shift_left(P::bits(words[1], 6, 3), 4)};
  const typename S::I minima[] = {P::bits(words[2], 0, 63),
                                  P::bits(last_four, 4, 15) | S::shift_left(P::bits(words[2], 6, 3), 4)};
  SLUICE_UNROLL for (int b = 0; b < 8; ++b) {
    blocks[b].scales[0] = d * P::byte(scales[b / 4], b % 4);
    blocks[b].minima[0] = dmin * P::byte(minima[b / 4], b % 4);
  }
}

template <class S>
struct Q4_KIntegers {
  using P = Panel<S>;
  using Stored = Q4_K;
  static constexpr size_t kElements = Q4_K::kBlockElements;
  static constexpr bool kHalves = false, kMinimum = true;
  static constexpr int kOffset = 0;

  template <class Rows, class Block>
  SLUICE_INLINE static void turn(const Rows& rows, size_t k, size_t, Block* blocks) {
    typename S::I words[sizeof(Q4_K::Block) / 4];
    rows.load_words(k / kElements, 0, words);
    turn_k_scales<S>(words, blocks);
    const auto* q = words + offsetof(Q4_K::Block, q) / 4;
    SLUICE_UNROLL for (int b = 0; b < 8; ++b) SLUICE_UNROLL for (int v = 0; v < 8; ++v) blocks[b].put(
        v, P::bits(q[b / 2 * 8 + v], b % 2 * 4, 15), 0);
  }
};

template <class S>
struct Q5_KIntegers {
  using P = Panel<S>;
  using Stored = Q5_K;
  static constexpr size_t kElements = Q5_K::kBlockElements;
  static constexpr bool kHalves = false, kMinimum = true;
  static constexpr int kOffset = 0;

  template <class Rows, class Block>
  SLUICE_INLINE static void turn(const Rows& rows, size_t k, size_t, Block* blocks) {
    typename S::I words[sizeof(Q5_K::Block) / 4];
    rows.load_words(k / kElements, 0, words);
    turn_k_scales<S>(words, blocks);
    const auto *high = words + offsetof(Q5_K::Block, high) / 4, *q = words + offsetof(Q5_K::Block, q) / 4;
    SLUICE_UNROLL for (int b = 0; b < 8; ++b) SLUICE_UNROLL for (int v = 0; v < 8; ++v) {
      const auto fifth = S::shift_left(P::bits(high[v], b, 1), 4);
      blocks[b].put(v, P::bits(q[b / 2 * 8 + v], b % 2 * 4, 15) | fifth, 0);
    }
  }
};

template <class S>
struct Q6_KIntegers {
  using P = Panel<S>;
  using Stored = Q6_K;
  static constexpr size_t kElements = Q6_K::kBlockElements;
  static constexpr bool kHalves = true, kMinimum = false;
  static constexpr int kOffset = kHalfOffset;

  template <class Rows, class Block>
  SLUICE_INLINE static void turn(const Rows& rows, size_t k, size_t, Block* blocks) {
    constexpr int kWords = offsetof(Q6_K::Block, d) / 4;
    const size_t block = k / kElements;
    typename S::I words[kWords];
    rows.load_words(block, 0, words);
    const auto *low = words, *high = words + offsetof(Q6_K::Block, high) / 4;
    const auto* scales = words + offsetof(Q6_K::Block, scales) / 4;
    const auto d = rows.load_f16(block, offsetof(Q6_K::Block, d));
    SLUICE_UNROLL for (int b = 0; b < 8; ++b) {
      const int n = b / 4, r = b % 4;
      SLUICE_UNROLL for (int v = 0; v < 8; ++v) {
        const auto high_bits = S::shift_left(P::bits(high[8 * n + v], 2 * r, 3), 4);
        blocks[b].put(v, P::bits(low[16 * n + r % 2 * 8 + v], r / 2 * 4, 15) | high_bits, kOffset);
      }
      SLUICE_UNROLL for (int half = 0; half < 2; ++half) blocks[b].scales[half] =
          d * P::signed_byte(scales[b / 2], b % 2 * 2 + half);
    }
  }
};

}  // namespace sluice::cpu
