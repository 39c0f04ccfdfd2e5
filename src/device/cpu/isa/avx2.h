// AVX2 with FMA and F16C, also with VNNI for such registers (AVX-VNNI): a vector is two registers. isa/scalar.h
// explains the members. With VNNI a lane multiplies four bytes. Each variant belongs to one file, because code for one
// level must never be used for another.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sluice::cpu {

template <bool kVnni>
struct Avx2 {
  static constexpr bool kTiles = false;
  static constexpr size_t kFetchAhead = 4096;
  static constexpr bool kAlwaysFetches = false;
  static constexpr bool kPairs = false;
  static constexpr int kTileWeights = 3;
  static constexpr int kTileRows = 2;
  static constexpr int kTileQueries = 2;
  static constexpr int kTileVectors = 2;
  static constexpr int kStateVectors = 4;
  static constexpr int kDotRows = 4;
  static constexpr int kDotPanels = 1;
  static constexpr int kDotElements = kVnni ? 4 : 2;
  static constexpr bool kUnsignedWeights = kVnni;
  using Quant = std::conditional_t<kVnni, int8_t, int16_t>;

  struct F {
    __m256 a, b;  // lanes 0 to 7, 8 to 15
    friend F operator+(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
    friend F operator-(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
    friend F operator*(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
    friend F operator/(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  };
  struct I {
    __m256i a, b;
    friend I operator+(I x, I y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
    friend I operator&(I x, I y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
    friend I operator|(I x, I y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
    friend I operator^(I x, I y) { return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)}; }
  };

  static F splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static F load(const void* from) {
    const auto* floats = static_cast<const char*>(from);
    return {_mm256_loadu_ps(reinterpret_cast<const float*>(floats)),
            _mm256_loadu_ps(reinterpret_cast<const float*>(floats + 32))};
  }
  static F load(const void* from, int n) {
    alignas(32) float padded[16] = {};
    __builtin_memcpy(padded, from, sizeof(float) * static_cast<size_t>(n));
    return load(padded);
  }
  static void store(float* to, F x) {
    _mm256_storeu_ps(to, x.a);
    _mm256_storeu_ps(to + 8, x.b);
  }
  static void store(float* to, F x, int n) {
    alignas(32) float padded[16];
    store(padded, x);
    __builtin_memcpy(to, padded, sizeof(float) * static_cast<size_t>(n));
  }

  static F load_f16(const void* from) {
    return {_mm256_cvtph_ps(eight_halves(from, 0)), _mm256_cvtph_ps(eight_halves(from, 16))};
  }
  static F load_f16(const void* from, int n) {
    const Halves padded(from, n);
    return load_f16(padded.bits);
  }
  static F load_bf16(const void* from) {
    return {widen_bf16(eight_halves(from, 0)), widen_bf16(eight_halves(from, 16))};
  }
  static F load_bf16(const void* from, int n) {
    const Halves padded(from, n);
    return load_bf16(padded.bits);
  }
  static void store_f16(uint16_t* to, F x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
  }
  static void store_f16(uint16_t* to, F x, int n) {
    uint16_t padded[16];
    store_f16(padded, x);
    __builtin_memcpy(to, padded, sizeof(uint16_t) * static_cast<size_t>(n));
  }
  static F load_i8(const int8_t* from) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes)))};
  }
  static float f16(const void* from) {
    uint16_t bits;
    __builtin_memcpy(&bits, from, sizeof(bits));
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
  }

