// The vector type of plain C++, for any machine. It also describes the members that every vector type has:
//
//   F   16 floats
//   I   16 words of 32 bits: integers, groups of four bytes, or groups of kDotElements small integers for dot()
//
// Every level has sixteen lanes and adds them by the same tree, so kernels give the same bits on every level with fused
// multiply-add. `n` is the number of elements that exist, 1 to 16; other lanes load as zero and are not stored. Stored
// numbers may have any address. If an operand is NaN, max and min return the second one, as SSE does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/half.h"

namespace sluice::cpu {

struct Scalar {
  static constexpr bool kTiles = false;            // the members for product_tiles.h (isa/avx512.h) are there
  static constexpr size_t kFetchAhead = 0;         // bytes that packed weights are prefetched ahead; 0: never
  static constexpr bool kAlwaysFetches = false;    // else only where the processor gains by it (reads_ahead())
  static constexpr bool kPairs = false;            // the members for pairs of rows in product_8bit.h (isa/neon.h)
  static constexpr int kTileWeights = 4;           // weight rows in a product's tile
  static constexpr int kTileRows = 2;              // activation rows in a product's tile
  static constexpr int kTileQueries = 1;           // queries in attention's tile, rows in that of multiply_add
  static constexpr int kTileVectors = 4;           // vectors in both
  static constexpr int kStateVectors = 4;          // of a state's row that are read at once (DeltaArgs::ahead)
  static constexpr int kDotRows = 4;               // activation rows in a tile of integer products
  static constexpr int kDotPanels = 1;             // panels of weights in it
  static constexpr int kDotElements = 2;           // integers in a lane of dot(); 2: words, 4: bytes
  static constexpr bool kUnsignedWeights = false;  // dot() takes unsigned weights, so store_weights keeps the offset
  using Quant = int16_t;                           // the type of an 8-bit activation in dot()

  // Vectors of the compiler's, which every machine has: a sanitizer checks an operation, not each of its lanes.
  using Floats = float __attribute__((vector_size(64)));
  using Integers = int32_t __attribute__((vector_size(64)));
  using Words = uint32_t __attribute__((vector_size(64)));

  struct F {
    Floats lane;
    F operator+(const F& other) const { return {lane + other.lane}; }
    F operator-(const F& other) const { return {lane - other.lane}; }
    F operator*(const F& other) const { return {lane * other.lane}; }
    F operator/(const F& other) const { return {lane / other.lane}; }
  };
  struct I {
    Integers lane;
    // Without overflow: bits that do not fit are dropped.
    I operator+(const I& other) const {
      return {reinterpret_cast<Integers>(reinterpret_cast<Words>(lane) + reinterpret_cast<Words>(other.lane))};
    }
    I operator&(const I& other) const { return {lane & other.lane}; }
    I operator|(const I& other) const { return {lane | other.lane}; }
    I operator^(const I& other) const { return {lane ^ other.lane}; }
  };

  static F splat(float x) { return {x - Floats{}}; }
  static F load(const void* from) {
    F x;
    __builtin_memcpy(&x, from, sizeof(x));
    return x;
  }
  static F load(const void* from, int n) {
    F x = {};
    __builtin_memcpy(&x, from, sizeof(float) * static_cast<size_t>(n));
    return x;
  }
  static void store(float* to, const F& x) { __builtin_memcpy(to, &x, sizeof(x)); }
  static void store(float* to, const F& x, int n) { __builtin_memcpy(to, &x, sizeof(float) * static_cast<size_t>(n)); }

  static F load_f16(const void* from, int n = 16) {
    return widen(from, n, [](uint16_t bits) { return f32_from_f16(bits); });
  }
  static F load_bf16(const void* from, int n = 16) {
    return widen(from, n, [](uint16_t bits) { return f32_from_bf16(bits); });
  }
  static void store_f16(uint16_t* to, const F& x, int n = 16) {
    for (int i = 0; i < n; ++i) to[i] = f16_from_f32(x.lane[i]);
  }
  static F load_i8(const int8_t* from) {
    return map([&](int i) { return static_cast<float>(from[i]); });
  }
  static float f16(const void* from) {
    uint16_t bits;
    __builtin_memcpy(&bits, from, sizeof(bits));
    return f32_from_f16(bits);
  }

