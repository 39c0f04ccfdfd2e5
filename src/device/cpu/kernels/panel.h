// A panel is sixteen weight rows turned into lanes: lane l of a vector holds the next integers of weight row l. One
// instruction multiplies them with the same broadcast activations, and no lane is ever added to another.
#pragma once

#include <array>
#include <numeric>

#include "device/cpu/kernels.h"
#include "device/cpu/kernels/quantise.h"

// Views name vectors by loop counters. They become registers only when the loops are unrolled inside the loop over
// blocks. g++ takes more than ten minutes for that, so only clang does it, which compiles releases.
#if defined(__clang__)
#define SLUICE_UNROLL _Pragma("clang loop unroll(full)")
#define SLUICE_INLINE [[gnu::always_inline]] inline
#else
#define SLUICE_UNROLL
#define SLUICE_INLINE inline
#endif

namespace sluice::cpu {

// Integer views (integers_k.h, integers_small.h) make blocks of a panel from the stored blocks of its rows:
//
//   Stored     the format
//   kElements  elements transposed at a time; a multiple of 32
//   kHalves    scales and minima belong to 16 elements, not 32
//   kOffset    added to the format's integers: 0, or kOffset, kHalfOffset (quantise.h)
//   kMinimum   x = scale q + minimum
//   turn(rows, k, columns, blocks)  transposes elements [k, k + kElements); blocks behind the last column are undefined
//
// `rows` are MappedRows, as in files, or PackedRows, transposed beforehand. `blocks` are kept (PanelBlock) or
// multiplied at once (product_8bit.h). A block has scales[2] and minima[2] for its halves (or the first for both),
// put(v, bytes, offset) for elements [4 v, 4 v + 4), and finish(), called in the order of the blocks, once all of that
// is there.
//
// A processor prefetches by itself what is read in the order of addresses, and hardly anything else. So views read each
// word once, and packed words lie in the order of reading. Intel's stop at the end of a page of 4,096 bytes, so there
// instructions prefetch as far ahead (PackedRows).

// Word kWordOrder[w] of a stored block is word w of a packed one. Views say so where products read in another order.
template <class Format>
inline constexpr auto kWordOrder = [] {
  std::array<uint8_t, sizeof(typename Format::Block) / 4> order{};
  std::iota(order.begin(), order.end(), uint8_t{0});
  return order;
}();
// The place of each stored word among the packed ones.
template <class Format>
inline constexpr auto kWordPlace = [] {
  auto place = kWordOrder<Format>;
  for (size_t w = 0; w < place.size(); ++w) place[kWordOrder<Format>[w]] = static_cast<uint8_t>(w);
  return place;
}();

// Blocks of 32 begin with the bytes outside whole words; larger blocks end with them.
template <class Format>
constexpr BlockPacking block_packing() {
  constexpr uint32_t kBytes = sizeof(typename Format::Block);
  return {.bytes = kBytes,
          .words_at = Format::kBlockElements == kQuantElements ? kBytes % 4 : 0,
          .order = kWordOrder<Format>.data()};
}

// Keeps the compiler from moving reads to before or behind this place.
SLUICE_INLINE void keep_order() { __asm__ volatile("" ::: "memory"); }

template <class S, class Format>
struct MappedRows {
  using Usual = MappedRows;
  static constexpr bool kAhead = false;
  static constexpr bool kPacked = false;
  using F = typename S::F;
  using I = typename S::I;
  static constexpr size_t kBlockBytes = sizeof(typename Format::Block);

  const std::byte* rows[kPanelOutputs];

  // The outputs from `output` on. Outputs after the last one repeat it.
  MappedRows(const ProductArgs& a, uint32_t output, uint32_t last) {
    for (uint32_t i = 0; i < kPanelOutputs; ++i)
      rows[i] = a.weight + (output + i < last ? output + i : last - 1) * a.weight_stride;
  }

  // The next kWords words of every row, at least eight, from byte `at` of a block on.
  template <int kWords>
  void load_words(size_t block, size_t at, I (&words)[kWords]) const {
    static_assert(kWords >= 8);
    at += block * kBlockBytes;
    for (int w = 0; w < kWords; w += 8) {
      const int first = w + 8 <= kWords ? w : kWords - 8;  // the last eight may be read again
      I lanes[8];
      for (int i = 0; i < 8; ++i) lanes[i] = S::load_words(rows[i] + at + 4 * first, rows[i + 8] + at + 4 * first);
      S::transpose8(lanes);
      for (int i = w - first; i < 8; ++i) words[first + i] = lanes[i];
    }
  }
  // All words of a block.
  template <int kWords>
  struct Words {
    I words[kWords];

