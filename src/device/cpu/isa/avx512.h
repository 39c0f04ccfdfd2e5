// AVX-512 (F, BW, DQ, VL), also with VNNI, with VNNI and BF16, or with these and AMX: a vector is one register.
// isa/scalar.h explains the members. With VNNI a lane multiplies four bytes. Each variant belongs to one file, because
// code for one level must never be used for another.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sluice::cpu {

template <bool kVnni, bool kAmx = false, bool kBf16 = kAmx>
struct Avx512 {
  static constexpr bool kTiles = kAmx;  // the members for product_tiles.h are there
  static constexpr size_t kFetchAhead = 4096;
  static constexpr bool kAlwaysFetches = kAmx;
  static constexpr bool kPairs = false;
  static constexpr int kTileWeights = 4;
  static constexpr int kTileRows = 4;
  static constexpr int kTileQueries = 4;
  static constexpr int kTileVectors = 4;
  static constexpr int kStateVectors = 8;
  static constexpr int kDotRows = 4;
  static constexpr int kDotPanels = kVnni ? 2 : 1;
  static constexpr int kDotElements = kVnni ? 4 : 2;
  static constexpr bool kUnsignedWeights = kVnni;
  using Quant = std::conditional_t<kVnni, int8_t, int16_t>;

  struct F {
    __m512 v;
    friend F operator+(F x, F y) { return {_mm512_add_ps(x.v, y.v)}; }
    friend F operator-(F x, F y) { return {_mm512_sub_ps(x.v, y.v)}; }
    friend F operator*(F x, F y) { return {_mm512_mul_ps(x.v, y.v)}; }
    friend F operator/(F x, F y) { return {_mm512_div_ps(x.v, y.v)}; }
  };
  struct I {
    __m512i v;
    friend I operator+(I x, I y) { return {_mm512_add_epi32(x.v, y.v)}; }
    friend I operator&(I x, I y) { return {_mm512_and_si512(x.v, y.v)}; }
    friend I operator|(I x, I y) { return {_mm512_or_si512(x.v, y.v)}; }
    friend I operator^(I x, I y) { return {_mm512_xor_si512(x.v, y.v)}; }
  };

  static F splat(float x) { return {_mm512_set1_ps(x)}; }
  static F load(const void* from) { return {_mm512_loadu_ps(from)}; }
  static F load(const void* from, int n) { return {_mm512_maskz_loadu_ps(first(n), from)}; }
  static void store(float* to, F x) { _mm512_storeu_ps(to, x.v); }
  static void store(float* to, F x, int n) { _mm512_mask_storeu_ps(to, first(n), x.v); }