  static F fma(const F& a, const F& b, const F& c) { return a * b + c; }  // one rounding where the machine has it
  static F max(const F& a, const F& b) { return {a.lane > b.lane ? a.lane : b.lane}; }
  static F min(const F& a, const F& b) { return {a.lane < b.lane ? a.lane : b.lane}; }
  static F abs(const F& x) {
    return map([&](int i) { return __builtin_fabsf(x.lane[i]); });
  }
  static F copy_sign(const F& magnitude, const F& sign) {
    return map([&](int i) { return __builtin_copysignf(magnitude.lane[i], sign.lane[i]); });
  }
  // To the nearest integer, ties to even; |x| < 2^22.
  static F round(const F& x) {
    const F big = splat(0x1.8p23f);  // the adder does the rounding
    return (x + big) - big;
  }
  // x 2^n with one rounding, for integers n in [-252, 252].
  static F scale_by_power(const F& x, const F& n) {
    return map([&](int i) {
      const int32_t power = n.lane[i] == n.lane[i] ? static_cast<int32_t>(n.lane[i]) : 0,
                    half = power / 2;  // NaN: in x
      return x.lane[i] * power_of_two(half) * power_of_two(power - half);
    });
  }
  // 0 where x is subnormal; processors compute with such numbers a hundred times more slowly. NaN passes.
  static F without_subnormals(const F& x) {
    return map([&](int i) { return __builtin_fabsf(x.lane[i]) < 0x1p-126f ? 0.0f : x.lane[i]; });
  }
  static float sum(const F& x) {
    F t = x;
    for (int width = 8; width > 0; width /= 2)
      for (int i = 0; i < width; ++i) t.lane[i] += t.lane[i + width];
    return t.lane[0];
  }
  static float largest(const F& x) {
    F t = x;
    for (int width = 8; width > 0; width /= 2)
      for (int i = 0; i < width; ++i) t.lane[i] = t.lane[i] > t.lane[i + width] ? t.lane[i] : t.lane[i + width];
    return t.lane[0];
  }