    Words(const MappedRows& rows, size_t block) { rows.load_words(block, 0, words); }
    I operator[](int w) const { return words[w]; }
  };
  // Four words of one block, then four of another.
  void load_words(size_t block, size_t then, size_t at, I (&words)[8]) const {
    block = block * kBlockBytes + at;
    then = then * kBlockBytes + at;
    for (int i = 0; i < 8; ++i)
      words[i] = S::load_words(rows[i] + block, rows[i] + then, rows[i + 8] + block, rows[i + 8] + then);
    S::transpose8(words);
  }
  I load_word(size_t block, size_t at) const {
    alignas(64) std::byte words[64];
    for (int i = 0; i < 16; ++i) __builtin_memcpy(words + 4 * i, rows[i] + block * kBlockBytes + at, 4);
    return S::load_words(words, words + 32);
  }
  // An f16 of every row.
  F load_f16(size_t block, size_t at) const {
    uint16_t bits[16];
    for (int i = 0; i < 16; ++i) __builtin_memcpy(&bits[i], rows[i] + block * kBlockBytes + at, sizeof(uint16_t));
    return S::load_f16(bits);
  }
  uint8_t byte(size_t block, size_t at, uint32_t row) const {
    return static_cast<uint8_t>(rows[row][block * kBlockBytes + at]);
  }
};

// kAhead: a word is prefetched S::kFetchAhead bytes before it is read (reads_ahead() in simd_level.h).
template <class S, class Format, bool kReadsAhead = S::kAlwaysFetches>
struct PackedRows {
  static constexpr bool kAhead = kReadsAhead;
  using Usual = PackedRows<S, Format>;  // where a panel meets many rows
  static constexpr bool kPacked = true;
  using F = typename S::F;
  using I = typename S::I;
  static constexpr size_t kElements = Format::kBlockElements;
  static constexpr BlockPacking kPacking = block_packing<Format>();
  static constexpr size_t kBlockBytes = kPanelOutputs * sizeof(typename Format::Block);
  static constexpr size_t kRestAt = sizeof(typename Format::Block) / 4 * 4 * kPanelOutputs;

  const std::byte* blocks;

  PackedRows(const ProductArgs& a, uint32_t output, uint32_t) : blocks(a.weight + output * a.weight_stride) {}

  template <int kWords>
  void load_words(size_t block, size_t at, I (&words)[kWords]) const {
    for (int w = 0; w < kWords; ++w) words[w] = load_word(block, at + 4 * static_cast<size_t>(w));
  }
  // The words of a block, each read when it is asked for.
  template <int>
  struct Words {
    const PackedRows& rows;
    size_t block;

    Words(const PackedRows& of, size_t number) : rows(of), block(number) {}
    I operator[](int w) const { return rows.load_word(block, kPacking.words_at + 4 * static_cast<size_t>(w)); }
  };
  void load_words(size_t block, size_t then, size_t at, I (&words)[8]) const {
    for (size_t w = 0; w < 4; ++w) {
      words[w] = load_word(block, at + 4 * w);
      words[4 + w] = load_word(then, at + 4 * w);
    }
  }
  I load_word(size_t block, size_t at) const {
    const size_t place = kWordPlace<Format>[(at - kPacking.words_at) / 4];
    const std::byte* word = blocks + block * kBlockBytes + 4 * kPanelOutputs * place;
    if constexpr (kAhead) __builtin_prefetch(word + S::kFetchAhead);
    return S::load_words(word);
  }
  F load_f16(size_t block, size_t at) const {
    if (is_rest(at)) return S::load_f16(blocks + block * kBlockBytes + kRestAt);
    const size_t first = at - kPacking.words_at;
    const I word = load_word(block, at - first % 4);
    return S::low_f16(first % 4 == 0 ? word : S::shift_right(word, 16));
  }
  uint8_t byte(size_t block, size_t at, uint32_t row) const {
    CHECK(is_rest(at) && sizeof(typename Format::Block) % 4 == 1);
    return static_cast<uint8_t>(blocks[block * kBlockBytes + kRestAt + row]);
  }

 private:
  static constexpr bool is_rest(size_t at) {
    return at < kPacking.words_at || at - kPacking.words_at >= sizeof(typename Format::Block) / 4 * 4;
  }
};

template <class S>
struct PanelBlock {
  static constexpr int kVectors = kQuantElements / S::kDotElements;
  typename S::I weights[kVectors];
  typename S::F scales[2];
  typename S::F minima[2];

  void put(int v, typename S::I bytes, int offset) {
    S::store_weights(&weights[v * (4 / S::kDotElements)], bytes, offset);
  }
  static void finish() {}
};

template <class S>
struct Panel {
  using F = typename S::F;
  using I = typename S::I;

  // A word of every lane with this byte four times.
  static I every_byte(uint8_t byte) { return S::splat(static_cast<int32_t>(byte * 0x01010101u)); }
  // Bits [shift, shift + n) of every byte, where mask has the lowest n.
  static I bits(I x, int shift, uint8_t mask) { return S::shift_right(x, shift) & every_byte(mask); }
  static F byte(I x, int b) { return S::to_float(S::shift_right(x, 8 * b) & S::splat(255)); }
  static F signed_byte(I x, int b) { return S::to_float(S::shift_signed(S::shift_left(x, 24 - 8 * b), 24)); }
  static F high_f16(I x) { return S::low_f16(S::shift_right(x, 16)); }
};

}  // namespace sluice::cpu