  static F load_f16(const void* from) { return {_mm512_cvtph_ps(sixteen_halves(from))}; }
  static F load_f16(const void* from, int n) { return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), from))}; }
  static F load_bf16(const void* from) { return widen_bf16(sixteen_halves(from)); }
  static F load_bf16(const void* from, int n) { return widen_bf16(_mm256_maskz_loadu_epi16(first(n), from)); }
  static void store_f16(uint16_t* to, F x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow_f16(x)); }
  static void store_f16(uint16_t* to, F x, int n) { _mm256_mask_storeu_epi16(to, first(n), narrow_f16(x)); }
  static F load_i8(const int8_t* from) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))))};
  }
  static float f16(const void* from) {
    uint16_t bits;
    __builtin_memcpy(&bits, from, sizeof(bits));
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
  }

  static F fma(F x, F y, F z) { return {_mm512_fmadd_ps(x.v, y.v, z.v)}; }
  static F max(F x, F y) { return {_mm512_max_ps(x.v, y.v)}; }
  static F min(F x, F y) { return {_mm512_min_ps(x.v, y.v)}; }
  static F abs(F x) { return {_mm512_andnot_ps(sign_bit(), x.v)}; }
  static F copy_sign(F magnitude, F sign) {
    return {_mm512_or_ps(abs(magnitude).v, _mm512_and_ps(sign_bit(), sign.v))};
  }
  static F round(F x) { return {_mm512_roundscale_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  static F scale_by_power(F x, F n) { return {_mm512_scalef_ps(x.v, n.v)}; }
  static F without_subnormals(F x) {
    return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(abs(x).v, _mm512_set1_ps(0x1p-126f), _CMP_NLT_UQ), x.v)};
  }
  static float sum(F x) {
    const __m256 t8 = _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
    const __m128 t4 = _mm_add_ps(_mm256_castps256_ps128(t8), _mm256_extractf128_ps(t8, 1));
    const __m128 t2 = _mm_add_ps(t4, _mm_movehl_ps(t4, t4));
    return _mm_cvtss_f32(_mm_add_ss(t2, _mm_movehdup_ps(t2)));
  }
  // Lane i: the sum of x[i], by the tree of sum().
  static F sums(const F (&x)[16]) {
    F twos[8], fours[4], eights[2];  // so many sums in a vector
    for (int i = 0; i < 8; ++i) {
      const __m512 a = x[i / 2 + 8 * (i % 2)].v, b = x[i / 2 + 8 * (i % 2) + 4].v;
      twos[i].v = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    }
    for (int i = 0; i < 4; ++i) {
      const __m512 a = twos[2 * i].v, b = twos[2 * i + 1].v;
      fours[i].v = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    }
    for (int i = 0; i < 2; ++i) {
      const __m512d a = _mm512_castps_pd(fours[2 * i].v), b = _mm512_castps_pd(fours[2 * i + 1].v);
      eights[i].v =
          _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    return {_mm512_add_ps(_mm512_shuffle_ps(eights[0].v, eights[1].v, 0x88),
                          _mm512_shuffle_ps(eights[0].v, eights[1].v, 0xdd))};
  }
  static float largest(F x) {
    const __m256 t8 = _mm256_max_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
    const __m128 t4 = _mm_max_ps(_mm256_castps256_ps128(t8), _mm256_extractf128_ps(t8, 1));
    const __m128 t2 = _mm_max_ps(t4, _mm_movehl_ps(t4, t4));
    return _mm_cvtss_f32(_mm_max_ss(t2, _mm_movehdup_ps(t2)));
  }

  static I splat(int32_t x) { return {_mm512_set1_epi32(x)}; }
  static I splat_group(const Quant* group) {
    int32_t bits;
    __builtin_memcpy(&bits, group, sizeof(bits));
    return splat(bits);
  }
  static I load_words(const std::byte* from) { return {_mm512_loadu_si512(from)}; }
  static I load_words(const std::byte* low, const std::byte* high) {
    return {_mm512_inserti64x4(_mm512_castsi256_si512(sixteen_halves(low)), sixteen_halves(high), 1)};
  }
  static I load_words(const std::byte* a, const std::byte* b, const std::byte* c, const std::byte* d) {
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(sixteen_bytes(a)), sixteen_bytes(b), 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(sixteen_bytes(c)), sixteen_bytes(d), 1);
    return {_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)};
  }
  static I shift_left(I x, int n) { return {reinterpret_cast<__m512i>(reinterpret_cast<Unsigned>(x.v) << n)}; }
  static I shift_right(I x, int n) { return {reinterpret_cast<__m512i>(reinterpret_cast<Unsigned>(x.v) >> n)}; }
  static I shift_signed(I x, int n) { return {reinterpret_cast<__m512i>(reinterpret_cast<Signed>(x.v) >> n)}; }
  static I look_up(const int8_t (&table)[16], I x) {
    return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(sixteen_bytes(table)), x.v)};
  }
  static F low_f16(I x) { return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(x.v))}; }
  static void store_weights(I* to, I x, int offset) {
    if constexpr (kVnni) {
      to[0] = x;
    } else {
      const __m512i offsets = _mm512_set1_epi16(static_cast<int16_t>(offset));
      to[0] = {_mm512_sub_epi16(_mm512_and_si512(x.v, _mm512_set1_epi16(0xff)), offsets)};
      to[1] = {_mm512_sub_epi16(_mm512_srli_epi16(x.v, 8), offsets)};
    }
  }
  static void transpose8(I (&x)[8]) {
    __m512i pairs[8], quads[8];
    for (int i = 0; i < 8; i += 2) {
      pairs[i] = _mm512_unpacklo_epi32(x[i].v, x[i + 1].v);
      pairs[i + 1] = _mm512_unpackhi_epi32(x[i].v, x[i + 1].v);
    }
    for (int i = 0; i < 8; i += 4)
      for (int j = 0; j < 2; ++j) {
        quads[i + 2 * j] = _mm512_unpacklo_epi64(pairs[i + j], pairs[i + j + 2]);
        quads[i + 2 * j + 1] = _mm512_unpackhi_epi64(pairs[i + j], pairs[i + j + 2]);
      }
    const __m512i even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13),
                  odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    for (int i = 0; i < 4; ++i) {
      x[i].v = _mm512_permutex2var_epi64(quads[i], even, quads[i + 4]);
      x[i + 4].v = _mm512_permutex2var_epi64(quads[i], odd, quads[i + 4]);
    }
  }
  static I dot(I accumulator, I weights, I x) {
    if constexpr (kVnni)
      return {_mm512_dpbusd_epi32(accumulator.v, weights.v, x.v)};
    else
      return {_mm512_add_epi32(accumulator.v, _mm512_madd_epi16(weights.v, x.v))};
  }
  static F to_float(I x) { return {_mm512_cvtepi32_ps(x.v)}; }
  static I to_integers(F x) { return {_mm512_cvtps_epi32(x.v)}; }
  static void store_quants(Quant* to, F x) {
    const __m512i integers = _mm512_cvtps_epi32(x.v);
    if constexpr (kVnni) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(integers));
    } else {
      const __m256i words = _mm512_cvtepi32_epi16(integers);
      const __m256i turned = _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(words, 0xd8), 0xd8);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), turned);
    }
  }

