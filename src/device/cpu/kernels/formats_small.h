// Views of the formats with blocks of 32: q4_0, q4_1, q5_0, q5_1.
#pragma once

#include "device/cpu/kernels/bytes.h"
#include "format/q4_0.h"
#include "format/q4_1.h"
#include "format/q5_0.h"
#include "format/q5_1.h"

namespace sluice::cpu {

// Part 0 is the low halves of the sixteen bytes at `q`, part 1 the high halves.
template <class S>
typename Bytes<S>::V halves(const std::byte* q, size_t part) {
  return Bytes<S>::bits(Bytes<S>::load(q), 4 * static_cast<uint32_t>(part), 15);
}

template <class S, class Format>
struct BlockOf32View {
  static constexpr bool kDecoded = false, kWhole = true;
  static_assert(Format::kBlockElements == 32);
  using Block = typename Format::Block;
  static const std::byte* block(const std::byte* row, size_t k) { return row + k / 32 * sizeof(Block); }
  static size_t part(size_t k) { return k / 16 % 2; }
};

template <class S>
struct Q4_0View : BlockOf32View<S, Q4_0> {
  using Base = BlockOf32View<S, Q4_0>;
  static typename S::F load16(const std::byte* row, size_t k) {
    const std::byte* block = Base::block(row, k);
    const auto q = halves<S>(block + offsetof(Q4_0::Block, q), Base::part(k)) - Bytes<S>::splat(8);
    return Bytes<S>::to_float(q) * S::splat(S::f16(block));
  }
};

template <class S>
struct Q4_1View : BlockOf32View<S, Q4_1> {
  using Base = BlockOf32View<S, Q4_1>;
  static typename S::F load16(const std::byte* row, size_t k) {
    const std::byte* block = Base::block(row, k);
    const auto q = halves<S>(block + offsetof(Q4_1::Block, q), Base::part(k));
    const auto m = S::splat(S::f16(block + offsetof(Q4_1::Block, m)));
    return Bytes<S>::to_float(q) * S::splat(S::f16(block)) + m;
  }
};

template <class S>
struct Q5_0View : BlockOf32View<S, Q5_0> {
  using Base = BlockOf32View<S, Q5_0>;
  static typename S::F load16(const std::byte* row, size_t k) {
    const std::byte* block = Base::block(row, k);
    const auto low = halves<S>(block + offsetof(Q5_0::Block, q), Base::part(k));
    const auto fifth = Bytes<S>::spread(block + offsetof(Q5_0::Block, high) + 2 * Base::part(k), 16);
    return Bytes<S>::to_float((low | fifth) - Bytes<S>::splat(16)) * S::splat(S::f16(block));
  }
};

template <class S>
struct Q5_1View : BlockOf32View<S, Q5_1> {
  using Base = BlockOf32View<S, Q5_1>;
  static typename S::F load16(const std::byte* row, size_t k) {
    const std::byte* block = Base::block(row, k);
    const auto low = halves<S>(block + offsetof(Q5_1::Block, q), Base::part(k));
    const auto fifth = Bytes<S>::spread(block + offsetof(Q5_1::Block, high) + 2 * Base::part(k), 16);
    const auto m = S::splat(S::f16(block + offsetof(Q5_1::Block, m)));
    return Bytes<S>::to_float(low | fifth) * S::splat(S::f16(block)) + m;
  }
};

}  // namespace sluice::cpu
