// WebAssembly's SIMD128: a vector is four of its registers. isa/scalar.h explains the members. There is no fused
// multiply-add and no f16, so the bits are those of Scalar. Only kernels_simd128.cpp includes this file.
#pragma once

#include <wasm_simd128.h>

#include <cstddef>
#include <cstdint>

#include "format/half.h"

namespace sluice::cpu {

struct Simd128 {
  static constexpr bool kTiles = false;
  static constexpr size_t kFetchAhead = 0;
  static constexpr bool kAlwaysFetches = false;
  static constexpr bool kPairs = false;
  static constexpr int kTileWeights = 2;
  static constexpr int kTileRows = 1;
  static constexpr int kTileQueries = 4;
  static constexpr int kTileVectors = 1;
  static constexpr int kStateVectors = 4;
  static constexpr int kDotRows = 2;
  static constexpr int kDotPanels = 1;
  static constexpr int kDotElements = 2;
  static constexpr bool kUnsignedWeights = false;
  using Quant = int16_t;

  struct F {
    v128_t v[4];  // lanes 0 to 3, 4 to 7, 8 to 11, 12 to 15
    friend F operator+(F x, F y) { return both(x, y, wasm_f32x4_add); }
    friend F operator-(F x, F y) { return both(x, y, wasm_f32x4_sub); }
    friend F operator*(F x, F y) { return both(x, y, wasm_f32x4_mul); }
    friend F operator/(F x, F y) { return both(x, y, wasm_f32x4_div); }
  };
  struct I {
    v128_t v[4];
    friend I operator+(I x, I y) { return words(x, y, wasm_i32x4_add); }
    friend I operator&(I x, I y) { return words(x, y, wasm_v128_and); }
    friend I operator|(I x, I y) { return words(x, y, wasm_v128_or); }
    friend I operator^(I x, I y) { return words(x, y, wasm_v128_xor); }
  };

  static F splat(float x) {
    const v128_t v = wasm_f32x4_splat(x);
    return {{v, v, v, v}};
  }
  static F load(const void* from) {
    return {{sixteen_bytes(from, 0), sixteen_bytes(from, 16), sixteen_bytes(from, 32), sixteen_bytes(from, 48)}};
  }
  static F load(const void* from, int n) {
    alignas(16) float padded[16] = {};
    __builtin_memcpy(padded, from, sizeof(float) * static_cast<size_t>(n));
    return load(padded);
  }
  static void store(float* to, F x) {
    for (int i = 0; i < 4; ++i) wasm_v128_store(to + size_t{4} * static_cast<size_t>(i), x.v[i]);
  }
  static void store(float* to, F x, int n) {
    alignas(16) float padded[16];
    store(padded, x);
    __builtin_memcpy(to, padded, sizeof(float) * static_cast<size_t>(n));
  }

