// Integers of few bits with a factor and an offset for each group, as in MLX files (format/unsigned_bits.h).
#pragma once

#include "device/cpu/kernels.h"
#include "device/cpu/kernels/bytes.h"

namespace sluice::cpu {

// Unpacks sixteen integers of kBits bits. Eight integers are a number of kBits bytes. The number's halves move apart to
// 32 bits each, then their halves to 16 bits, and then theirs to 8.
template <class S, uint32_t kBits>
struct UnsignedView {
  using B = Bytes<S>;
  using Longs = typename B::Longs;

  static uint64_t eight(const std::byte* from) {
    uint64_t bits = 0;
    __builtin_memcpy(&bits, from, kBits);
    return bits;
  }
  // Splits the number in every 2 room bits: its upper half moves to the upper room bits. `even` has one bit in every 2
  // room.
  static Longs apart(Longs x, uint32_t room, uint64_t even) {
    const uint32_t held = room * kBits / 8;
    const uint64_t low = even * ((uint64_t{1} << held) - 1);
    return (x & (Longs{} + low)) | (x << (room - held) & (Longs{} + (low << room)));
  }
  static typename S::F load16(const std::byte* row, size_t k) {
    const std::byte* from = row + k / 8 * kBits;
    const Longs x = {eight(from), eight(from + kBits)};
    if constexpr (kBits == 8) {  // to_float takes signed numbers
      return B::to_float(reinterpret_cast<typename B::V>(x) ^ B::splat(128)) + S::splat(128.0f);
    } else {
      const Longs in_32 = apart(x, 32, 1), in_16 = apart(in_32, 16, 0x0000000100000001u);
      return B::to_float(reinterpret_cast<typename B::V>(apart(in_16, 8, 0x0001000100010001u)));
    }
  }
};

// Decodes rows whose groups are multiples of 16. Multiplying by the factor and adding the offset round separately, so
// the bits are those of decode_weight_row.
template <class S>
struct Affine {
  using F = typename S::F;
  static constexpr uint32_t kGroupsAtOnce = 64;

  static void decode(const AffineRows& rows, const std::byte* elements, uint32_t row, uint32_t columns, float* out) {
    switch (rows.elements) {
      case Format::u2: return decode<UnsignedView<S, 2>>(rows, elements, row, columns, out);
      case Format::u3: return decode<UnsignedView<S, 3>>(rows, elements, row, columns, out);
      case Format::u4: return decode<UnsignedView<S, 4>>(rows, elements, row, columns, out);
      case Format::u5: return decode<UnsignedView<S, 5>>(rows, elements, row, columns, out);
      case Format::u6: return decode<UnsignedView<S, 6>>(rows, elements, row, columns, out);
      default: return decode<UnsignedView<S, 8>>(rows, elements, row, columns, out);
    }
  }

 private:
  template <class View>
  static void decode(const AffineRows& rows, const std::byte* elements, uint32_t row, uint32_t columns, float* out) {
    const std::byte* factor_row = rows.factors + row * rows.factor_stride;
    const std::byte* offset_row = rows.offsets + row * rows.offset_stride;
    const uint32_t groups = columns / rows.group;
    float factors[kGroupsAtOnce], offsets[kGroupsAtOnce];
    for (uint32_t first = 0; first < groups; first += kGroupsAtOnce) {
      const uint32_t count = groups - first < kGroupsAtOnce ? groups - first : kGroupsAtOnce;
      decode_row(rows.factor_format, factor_row + row_bytes(rows.factor_format, first), factors, count);
      decode_row(rows.offset_format, offset_row + row_bytes(rows.offset_format, first), offsets, count);
      for (uint32_t group = 0; group < count; ++group) {
        const F factor = S::splat(factors[group]), offset = S::splat(offsets[group]);
        const size_t begin = size_t{first + group} * rows.group, end = begin + rows.group;
        for (size_t k = begin; k < end; k += 16) S::store(out + k, View::load16(elements, k) * factor + offset);
      }
    }
  }
};

}  // namespace sluice::cpu