  static I splat(int32_t x) { return {x | Integers{}}; }
  // Copies one group of small integers to every lane.
  static I splat_group(const Quant* group) {
    int32_t bits;
    __builtin_memcpy(&bits, group, sizeof(bits));
    return splat(bits);
  }
  // Eight words from `low`, then eight from `high`.
  static I load_words(const std::byte* from) { return load_words(from, from + 32); }
  static I load_words(const std::byte* low, const std::byte* high) {
    I x;
    __builtin_memcpy(&x, low, 32);
    __builtin_memcpy(reinterpret_cast<std::byte*>(&x) + 32, high, 32);
    return x;
  }
  // Four words from each address.
  static I load_words(const std::byte* a, const std::byte* b, const std::byte* c, const std::byte* d) {
    const std::byte* const from[] = {a, b, c, d};
    I x;
    for (int i = 0; i < 4; ++i) __builtin_memcpy(reinterpret_cast<std::byte*>(&x) + 16 * i, from[i], 16);
    return x;
  }
  // Bits move within a word; zeros come in, or with `shift_signed` copies of the highest bit.
  static I shift_left(const I& x, int n) { return {reinterpret_cast<Integers>(reinterpret_cast<Words>(x.lane) << n)}; }
  static I shift_right(const I& x, int n) { return {reinterpret_cast<Integers>(reinterpret_cast<Words>(x.lane) >> n)}; }
  static I shift_signed(const I& x, int n) { return {x.lane >> n}; }
  // Replaces every byte, 0 to 15, by that element of the table.
  static I look_up(const int8_t (&table)[16], const I& x) {
    return each([&](int i) {
      uint32_t word = 0;
      for (int b = 0; b < 32; b += 8)
        word |= static_cast<uint32_t>(static_cast<uint8_t>(table[x.lane[i] >> b & 15])) << b;
      return static_cast<int32_t>(word);
    });
  }
  // Decodes the f16 in the lower half of every word.
  static F low_f16(const I& x) {
    return map([&](int i) { return f32_from_f16(static_cast<uint16_t>(x.lane[i] & 0xffff)); });
  }
  // Stores groups of four unsigned bytes as weights for dot(), in 4 / kDotElements vectors. If dot() takes signed
  // weights, `offset` is subtracted.
  static void store_weights(I* to, const I& x, int offset) {
    for (int i = 0; i < 16; ++i) {
      const auto byte = [&](int b) { return (x.lane[i] >> 8 * b & 255) - offset; };
      to[0].lane[i] = pair(byte(0), byte(2));
      to[1].lane[i] = pair(byte(1), byte(3));
    }
  }
  // Lane i of result j is lane j of operand i, in the lower and in the upper eight lanes.
  static void transpose8(I (&x)[8]) {
    for (int half = 0; half < 16; half += 8)
      for (int i = 0; i < 8; ++i)
        for (int j = 0; j < i; ++j) {
          const int32_t t = x[i].lane[half + j];
          x[i].lane[half + j] = x[j].lane[half + i];
          x[j].lane[half + i] = t;
        }
  }
  // accumulator + the sum of the products of each lane's small integers.
  static I dot(const I& accumulator, const I& weights, const I& x) {
    I sum = accumulator;
    for (int i = 0; i < 16; ++i)
      sum.lane[i] += low(weights.lane[i]) * low(x.lane[i]) + high(weights.lane[i]) * high(x.lane[i]);
    return sum;
  }
  static F to_float(const I& x) {
    return map([&](int i) { return static_cast<float>(x.lane[i]); });
  }
  // To the nearest integers, ties to even; |x| < 2^22.
  static I to_integers(const F& x) {
    const F rounded = round(x);
    return each([&](int i) { return static_cast<int32_t>(rounded.lane[i]); });
  }
  // Stores integers in [-127, 127]. If dot() takes words, their order is that of store_weights: of each four the first
  // and third, then the others.
  static void store_quants(Quant* to, const F& x) {
    for (int i = 0; i < 16; ++i) to[i / 4 * 4 + i % 2 * 2 + i / 2 % 2] = static_cast<Quant>(x.lane[i]);
  }

 private:
  template <class Lane>
  static F map(const Lane& lane) {
    F x;
    for (int i = 0; i < 16; ++i) x.lane[i] = lane(i);
    return x;
  }
  template <class Lane>
  static I each(const Lane& lane) {
    I x;
    for (int i = 0; i < 16; ++i) x.lane[i] = lane(i);
    return x;
  }
  template <class Decode>
  static F widen(const void* from, int n, const Decode& decode) {
    uint16_t bits[16] = {};
    __builtin_memcpy(bits, from, sizeof(uint16_t) * static_cast<size_t>(n));
    return map([&](int i) { return decode(bits[i]); });
  }
  static float power_of_two(int32_t n) {
    const uint32_t bits = static_cast<uint32_t>(n + 127) << 23;
    float x;
    __builtin_memcpy(&x, &bits, sizeof(x));
    return x;
  }
  static int32_t pair(int32_t first, int32_t second) {
    return static_cast<int32_t>(static_cast<uint32_t>(second) << 16 | (static_cast<uint32_t>(first) & 0xffff));
  }
  static int32_t low(int32_t x) { return static_cast<int16_t>(x & 0xffff); }
  static int32_t high(int32_t x) { return x >> 16; }
};

}  // namespace sluice::cpu