  static F fma(F x, F y, F z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
  static F max(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  static F min(F x, F y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
  static F abs(F x) { return {_mm256_andnot_ps(sign_bit(), x.a), _mm256_andnot_ps(sign_bit(), x.b)}; }
  static F copy_sign(F magnitude, F sign) {
    const F x = abs(magnitude);
    return {_mm256_or_ps(x.a, _mm256_and_ps(sign_bit(), sign.a)), _mm256_or_ps(x.b, _mm256_and_ps(sign_bit(), sign.b))};
  }
  static F round(F x) { return {round(x.a), round(x.b)}; }
  static F scale_by_power(F x, F n) { return {scale_by_power(x.a, n.a), scale_by_power(x.b, n.b)}; }
  static F without_subnormals(F x) { return {without_subnormals(x.a), without_subnormals(x.b)}; }
  static float sum(F x) {
    const __m256 t8 = _mm256_add_ps(x.a, x.b);
    const __m128 t4 = _mm_add_ps(_mm256_castps256_ps128(t8), _mm256_extractf128_ps(t8, 1));
    const __m128 t2 = _mm_add_ps(t4, _mm_movehl_ps(t4, t4));
    return _mm_cvtss_f32(_mm_add_ss(t2, _mm_movehdup_ps(t2)));
  }
  // Lane i: the sum of x[i], by the tree of sum().
  static F sums(const F (&x)[16]) { return {eight_sums(x), eight_sums(x + 8)}; }
  static float largest(F x) {
    const __m256 t8 = _mm256_max_ps(x.a, x.b);
    const __m128 t4 = _mm_max_ps(_mm256_castps256_ps128(t8), _mm256_extractf128_ps(t8, 1));
    const __m128 t2 = _mm_max_ps(t4, _mm_movehl_ps(t4, t4));
    return _mm_cvtss_f32(_mm_max_ss(t2, _mm_movehdup_ps(t2)));
  }

  static I splat(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  static I splat_group(const Quant* group) {
    int32_t bits;
    __builtin_memcpy(&bits, group, sizeof(bits));
    return splat(bits);
  }
  static I load_words(const std::byte* from) { return load_words(from, from + 32); }
  static I load_words(const std::byte* low, const std::byte* high) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(low)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(high))};
  }
  static I load_words(const std::byte* a, const std::byte* b, const std::byte* c, const std::byte* d) {
    return {_mm256_inserti128_si256(_mm256_castsi128_si256(eight_halves(a, 0)), eight_halves(b, 0), 1),
            _mm256_inserti128_si256(_mm256_castsi128_si256(eight_halves(c, 0)), eight_halves(d, 0), 1)};
  }
  static I shift_left(I x, int n) { return {shift_left(x.a, n), shift_left(x.b, n)}; }
  static I shift_right(I x, int n) { return {shift_right(x.a, n), shift_right(x.b, n)}; }
  static I shift_signed(I x, int n) { return {shift_signed(x.a, n), shift_signed(x.b, n)}; }
  static I look_up(const int8_t (&table)[16], I x) {
    const __m256i both = _mm256_broadcastsi128_si256(eight_halves(table, 0));
    return {_mm256_shuffle_epi8(both, x.a), _mm256_shuffle_epi8(both, x.b)};
  }
  static F low_f16(I x) { return {low_f16(x.a), low_f16(x.b)}; }
  static void store_weights(I* to, I x, int offset) {
    if constexpr (kVnni) {
      to[0] = x;
      return;
    }
    const __m256i low = _mm256_set1_epi16(0xff), offsets = _mm256_set1_epi16(static_cast<int16_t>(offset));
    to[0] = {_mm256_sub_epi16(_mm256_and_si256(x.a, low), offsets),
             _mm256_sub_epi16(_mm256_and_si256(x.b, low), offsets)};
    to[1] = {_mm256_sub_epi16(_mm256_srli_epi16(x.a, 8), offsets),
             _mm256_sub_epi16(_mm256_srli_epi16(x.b, 8), offsets)};
  }
  static void transpose8(I (&x)[8]) {
    __m256i half[8];
    for (int i = 0; i < 8; ++i) half[i] = x[i].a;
    transpose8(half);
    for (int i = 0; i < 8; ++i) {
      x[i].a = half[i];
      half[i] = x[i].b;
    }
    transpose8(half);
    for (int i = 0; i < 8; ++i) x[i].b = half[i];
  }
  static I dot(I accumulator, I weights, I x) {
#if defined(__AVXVNNI__)
    if constexpr (kVnni)
      return {_mm256_dpbusd_avx_epi32(accumulator.a, weights.a, x.a),
              _mm256_dpbusd_avx_epi32(accumulator.b, weights.b, x.b)};
#endif
    return {_mm256_add_epi32(accumulator.a, _mm256_madd_epi16(weights.a, x.a)),
            _mm256_add_epi32(accumulator.b, _mm256_madd_epi16(weights.b, x.b))};
  }
  static F to_float(I x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
  static I to_integers(F x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
  static void store_quants(Quant* to, F x) {
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b));
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);  // packs by 128 bits
    if constexpr (kVnni) {
      const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
      return;
    }
    const __m256i turned = _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(ordered, 0xd8), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), turned);
  }

 private:
  static __m256 eight_sums(const F* x) {
    __m256 twos[4], fours[2];  // so many sums in a vector
    for (int i = 0; i < 4; ++i) {
      const __m256 a = _mm256_add_ps(x[i].a, x[i].b), b = _mm256_add_ps(x[i + 4].a, x[i + 4].b);
      twos[i] = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    }
    for (int i = 0; i < 2; ++i) {
      const __m256d a = _mm256_castps_pd(twos[2 * i]), b = _mm256_castps_pd(twos[2 * i + 1]);
      fours[i] = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
    }
    return _mm256_add_ps(_mm256_shuffle_ps(fours[0], fours[1], 0x88), _mm256_shuffle_ps(fours[0], fours[1], 0xdd));
  }

  // The compiler's vectors: a shift by a number that only inlining makes a constant.
  using Unsigned = uint32_t __attribute__((vector_size(32)));
  using Signed = int32_t __attribute__((vector_size(32)));

  struct Halves {
    Halves(const void* from, int n) { __builtin_memcpy(bits, from, sizeof(uint16_t) * static_cast<size_t>(n)); }
    uint16_t bits[16] = {};
  };

  static __m256 sign_bit() { return _mm256_set1_ps(-0.0f); }
  static __m256 round(__m256 x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static __m128i eight_halves(const void* from, int offset) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(static_cast<const char*>(from) + offset));
  }
  static __m256 widen_bf16(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static __m256i shift_left(__m256i x, int n) { return reinterpret_cast<__m256i>(reinterpret_cast<Unsigned>(x) << n); }
  static __m256i shift_right(__m256i x, int n) { return reinterpret_cast<__m256i>(reinterpret_cast<Unsigned>(x) >> n); }
  static __m256i shift_signed(__m256i x, int n) { return reinterpret_cast<__m256i>(reinterpret_cast<Signed>(x) >> n); }
  static __m256 low_f16(__m256i x) {
    const __m256i low = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(words));
  }
  static __m256 power_of_two(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }
  static __m256 scale_by_power(__m256 x, __m256 n) {
    const __m256i power = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(power, 1);
    return _mm256_mul_ps(_mm256_mul_ps(x, power_of_two(half)), power_of_two(_mm256_sub_epi32(power, half)));
  }
  static __m256 without_subnormals(__m256 x) {
    const __m256 size = _mm256_andnot_ps(sign_bit(), x);
    return _mm256_and_ps(_mm256_cmp_ps(size, _mm256_set1_ps(0x1p-126f), _CMP_NLT_UQ), x);
  }
  static void transpose8(__m256i (&x)[8]) {
    __m256i pairs[8], quads[8];
    for (int i = 0; i < 8; i += 2) {
      pairs[i] = _mm256_unpacklo_epi32(x[i], x[i + 1]);
      pairs[i + 1] = _mm256_unpackhi_epi32(x[i], x[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
      for (int j = 0; j < 2; ++j) {
        quads[i + 2 * j] = _mm256_unpacklo_epi64(pairs[i + j], pairs[i + j + 2]);
        quads[i + 2 * j + 1] = _mm256_unpackhi_epi64(pairs[i + j], pairs[i + j + 2]);
      }
    for (int i = 0; i < 4; ++i) {
      x[i] = _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x20);
      x[i + 4] = _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x31);
    }
  }
};

}  // namespace sluice::cpu
