// Arm's NEON with the dot product of bytes (Armv8.2 DotProd), with or without the products of matrices of bytes (I8MM):
// a vector is four registers. isa/scalar.h explains the members. The processor converts f16. Each variant belongs to
// one file, because code for one level must never be used for another.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace sluice::cpu {

template <bool kI8mm>
struct Neon {
  static constexpr bool kTiles = false;
  static constexpr size_t kFetchAhead = 0;
  static constexpr bool kAlwaysFetches = false;
  static constexpr bool kPairs = kI8mm;
  static constexpr int kTileWeights = 2;
  static constexpr int kTileRows = 2;
  static constexpr int kTileQueries = 2;
  static constexpr int kTileVectors = 2;
  static constexpr int kStateVectors = 4;
  static constexpr int kDotRows = 4;
  static constexpr int kDotPanels = 1;
  static constexpr int kDotElements = 4;
  static constexpr bool kUnsignedWeights = false;
  using Quant = int8_t;

  struct F {
    float32x4_t v[4];  // lanes 0 to 3, 4 to 7, 8 to 11, 12 to 15
    F operator+(F y) const { return both(*this, y, std::plus<>()); }
    F operator-(F y) const { return both(*this, y, std::minus<>()); }
    F operator*(F y) const { return both(*this, y, std::multiplies<>()); }
    F operator/(F y) const { return both(*this, y, std::divides<>()); }
  };
  struct I {
    int32x4_t v[4];
    I operator+(I y) const {
      return both(*this, y, [](auto a, auto b) { return vaddq_s32(a, b); });
    }
    I operator&(I y) const { return both(*this, y, std::bit_and<>()); }
    I operator|(I y) const { return both(*this, y, std::bit_or<>()); }
    I operator^(I y) const { return both(*this, y, std::bit_xor<>()); }
  };

  static F splat(float x) {
    const float32x4_t v = vdupq_n_f32(x);
    return {{v, v, v, v}};
  }
  static F load(const void* from) {
    const auto* floats = static_cast<const float*>(from);
    return {{vld1q_f32(floats), vld1q_f32(floats + 4), vld1q_f32(floats + 8), vld1q_f32(floats + 12)}};
  }
  static F load(const void* from, int n) {
    alignas(16) float padded[16] = {};
    __builtin_memcpy(padded, from, sizeof(float) * static_cast<size_t>(n));
    return load(padded);
  }
  static void store(float* to, F x) {
    for (int i = 0; i < 4; ++i) vst1q_f32(to + size_t{4} * static_cast<size_t>(i), x.v[i]);
  }
  static void store(float* to, F x, int n) {
    alignas(16) float padded[16];
    store(padded, x);
    __builtin_memcpy(to, padded, sizeof(float) * static_cast<size_t>(n));
  }

