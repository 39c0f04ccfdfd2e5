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

// The words from `header` on come first, then the others.
template <class Format>
constexpr auto header_first(size_t header) {
  std::array<uint8_t, sizeof(typename Format::Block) / 4> order{};
  for (size_t w = 0; w < order.size(); ++w) order[w] = static_cast<uint8_t>((header + w) % order.size());
  return order;
}

template <>
inline constexpr auto kWordOrder<Q2_K> = header_first<Q2_K>(offsetof(Q2_K::Block, d) / 4);
template <class S>
struct Q2_KIntegers {
  using P = Panel<S>;
  using Stored = Q2_K;
  static constexpr size_t kElements = Q2_K::kBlockElements;
  static constexpr bool kHalves = true, kMinimum = true;
  static constexpr int kOffset = 0;

  template <class Rows, class Block>
  SLUICE_INLINE static void turn(const Rows& rows, size_t k, size_t, Block* blocks) {
    constexpr int kQ = offsetof(Q2_K::Block, q) / 4;
    const typename Rows::template Words<sizeof(Q2_K::Block) / 4> words(rows, k / kElements);
    const auto factors = words[offsetof(Q2_K::Block, d) / 4];
    const auto d = S::low_f16(factors), dmin = S::splat(0.0f) - P::high_f16(factors);
    const typename S::I scales[] = {words[0], words[1], words[2], words[3]};
    SLUICE_UNROLL for (int n = 0; n < 2; ++n) {
      SLUICE_UNROLL for (int v = 0; v < 8; ++v) {
        keep_order();
        const auto q = words[kQ + 8 * n + v];
        SLUICE_UNROLL for (int r = 0; r < 4; ++r) blocks[4 * n + r].put(v, P::bits(q, 2 * r, 3), 0);
      }
      SLUICE_UNROLL for (int b = 4 * n; b < 4 * n + 4; ++b) {
        SLUICE_UNROLL for (int half = 0; half < 2; ++half) {
          const int part = 2 * b + half;
          blocks[b].scales[half] = d * P::byte(P::bits(scales[part / 4], 0, 15), part % 4);
          blocks[b].minima[half] = dmin * P::byte(P::bits(scales[part / 4], 4, 15), part % 4);
        }
        blocks[b].finish();
      }
    }
  }
};

template <>
inline constexpr auto kWordOrder<Q3_K> = header_first<Q3_K>(offsetof(Q3_K::Block, scales) / 4);
template <class S>
struct Q3_KIntegers {
  using P = Panel<S>;
  using Stored = Q3_K;
  static constexpr size_t kElements = Q3_K::kBlockElements;
  static constexpr bool kHalves = true, kMinimum = false;
  static constexpr int kOffset = kHalfOffset;

  template <class Rows, class Block>
  SLUICE_INLINE static void turn(const Rows& rows, size_t k, size_t, Block* blocks) {
    constexpr int kQ = offsetof(Q3_K::Block, q) / 4, kScales = offsetof(Q3_K::Block, scales) / 4;
    const size_t block = k / kElements;
    const typename Rows::template Words<kScales + 3> words(rows, block);
    const typename S::I scales[] = {words[kScales], words[kScales + 1], words[kScales + 2]};
    const auto d = rows.load_f16(block, offsetof(Q3_K::Block, d));
    typename S::I high[8];
    SLUICE_UNROLL for (int v = 0; v < 8; ++v) high[v] = words[v];
    SLUICE_UNROLL for (int n = 0; n < 2; ++n) {
      SLUICE_UNROLL for (int v = 0; v < 8; ++v) {
        keep_order();
        const auto q = words[kQ + 8 * n + v];
        SLUICE_UNROLL for (int r = 0; r < 4; ++r) {
          const auto third = S::shift_left(P::bits(high[v], 4 * n + r, 1), 2);
          blocks[4 * n + r].put(v, P::bits(q, 2 * r, 3) + third + P::every_byte(28), kOffset);  // q - 4 + 32
        }
      }
      SLUICE_UNROLL for (int b = 4 * n; b < 4 * n + 4; ++b) {
        SLUICE_UNROLL for (int half = 0; half < 2; ++half) {
          const int part = 2 * b + half;
          const auto low_bits = P::bits(scales[part % 8 / 4], part / 8 * 4, 15);
          const auto high_bits = S::shift_left(P::bits(scales[2], part / 4 * 2, 3), 4);
          blocks[b].scales[half] = d * (P::byte(low_bits | high_bits, part % 4) - S::splat(32.0f));
        }
        blocks[b].finish();
      }
    }
  }
};

// The scales and minima of q4_k and q5_k (format/k_scales.h), which come before the integers.
template <class S>
struct KScales {
  using P = Panel<S>;
  typename S::F d, dmin;
  typename S::I scales[2], minima[2];

  template <class Words>
  SLUICE_INLINE explicit KScales(const Words& words) {
    const auto factors = words[0], low_scales = words[1], low_minima = words[2], last_four = words[3];
    d = S::low_f16(factors);
    dmin = S::splat(0.0f) - P::high_f16(factors);
    scales[0] = P::bits(low_scales, 0, 63);
    scales[1] = P::bits(last_four, 0, 15) | S::shift_left(P::bits(low_scales, 6, 3), 4);
    minima[0] = P::bits(low_minima, 0, 63);
    minima[1] = P::bits(last_four, 4, 15) | S::shift_left(P::bits(low_minima, 6, 3), 4);
  }
  template <class Block>
  SLUICE_INLINE void finish(int b, Block& block) const {
    block.scales[0] = d * P::byte(scales[b / 4], b % 4);
    block.minima[0] = dmin * P::byte(minima[b / 4], b % 4);
    block.finish();
  }
};

