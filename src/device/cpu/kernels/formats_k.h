// Views of the formats with blocks of 256: q2_k to q6_k. The formats' headers have the layouts. Views read sixteen
// elements at a time; part p of a block is elements [16 p, 16 p + 16).
#pragma once

#include "device/cpu/kernels/bytes.h"
#include "format/q2_k.h"
#include "format/q3_k.h"
#include "format/q4_k.h"
#include "format/q5_k.h"
#include "format/q6_k.h"

namespace sluice::cpu {

template <class S, class Format>
struct BlockOf256View {
  static constexpr bool kDecoded = false, kWhole = true;
  static_assert(Format::kBlockElements == 256);
  using Block = typename Format::Block;
  static const std::byte* block(const std::byte* row, size_t k) { return row + k / 256 * sizeof(Block); }
  static uint32_t part(size_t k) { return static_cast<uint32_t>(k / 16 % 16); }
  static typename S::F times(const std::byte* f16, int factor) {
    return S::splat(S::f16(f16) * static_cast<float>(factor));
  }
};

template <class S>
struct Q2_KView : BlockOf256View<S, Q2_K> {
  using Base = BlockOf256View<S, Q2_K>;
  static typename S::F load16(const std::byte* row, size_t k) {
    const std::byte* block = Base::block(row, k);
    const uint32_t p = Base::part(k);
    const std::byte* q = block + offsetof(Q2_K::Block, q) + p / 8 * 32 + p % 2 * 16;
    const int scales = static_cast<int>(block[offsetof(Q2_K::Block, scales) + p]);
    return Bytes<S>::to_float(Bytes<S>::bits(Bytes<S>::load(q), p % 8 / 2 * 2, 3)) *
               Base::times(block + offsetof(Q2_K::Block, d), scales & 15) -
           Base::times(block + offsetof(Q2_K::Block, dmin), scales >> 4);
  }
};

template <class S>
struct Q3_KView : BlockOf256View<S, Q3_K> {
  using Base = BlockOf256View<S, Q3_K>;
  static typename S::F load16(const std::byte* row, size_t k) {
    const std::byte* block = Base::block(row, k);
    const uint32_t p = Base::part(k);
    const auto low = Bytes<S>::load(block + offsetof(Q3_K::Block, q) + p / 8 * 32 + p % 2 * 16);
    const auto high = Bytes<S>::load(block + offsetof(Q3_K::Block, high) + p % 2 * 16);
    const auto q = Bytes<S>::bits(low, p % 8 / 2 * 2, 3) | (Bytes<S>::bits(high, p / 2, 1) << 2);
    return Bytes<S>::to_float(q - Bytes<S>::splat(4)) *
           Base::times(block + offsetof(Q3_K::Block, d), scale(block + offsetof(Q3_K::Block, scales), p));
  }

 private:
  static int scale(const std::byte* scales, uint32_t p) {
    const int low = static_cast<int>(scales[p % 8]) >> p / 8 * 4 & 15;
    const int high = static_cast<int>(scales[8 + p % 4]) >> p / 4 * 2 & 3;
    return (low | high << 4) - 32;
  }
};

// Scale and minimum of 32 elements, of q4_k and q5_k (format/k_scales.h).
template <class S, class Format>
struct KScaledView : BlockOf256View<S, Format> {
  using Base = BlockOf256View<S, Format>;
  using Block = typename Format::Block;

 protected:
  static typename S::F scaled(const std::byte* block, uint32_t p, typename Bytes<S>::V q) {
    const std::byte* scales = block + offsetof(Block, scales);
    const uint32_t s = p / 2;
    const auto byte = [&](uint32_t i) { return static_cast<int>(scales[i]); };
    const int scale = s < 4 ? byte(s) & 63 : (byte(s + 4) & 15) | byte(s - 4) >> 6 << 4;
    const int minimum = s < 4 ? byte(s + 4) & 63 : byte(s + 4) >> 4 | byte(s) >> 6 << 4;
    return Bytes<S>::to_float(q) * Base::times(block + offsetof(Block, d), scale) -
           Base::times(block + offsetof(Block, dmin), minimum);
  }
  static typename Bytes<S>::V halves(const std::byte* block, uint32_t p) {
    const std::byte* q = block + offsetof(Block, q) + p / 4 * 32 + p % 2 * 16;
    return Bytes<S>::bits(Bytes<S>::load(q), p % 4 / 2 * 4, 15);
  }
};

template <class S>
struct Q4_KView : KScaledView<S, Q4_K> {
  using Base = KScaledView<S, Q4_K>;
  static typename S::F load16(const std::byte* row, size_t k) {
    const std::byte* block = Base::block(row, k);
    const uint32_t p = Base::part(k);
    return Base::scaled(block, p, Base::halves(block, p));
  }
};

template <class S>
struct Q5_KView : KScaledView<S, Q5_K> {
  using Base = KScaledView<S, Q5_K>;
  static typename S::F load16(const std::byte* row, size_t k) {
    const std::byte* block = Base::block(row, k);
    const uint32_t p = Base::part(k);
    const auto high = Bytes<S>::load(block + offsetof(Q5_K::Block, high) + p % 2 * 16);
    return Base::scaled(block, p, Base::halves(block, p) | (Bytes<S>::bits(high, p / 2, 1) << 4));
  }
};

template <class S>
struct Q6_KView : BlockOf256View<S, Q6_K> {
  using Base = BlockOf256View<S, Q6_K>;
  static typename S::F load16(const std::byte* row, size_t k) {
    const std::byte* block = Base::block(row, k);
    const uint32_t p = Base::part(k), r = p % 8 / 2;
    const auto low = Bytes<S>::load(block + offsetof(Q6_K::Block, low) + p / 8 * 64 + p % 4 * 16);
    const auto high = Bytes<S>::load(block + offsetof(Q6_K::Block, high) + p / 8 * 32 + p % 2 * 16);
    const auto q = Bytes<S>::bits(low, r / 2 * 4, 15) | (Bytes<S>::bits(high, 2 * r, 3) << 4);
    const auto scale = static_cast<int8_t>(block[offsetof(Q6_K::Block, scales) + p]);
    return Bytes<S>::to_float(q - Bytes<S>::splat(32)) * Base::times(block + offsetof(Q6_K::Block, d), scale);
  }
};

}  // namespace sluice::cpu