  static F load_f16(const void* from) {
    const float16x8_t low = vreinterpretq_f16_u16(eight_halves(from, 0));
    const float16x8_t high = vreinterpretq_f16_u16(eight_halves(from, 16));
    return {{vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low), vcvt_f32_f16(vget_low_f16(high)),
             vcvt_high_f32_f16(high)}};
  }
  static F load_f16(const void* from, int n) {
    const Halves padded(from, n);
    return load_f16(padded.bits);
  }
  static F load_bf16(const void* from) {
    const uint16x8_t low = eight_halves(from, 0), high = eight_halves(from, 16), zero = vdupq_n_u16(0);
    return {{vreinterpretq_f32_u16(vzip1q_u16(zero, low)), vreinterpretq_f32_u16(vzip2q_u16(zero, low)),
             vreinterpretq_f32_u16(vzip1q_u16(zero, high)), vreinterpretq_f32_u16(vzip2q_u16(zero, high))}};
  }
  static F load_bf16(const void* from, int n) {
    const Halves padded(from, n);
    return load_bf16(padded.bits);
  }
  static void store_f16(uint16_t* to, F x) {
    for (int i = 0; i < 4; i += 2) {
      const float16x8_t pair = vcvt_high_f16_f32(vcvt_f16_f32(x.v[i]), x.v[i + 1]);
      vst1q_u16(to + 4 * i, vreinterpretq_u16_f16(pair));
    }
  }
  static void store_f16(uint16_t* to, F x, int n) {
    uint16_t padded[16];
    store_f16(padded, x);
    __builtin_memcpy(to, padded, sizeof(uint16_t) * static_cast<size_t>(n));
  }
  static F load_i8(const int8_t* from) {
    const int8x16_t bytes = vld1q_s8(from);
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
    return to_float(
        {{vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)}});
  }
  static float f16(const void* from) {
    uint16_t bits;
    __builtin_memcpy(&bits, from, sizeof(bits));
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(bits))), 0);
  }

  static F fma(F x, F y, F z) {
    F sum;
    for (int i = 0; i < 4; ++i) sum.v[i] = vfmaq_f32(z.v[i], x.v[i], y.v[i]);
    return sum;
  }
  static F max(F x, F y) { return both(x, y, max_four); }
  static F min(F x, F y) {
    return both(x, y, [](auto a, auto b) { return vbslq_f32(vcltq_f32(a, b), a, b); });
  }
  static F abs(F x) {
    return each(x, [](auto v) { return vabsq_f32(v); });
  }
  static F copy_sign(F magnitude, F sign) {
    return both(magnitude, sign, [](auto m, auto s) { return vbslq_f32(vdupq_n_u32(0x80000000u), s, m); });
  }
  static F round(F x) {
    return each(x, [](auto v) { return vrndnq_f32(v); });
  }
  static F scale_by_power(F x, F n) { return both(x, n, scale_four_by_power); }
  static F without_subnormals(F x) {
    return each(x, [](auto v) { return vbslq_f32(vcaltq_f32(v, vdupq_n_f32(0x1p-126f)), vdupq_n_f32(0.0f), v); });
  }
  static float sum(F x) {
    const float32x4_t t4 = vaddq_f32(vaddq_f32(x.v[0], x.v[2]), vaddq_f32(x.v[1], x.v[3]));
    const float32x2_t t2 = vadd_f32(vget_low_f32(t4), vget_high_f32(t4));
    return vget_lane_f32(t2, 0) + vget_lane_f32(t2, 1);
  }
  static float largest(F x) {
    const float32x4_t t4 = max_four(max_four(x.v[0], x.v[2]), max_four(x.v[1], x.v[3]));
    const float32x4_t t2 = max_four(t4, vextq_f32(t4, t4, 2));
    return vgetq_lane_f32(max_four(t2, vextq_f32(t2, t2, 1)), 0);
  }

  static I splat(int32_t x) {
    const int32x4_t v = vdupq_n_s32(x);
    return {{v, v, v, v}};
  }
  static I splat_group(const Quant* group) {
    int32_t bits;
    __builtin_memcpy(&bits, group, sizeof(bits));
    return splat(bits);
  }
  static I load_words(const std::byte* from) { return load_words(from, from + 32); }
  static I load_words(const std::byte* low, const std::byte* high) {
    return {{four_words(low), four_words(low + 16), four_words(high), four_words(high + 16)}};
  }
  static I load_words(const std::byte* a, const std::byte* b, const std::byte* c, const std::byte* d) {
    return {{four_words(a), four_words(b), four_words(c), four_words(d)}};
  }
  static I shift_left(I x, int n) {
    return each(x, [n](auto v) { return reinterpret_cast<int32x4_t>(reinterpret_cast<Unsigned>(v) << n); });
  }
  static I shift_right(I x, int n) {
    return each(x, [n](auto v) { return reinterpret_cast<int32x4_t>(reinterpret_cast<Unsigned>(v) >> n); });
  }
  static I shift_signed(I x, int n) {
    return each(x, [n](auto v) { return reinterpret_cast<int32x4_t>(reinterpret_cast<Signed>(v) >> n); });
  }
  static I look_up(const int8_t (&table)[16], I x) {
    const int8x16_t all = vld1q_s8(table);
    return each(x, [all](auto v) { return vreinterpretq_s32_s8(vqtbl1q_s8(all, vreinterpretq_u8_s32(v))); });
  }
  static F low_f16(I x) {
    F y;
    for (int i = 0; i < 4; ++i) y.v[i] = vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(vreinterpretq_u32_s32(x.v[i]))));
    return y;
  }
  static void store_weights(I* to, I x, int offset) {
    const int8x16_t offsets = vdupq_n_s8(static_cast<int8_t>(offset));  // 128 as -128: bytes wrap
    *to = each(x, [offsets](auto v) { return vreinterpretq_s32_s8(vsubq_s8(vreinterpretq_s8_s32(v), offsets)); });
  }
  // Each half is four squares of four by four. Each square is transposed, and the two off the diagonal are swapped.
  static void transpose8(I (&x)[8]) {
    for (int half = 0; half < 4; half += 2) {
      for (int row = 0; row < 8; row += 4)
        for (int column = half; column < half + 2; ++column)
          transpose4(x[row].v[column], x[row + 1].v[column], x[row + 2].v[column], x[row + 3].v[column]);
      for (int row = 0; row < 4; ++row) {
        const int32x4_t beside = x[row].v[half + 1];
        x[row].v[half + 1] = x[row + 4].v[half];
        x[row + 4].v[half] = beside;
      }
    }
  }
  static I dot(I accumulator, I weights, I x) {
    for (int i = 0; i < 4; ++i)
      accumulator.v[i] = vdotq_s32(accumulator.v[i], vreinterpretq_s8_s32(weights.v[i]), vreinterpretq_s8_s32(x.v[i]));
    return accumulator;
  }

  // Two vectors of four integers a weight become two of eight a weight: of each register two weights.
  static void pair_weights(I* weights) {
    for (int i = 0; i < 4; ++i) {
      const int32x4_t low = vzip1q_s32(weights[0].v[i], weights[1].v[i]);
      weights[1].v[i] = vzip2q_s32(weights[0].v[i], weights[1].v[i]);
      weights[0].v[i] = low;
    }
  }
  // sums + the products of those weights and eight integers of two rows. A register has one weight's products with both
  // rows, then the next weight's.
  static void dot_pairs(I (&sums)[2], const I* weights, const Quant* first, const Quant* second) {
    const int8x16_t rows = vcombine_s8(vld1_s8(first), vld1_s8(second));
    for (int w = 0; w < 2; ++w)
      for (int i = 0; i < 4; ++i) sums[w].v[i] = vmmlaq_s32(sums[w].v[i], vreinterpretq_s8_s32(weights[w].v[i]), rows);
  }
  // The first row's sums, then the second's.
  static void part_pairs(I (&sums)[2]) {
    for (int i = 0; i < 4; ++i) {
      const int32x4_t first = vuzp1q_s32(sums[0].v[i], sums[1].v[i]);
      sums[1].v[i] = vuzp2q_s32(sums[0].v[i], sums[1].v[i]);
      sums[0].v[i] = first;
    }
  }

  static F to_float(I x) {
    F y;
    for (int i = 0; i < 4; ++i) y.v[i] = vcvtq_f32_s32(x.v[i]);
    return y;
  }
  static I to_integers(F x) {
    I y;
    for (int i = 0; i < 4; ++i) y.v[i] = vcvtnq_s32_f32(x.v[i]);
    return y;
  }
  static void store_quants(Quant* to, F x) {
    int16x4_t words[4];
    for (int i = 0; i < 4; ++i) words[i] = vmovn_s32(vcvtq_s32_f32(x.v[i]));
    vst1_s8(to, vmovn_s16(vcombine_s16(words[0], words[1])));
    vst1_s8(to + 8, vmovn_s16(vcombine_s16(words[2], words[3])));
  }

 private:
  // The compiler's vectors: a shift by a number that only inlining makes a constant.
  using Unsigned = uint32_t __attribute__((vector_size(16)));
  using Signed = int32_t __attribute__((vector_size(16)));

  struct Halves {
    Halves(const void* from, int n) { __builtin_memcpy(bits, from, sizeof(uint16_t) * static_cast<size_t>(n)); }
    uint16_t bits[16] = {};
  };

  template <class Vector, class Function>
  static Vector each(Vector x, const Function& f) {
    return {{f(x.v[0]), f(x.v[1]), f(x.v[2]), f(x.v[3])}};
  }
  template <class Vector, class Function>
  static Vector both(Vector x, Vector y, const Function& f) {
    return {{f(x.v[0], y.v[0]), f(x.v[1], y.v[1]), f(x.v[2], y.v[2]), f(x.v[3], y.v[3])}};
  }
  static uint16x8_t eight_halves(const void* from, size_t offset) {
    return vreinterpretq_u16_u8(vld1q_u8(static_cast<const uint8_t*>(from) + offset));
  }
  static int32x4_t four_words(const std::byte* from) {
    return vreinterpretq_s32_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(from)));
  }
  static float32x4_t max_four(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  static float32x4_t power_of_two(int32x4_t n) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
  }
  static float32x4_t scale_four_by_power(float32x4_t x, float32x4_t n) {
    const int32x4_t power = vcvtq_s32_f32(n), half = vshrq_n_s32(power, 1);  // NaN: 0
    return vmulq_f32(vmulq_f32(x, power_of_two(half)), power_of_two(vsubq_s32(power, half)));
  }
  static void transpose4(int32x4_t& a, int32x4_t& b, int32x4_t& c, int32x4_t& d) {
    const int64x2_t ab_low = vreinterpretq_s64_s32(vzip1q_s32(a, b)), ab_high = vreinterpretq_s64_s32(vzip2q_s32(a, b));
    const int64x2_t cd_low = vreinterpretq_s64_s32(vzip1q_s32(c, d)), cd_high = vreinterpretq_s64_s32(vzip2q_s32(c, d));
    a = vreinterpretq_s32_s64(vzip1q_s64(ab_low, cd_low));
    b = vreinterpretq_s32_s64(vzip2q_s64(ab_low, cd_low));
    c = vreinterpretq_s32_s64(vzip1q_s64(ab_high, cd_high));
    d = vreinterpretq_s32_s64(vzip2q_s64(ab_high, cd_high));
  }
};

}  // namespace sluice::cpu