  static F load_f16(const void* from) {
    F x = upper_halves(from);
    for (v128_t& v : x.v) v = widen_f16(v);
    return x;
  }
  static F load_f16(const void* from, int n) {
    const Halves padded(from, n);
    return load_f16(padded.bits);
  }
  static F load_bf16(const void* from) { return upper_halves(from); }
  static F load_bf16(const void* from, int n) {
    const Halves padded(from, n);
    return load_bf16(padded.bits);
  }
  // Lane by lane, which is slow but rare: a cached element is converted once and read at every later step.
  static void store_f16(uint16_t* to, F x, int n = 16) {
    float lanes[16];
    store(lanes, x);
    for (int i = 0; i < n; ++i) to[i] = f16_from_f32(lanes[i]);
  }
  static F load_i8(const int8_t* from) {
    const v128_t bytes = sixteen_bytes(from, 0);
    const v128_t low = wasm_i16x8_extend_low_i8x16(bytes), high = wasm_i16x8_extend_high_i8x16(bytes);
    return {{wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(low)),
             wasm_f32x4_convert_i32x4(wasm_i32x4_extend_high_i16x8(low)),
             wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(high)),
             wasm_f32x4_convert_i32x4(wasm_i32x4_extend_high_i16x8(high))}};
  }
  static float f16(const void* from) {
    uint16_t bits;
    __builtin_memcpy(&bits, from, sizeof(bits));
    return f32_from_f16(bits);
  }

  static F fma(F x, F y, F z) { return x * y + z; }
  // pmax(a, b) is a < b ? b : a, which returns the first operand if one is NaN; so the operands are swapped.
  static F max(F x, F y) { return both(y, x, wasm_f32x4_pmax); }
  static F min(F x, F y) { return both(y, x, wasm_f32x4_pmin); }
  static F abs(F x) { return each(x, wasm_f32x4_abs); }
  static F copy_sign(F magnitude, F sign) {
    const v128_t sign_bit = wasm_f32x4_splat(-0.0f);
    F x;
    for (int i = 0; i < 4; ++i) x.v[i] = wasm_v128_bitselect(sign.v[i], magnitude.v[i], sign_bit);
    return x;
  }
  static F round(F x) { return each(x, wasm_f32x4_nearest); }
  static F scale_by_power(F x, F n) { return both(x, n, scale_four_by_power); }
  static F without_subnormals(F x) {
    return each(
        x, [](v128_t v) { return wasm_v128_andnot(v, wasm_f32x4_lt(wasm_f32x4_abs(v), wasm_f32x4_splat(0x1p-126f))); });
  }
  static float sum(F x) {
    const v128_t t8[] = {wasm_f32x4_add(x.v[0], x.v[2]), wasm_f32x4_add(x.v[1], x.v[3])};
    const v128_t t4 = wasm_f32x4_add(t8[0], t8[1]);
    const v128_t t2 = wasm_f32x4_add(t4, wasm_i32x4_shuffle(t4, t4, 2, 3, 0, 1));
    return wasm_f32x4_extract_lane(t2, 0) + wasm_f32x4_extract_lane(t2, 1);
  }
  static float largest(F x) {
    const v128_t t8[] = {wasm_f32x4_pmax(x.v[2], x.v[0]), wasm_f32x4_pmax(x.v[3], x.v[1])};
    const v128_t t4 = wasm_f32x4_pmax(t8[1], t8[0]);
    const v128_t t2 = wasm_f32x4_pmax(wasm_i32x4_shuffle(t4, t4, 2, 3, 0, 1), t4);
    return wasm_f32x4_extract_lane(wasm_f32x4_pmax(wasm_i32x4_shuffle(t2, t2, 1, 0, 3, 2), t2), 0);
  }

  static I splat(int32_t x) {
    const v128_t v = wasm_i32x4_splat(x);
    return {{v, v, v, v}};
  }
  static I splat_group(const Quant* group) {
    int32_t bits;
    __builtin_memcpy(&bits, group, sizeof(bits));
    return splat(bits);
  }
  static I load_words(const std::byte* from) { return load_words(from, from + 32); }
  static I load_words(const std::byte* low, const std::byte* high) {
    return {{sixteen_bytes(low, 0), sixteen_bytes(low, 16), sixteen_bytes(high, 0), sixteen_bytes(high, 16)}};
  }
  static I load_words(const std::byte* a, const std::byte* b, const std::byte* c, const std::byte* d) {
    return {{sixteen_bytes(a, 0), sixteen_bytes(b, 0), sixteen_bytes(c, 0), sixteen_bytes(d, 0)}};
  }
  static I shift_left(I x, int n) {
    return words(x, x, [n](v128_t v, v128_t) { return wasm_i32x4_shl(v, static_cast<uint32_t>(n)); });
  }
  static I shift_right(I x, int n) {
    return words(x, x, [n](v128_t v, v128_t) { return wasm_u32x4_shr(v, static_cast<uint32_t>(n)); });
  }
  static I shift_signed(I x, int n) {
    return words(x, x, [n](v128_t v, v128_t) { return wasm_i32x4_shr(v, static_cast<uint32_t>(n)); });
  }
  static I look_up(const int8_t (&table)[16], I x) {
    const v128_t all = sixteen_bytes(table, 0);
    return words(x, x, [all](v128_t v, v128_t) { return wasm_i8x16_swizzle(all, v); });
  }
  static F low_f16(I x) {
    F y;
    for (int i = 0; i < 4; ++i) y.v[i] = widen_f16(wasm_i32x4_shl(x.v[i], 16));
    return y;
  }
  static void store_weights(I* to, I x, int offset) {
    // Views of signed bytes have added 128 by an exclusive or; the compiler drops both.
    if (offset == 128) return store_signed(to, x ^ splat(static_cast<int32_t>(0x80808080)));
    const v128_t offsets = wasm_i16x8_splat(static_cast<int16_t>(offset));
    for (int i = 0; i < 4; ++i) {
      to[0].v[i] = wasm_i16x8_sub(wasm_v128_and(x.v[i], wasm_i16x8_splat(0xff)), offsets);
      to[1].v[i] = wasm_i16x8_sub(wasm_u16x8_shr(x.v[i], 8), offsets);
    }
  }
  // Each half is four squares of four by four. Each square is transposed, and the two off the diagonal are swapped.
  static void transpose8(I (&x)[8]) {
    for (int half = 0; half < 4; half += 2) {
      for (int row = 0; row < 8; row += 4)
        for (int column = half; column < half + 2; ++column)
          transpose4(x[row].v[column], x[row + 1].v[column], x[row + 2].v[column], x[row + 3].v[column]);
      for (int row = 0; row < 4; ++row) {
        const v128_t beside = x[row].v[half + 1];
        x[row].v[half + 1] = x[row + 4].v[half];
        x[row + 4].v[half] = beside;
      }
    }
  }
  static I dot(I accumulator, I weights, I x) {
    for (int i = 0; i < 4; ++i)
      accumulator.v[i] = wasm_i32x4_add(accumulator.v[i], wasm_i32x4_dot_i16x8(weights.v[i], x.v[i]));
    return accumulator;
  }
  static F to_float(I x) {
    F y;
    for (int i = 0; i < 4; ++i) y.v[i] = wasm_f32x4_convert_i32x4(x.v[i]);
    return y;
  }
  static I to_integers(F x) {
    I y;
    for (int i = 0; i < 4; ++i) y.v[i] = truncated(wasm_f32x4_nearest(x.v[i]));
    return y;
  }
  static void store_quants(Quant* to, F x) {
    for (int i = 0; i < 4; i += 2) {
      const v128_t pair = wasm_i16x8_narrow_i32x4(truncated(x.v[i]), truncated(x.v[i + 1]));
      wasm_v128_store(to + 4 * i, wasm_i16x8_shuffle(pair, pair, 0, 2, 1, 3, 4, 6, 5, 7));
    }
  }

 private:
  struct Halves {
    Halves(const void* from, int n) { __builtin_memcpy(bits, from, sizeof(uint16_t) * static_cast<size_t>(n)); }
    uint16_t bits[16] = {};
  };

  template <class Function>
  static F each(F x, const Function& f) {
    return {{f(x.v[0]), f(x.v[1]), f(x.v[2]), f(x.v[3])}};
  }
  template <class Function>
  static F both(F x, F y, const Function& f) {
    return {{f(x.v[0], y.v[0]), f(x.v[1], y.v[1]), f(x.v[2], y.v[2]), f(x.v[3], y.v[3])}};
  }
  template <class Function>
  static I words(I x, I y, const Function& f) {
    return {{f(x.v[0], y.v[0]), f(x.v[1], y.v[1]), f(x.v[2], y.v[2]), f(x.v[3], y.v[3])}};
  }
  static v128_t sixteen_bytes(const void* from, int offset) {
    return wasm_v128_load(static_cast<const char*>(from) + offset);
  }
  static v128_t truncated(v128_t x) { return wasm_i32x4_trunc_sat_f32x4(x); }  // NaN: 0

  // Groups of four signed bytes as store_weights stores them.
  static void store_signed(I* to, I x) {
    for (int i = 0; i < 4; ++i) {
      to[0].v[i] = wasm_i16x8_shr(wasm_i16x8_shl(x.v[i], 8), 8);
      to[1].v[i] = wasm_i16x8_shr(x.v[i], 8);
    }
  }
  // Sixteen halves, each in the upper part of a lane.
  static F upper_halves(const void* from) {
    const v128_t low = sixteen_bytes(from, 0), high = sixteen_bytes(from, 16);
    const v128_t zero = wasm_i16x8_splat(0);
    return {{wasm_i16x8_shuffle(zero, low, 0, 8, 0, 9, 0, 10, 0, 11),
             wasm_i16x8_shuffle(zero, low, 0, 12, 0, 13, 0, 14, 0, 15),
             wasm_i16x8_shuffle(zero, high, 0, 8, 0, 9, 0, 10, 0, 11),
             wasm_i16x8_shuffle(zero, high, 0, 12, 0, 13, 0, 14, 0, 15)}};
  }
  // Four halves, each in the upper part of a lane. An exponent of f16 is 112 less in f32's place; the product adds
  // that, exactly, and makes subnormal numbers normal. Infinities and NaN come out as 2^16 and more, and get their
  // exponent.
  static v128_t widen_f16(v128_t bits) {
    const v128_t moved = wasm_v128_and(wasm_i32x4_shr(bits, 3), wasm_i32x4_splat(static_cast<int32_t>(0x8fffe000)));
    const v128_t value = wasm_f32x4_mul(moved, wasm_f32x4_splat(0x1p112f));
    const v128_t special = wasm_f32x4_ge(wasm_f32x4_abs(value), wasm_f32x4_splat(0x1p16f));
    return wasm_v128_or(value, wasm_v128_and(special, wasm_i32x4_splat(0x7f800000)));
  }
  static v128_t power_of_two(v128_t n) { return wasm_i32x4_shl(wasm_i32x4_add(n, wasm_i32x4_splat(127)), 23); }
  static v128_t scale_four_by_power(v128_t x, v128_t n) {
    const v128_t power = truncated(n), half = wasm_i32x4_shr(power, 1);
    return wasm_f32x4_mul(wasm_f32x4_mul(x, power_of_two(half)), power_of_two(wasm_i32x4_sub(power, half)));
  }
  static void transpose4(v128_t& a, v128_t& b, v128_t& c, v128_t& d) {
    const v128_t ab_low = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), ab_high = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7);
    const v128_t cd_low = wasm_i32x4_shuffle(c, d, 0, 4, 1, 5), cd_high = wasm_i32x4_shuffle(c, d, 2, 6, 3, 7);
    a = wasm_i64x2_shuffle(ab_low, cd_low, 0, 2);
    b = wasm_i64x2_shuffle(ab_low, cd_low, 1, 3);
    c = wasm_i64x2_shuffle(ab_high, cd_high, 0, 2);
    d = wasm_i64x2_shuffle(ab_high, cd_high, 1, 3);
  }
};

}  // namespace sluice::cpu