template <class S>
struct Q4_KIntegers {
  using P = Panel<S>;
  using Stored = Q4_K;
  static constexpr size_t kElements = Q4_K::kBlockElements;
  static constexpr bool kHalves = false, kMinimum = true;
  static constexpr int kOffset = 0;

  template <class Rows, class Block>
  SLUICE_INLINE static void turn(const Rows& rows, size_t k, size_t, Block* blocks) {
    constexpr int kQ = offsetof(Q4_K::Block, q) / 4;
    const typename Rows::template Words<sizeof(Q4_K::Block) / 4> words(rows, k / kElements);
    const KScales<S> scales(words);
    SLUICE_UNROLL for (int b = 0; b < 8; b += 2) {
      SLUICE_UNROLL for (int v = 0; v < 8; ++v) {
        keep_order();
        const auto q = words[kQ + 4 * b + v];
        SLUICE_UNROLL for (int r = 0; r < 2; ++r) blocks[b + r].put(v, P::bits(q, 4 * r, 15), 0);
      }
      SLUICE_UNROLL for (int r = 0; r < 2; ++r) scales.finish(b + r, blocks[b + r]);
    }
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
    constexpr int kHigh = offsetof(Q5_K::Block, high) / 4, kQ = offsetof(Q5_K::Block, q) / 4;
    const typename Rows::template Words<sizeof(Q5_K::Block) / 4> words(rows, k / kElements);
    const KScales<S> scales(words);
    typename S::I high[8];
    SLUICE_UNROLL for (int v = 0; v < 8; ++v) high[v] = words[kHigh + v];
    SLUICE_UNROLL for (int b = 0; b < 8; b += 2) {
      SLUICE_UNROLL for (int v = 0; v < 8; ++v) {
        keep_order();
        const auto q = words[kQ + 4 * b + v];
        SLUICE_UNROLL for (int r = 0; r < 2; ++r) {
          const auto fifth = S::shift_left(P::bits(high[v], b + r, 1), 4);
          blocks[b + r].put(v, P::bits(q, 4 * r, 15) | fifth, 0);
        }
      }
      SLUICE_UNROLL for (int r = 0; r < 2; ++r) scales.finish(b + r, blocks[b + r]);
    }
  }
};

// Scales first, then for each vector the words whose bits its integers have.
template <>
inline constexpr auto kWordOrder<Q6_K> = [] {
  constexpr size_t kHigh = offsetof(Q6_K::Block, high) / 4, kScales = offsetof(Q6_K::Block, scales) / 4;
  std::array<uint8_t, sizeof(Q6_K::Block) / 4> order{};
  size_t place = 0;
  for (size_t w = kScales; w < order.size(); ++w) order[place++] = static_cast<uint8_t>(w);
  for (size_t v = 0; v < 16; ++v)
    for (const size_t w : {v / 8 * 16 + v % 8, v / 8 * 16 + 8 + v % 8, kHigh + v})
      order[place++] = static_cast<uint8_t>(w);
  return order;
}();
template <class S>
struct Q6_KIntegers {
  using P = Panel<S>;
  using Stored = Q6_K;
  static constexpr size_t kElements = Q6_K::kBlockElements;
  static constexpr bool kHalves = true, kMinimum = false;
  static constexpr int kOffset = kHalfOffset;

  template <class Rows, class Block>
  SLUICE_INLINE static void turn(const Rows& rows, size_t k, size_t, Block* blocks) {
    constexpr int kHigh = offsetof(Q6_K::Block, high) / 4, kScales = offsetof(Q6_K::Block, scales) / 4;
    const size_t block = k / kElements;
    const typename Rows::template Words<kScales + 4> words(rows, block);
    const typename S::I scales[] = {words[kScales], words[kScales + 1], words[kScales + 2], words[kScales + 3]};
    const auto d = rows.load_f16(block, offsetof(Q6_K::Block, d));
    const auto two_bits = P::every_byte(0x30);
    SLUICE_UNROLL for (int n = 0; n < 2; ++n) {
      SLUICE_UNROLL for (int v = 0; v < 8; ++v) {
        keep_order();
        const auto even = words[16 * n + v], odd = words[16 * n + 8 + v], high = words[kHigh + 8 * n + v];
        blocks[4 * n].put(v, P::bits(even, 0, 15) | (S::shift_left(high, 4) & two_bits), kOffset);
        blocks[4 * n + 1].put(v, P::bits(odd, 0, 15) | (S::shift_left(high, 2) & two_bits), kOffset);
        blocks[4 * n + 2].put(v, P::bits(even, 4, 15) | (high & two_bits), kOffset);
        blocks[4 * n + 3].put(v, P::bits(odd, 4, 15) | (S::shift_right(high, 2) & two_bits), kOffset);
      }
      SLUICE_UNROLL for (int b = 4 * n; b < 4 * n + 4; ++b) {
        SLUICE_UNROLL for (int half = 0; half < 2; ++half) blocks[b].scales[half] =
            d * P::signed_byte(scales[b / 2], b % 2 * 2 + half);
        blocks[b].finish();
      }
    }
  }
};

}  // namespace sluice::cpu