#if defined(__AVX512BF16__)
  // For product_bf16.h and attend_pairs.h: pairs of bf16.
  struct Pairs {
    __m512bh v;
  };
  static Pairs load_pairs(const void* from) { return {reinterpret_cast<__m512bh>(_mm512_loadu_si512(from))}; }
  static Pairs load_pairs(const void* from, int n) {
    const auto mask = static_cast<__mmask32>((uint64_t{1} << n) - 1);
    return {reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi16(mask, from))};
  }
  static void store_bf16(uint16_t* to, F low, F high) {
    _mm512_storeu_si512(to, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high.v, low.v)));
  }
  static Pairs splat_pair(const uint16_t* pair) {
    int32_t bits;
    __builtin_memcpy(&bits, pair, sizeof(bits));
    return {reinterpret_cast<__m512bh>(_mm512_set1_epi32(bits))};
  }
  static Pairs ones() { return {reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3f80))}; }
  static F dot_pairs(F sum, Pairs x, Pairs y) { return {_mm512_dpbf16_ps(sum.v, x.v, y.v)}; }

  // 2^x to 8e-5 of it, a twentieth of what bf16 rounds away, by the polynomial of degree 3 whose largest relative error
  // over [0, 1) is smallest (found by Remez' algorithm).
  static F power_of_2(F x) {
    const F r = {_mm512_reduce_ps(x.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
    F power = fma(splat(0.0780245227f), r, splat(0.226067155f));
    power = fma(power, r, splat(0.695833541f));
    power = fma(power, r, splat(0.999925219f));
    return {_mm512_scalef_ps(power.v, x.v)};  // by 2^floor(x)
  }
  static float first_lane(F x) { return _mm512_cvtss_f32(x.v); }
#endif

#if defined(__AMX_INT8__)
  struct TileShapes {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
  };
  static_assert(sizeof(TileShapes) == 64);

  // Between begin_tiles() and end_tiles() a thread may multiply tiles: sixteen rows by weights of `vectors` vectors,
  // four integers a lane. The thread belongs to the host program, which may use tiles itself, so its shapes are saved
  // and restored.
  static TileShapes begin_tiles(int vectors) {
    TileShapes before, shapes;
    _tile_storeconfig(&before);
    __asm__ volatile("" ::"r"(&before) : "memory");  // g++ does not know that all of it is written
    for (int tile = 0; tile < 8; ++tile) {
      const bool sums = tile < 4, x = tile == 4 || tile == 5;
      shapes.row_bytes[tile] = static_cast<uint16_t>(x ? 4 * vectors : 64);
      shapes.rows[tile] = static_cast<uint8_t>(sums || x ? 16 : vectors);
    }
    __asm__ volatile("" ::"r"(&shapes) : "memory");  // g++ does not know that all of it is read
    _tile_loadconfig(&shapes);
    return before;
  }
  static void end_tiles(const TileShapes& before) {
    __asm__ volatile("" ::"r"(&before) : "memory");
    _tile_loadconfig(&before);
  }
  // Sums kSums, one of four tiles: the products of row r of x and lane l of the weights, both signed. Rows of x are
  // `stride` bytes apart. g++ pastes the numbers of tiles into text, so they must be literals, and it does not know
  // that loading a tile reads memory.
  template <int kSums>
  static void multiply_tiles(const int8_t* x, uint64_t stride, const I* weights) {
    static_assert(kSums < 4);
    __asm__ volatile("" ::: "memory");
    if constexpr (kSums % 2 == 0) {
      _tile_loadd(4, x, stride);
      _tile_loadd(6, weights, sizeof(I));
    } else {
      _tile_loadd(5, x, stride);
      _tile_loadd(7, weights, sizeof(I));
    }
    if constexpr (kSums == 0) {
      _tile_zero(0);
      _tile_dpbssd(0, 4, 6);
    } else if constexpr (kSums == 1) {
      _tile_zero(1);
      _tile_dpbssd(1, 5, 7);
    } else if constexpr (kSums == 2) {
      _tile_zero(2);
      _tile_dpbssd(2, 4, 6);
    } else {
      _tile_zero(3);
      _tile_dpbssd(3, 5, 7);
    }
  }
  template <int kSums>
  static void store_tile(int32_t* sums) {
    if constexpr (kSums == 0) _tile_stored(0, sums, 64);
    if constexpr (kSums == 1) _tile_stored(1, sums, 64);
    if constexpr (kSums == 2) _tile_stored(2, sums, 64);
    if constexpr (kSums == 3) _tile_stored(3, sums, 64);
    __asm__ volatile("" ::: "memory");
  }
  // Adds to two tiles of sums, [16 rows][16 outputs] each: `steps` tiles of sixteen rows of x, one behind the other in
  // a row, by the tiles of two panels of weights. Needs begin_tiles(16).
  static void add_bf16_tiles(const std::byte* x, uint64_t stride, const I* first, const I* second, uint32_t steps,
                             F* first_sums, F* second_sums) {
    __asm__ volatile("" ::: "memory");
    _tile_loadd(0, first_sums, sizeof(F));
    _tile_loadd(1, second_sums, sizeof(F));
    for (uint32_t step = 0; step < steps; ++step) {
      _tile_loadd(4, x + uint64_t{step} * 64, stride);
      _tile_loadd(6, first + step * 16, sizeof(I));
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, second + step * 16, sizeof(I));
      _tile_dpbf16ps(1, 4, 7);
    }
    _tile_stored(0, first_sums, sizeof(F));
    _tile_stored(1, second_sums, sizeof(F));
    __asm__ volatile("" ::: "memory");
  }
#endif
  static I load_integers(const int32_t* from) { return {_mm512_loadu_si512(from)}; }
  static I subtract_bytes(I x, int y) { return {_mm512_sub_epi8(x.v, _mm512_set1_epi8(static_cast<char>(y)))}; }

 private:
  using Unsigned = uint32_t __attribute__((vector_size(64)));
  using Signed = int32_t __attribute__((vector_size(64)));

  static __mmask16 first(int n) { return static_cast<__mmask16>((1u << n) - 1); }
  static __m512 sign_bit() { return _mm512_set1_ps(-0.0f); }
  static __m256i sixteen_halves(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
  static F widen_bf16(__m256i bits) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }
  static __m256i narrow_f16(F x) { return _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static __m128i sixteen_bytes(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
};

}  // namespace sluice::cpu
