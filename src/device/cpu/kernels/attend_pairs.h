// Attention of rows that are not cached, those of a tower, by pairs of bf16: queries, keys, values and probabilities
// are rounded to bf16, to nearest even, and multiplied in pairs with sums in f32.
//
// A tile has keys as [pairs of elements][64][2] and values as [32 pairs of positions][padded width][2]. So a vector of
// pairs gives the scores of sixteen positions, or sixteen elements of the result, without adding lanes. Tiles are added
// in ascending order with a running maximum (online softmax, Milakov and Gimelshein 2018):
//   result = result * 2^(old maximum - new maximum) + sum_j p_j value_j, pairs of j ascending
// with p_j = 2^(log2(e) s_j - maximum), and the sum of the rounded p_j likewise. Positions that a query does not see
// have p_j = 0. Queries in one call share loads, never arithmetic.
#pragma once

#include "device/cpu/kernels.h"
#include "device/cpu/kernels/math.h"
#include "graph/program.h"

namespace sluice::cpu {

template <class S>
struct AttendPairs {
  using F = typename S::F;
  using Pairs = typename S::Pairs;

  static void lay_out(const TileRows& rows) {
    lay_out_keys(rows);
    lay_out_values(rows);
  }

  static void attend(const AttendArgs& a) {
    State states[kMaxQueries];
    const uint32_t width = cache_width(a.value_width);
    float* scratch = a.scratch;
    uint32_t last = 0;
    for (uint32_t i = 0; i < a.count; ++i) {
      states[i].query = reinterpret_cast<uint16_t*>(scratch);
      states[i].result = scratch + vectors(a.key_width) * 16;
      scratch = states[i].result + width;
      round_query(a.queries[i].q, a.key_width, states[i].query);
      for (uint32_t d = 0; d < width; d += 16) S::store(states[i].result + d, S::splat(0.0f));
      if (a.queries[i].last > last) last = a.queries[i].last;
    }
    for (uint32_t tile = 0; tile <= last / kTile; ++tile)
      for (uint32_t i = 0; i < a.count;) i += add_some<S::kTileQueries>(a, tile, i, states + i);
    for (uint32_t i = 0; i < a.count; ++i) {
      const F weights = S::splat(S::sum(S::load(states[i].sums)));
      for (uint32_t d = 0; d < a.value_width; d += 16) {
        const int n = static_cast<int>(a.value_width - d < 16 ? a.value_width - d : 16);
        S::store(a.queries[i].out + d, S::load(states[i].result + d) / weights, n);
      }
    }
  }

 private:
  static constexpr uint32_t kTile = kPagePositions;
  static constexpr int kKeyVectors = kTile / 16;
  static constexpr uint32_t kMostVectors = 5;  // of a result that are summed together: heads of 72 have as many
  // Less than every score. It is finite, so that the difference of two is a number.
  static constexpr float kUnseen = -1e30f;

  // What is known of a query.
  struct State {
    uint16_t* query = nullptr;
    float* result = nullptr;
    alignas(64) float sums[16] = {};  // of its probabilities, by lanes
    float largest = kUnseen;
  };

  static uint32_t vectors(uint32_t elements) { return (elements + 31) / 32; }

  static void round_query(const float* q, uint32_t width, uint16_t* to) {
    for (uint32_t d = 0; d < width; d += 32) store_some(to + d, q + d, width - d);
  }
  // Rounds up to 32 elements; zeros follow.
  static void store_some(uint16_t* to, const float* from, uint32_t n) {
    const auto low = static_cast<int>(n < 16 ? n : 16), high = static_cast<int>(n < 16 ? 0 : n < 32 ? n - 16 : 16);
    S::store_bf16(to, S::load(from, low), S::load(from + low, high));
  }

  static void lay_out_keys(const TileRows& rows) {
    alignas(64) uint32_t pairs[16];
    for (uint32_t j = 0; j < kTile; ++j)
      for (uint32_t d = 0; d < rows.key_width; d += 32) {
        const uint32_t n = rows.key_width - d < 32 ? rows.key_width - d : 32;
        if (j < rows.count)
          store_some(reinterpret_cast<uint16_t*>(pairs), rows.keys + j * rows.key_stride + d, n);
        else
          S::store_bf16(reinterpret_cast<uint16_t*>(pairs), S::splat(0.0f), S::splat(0.0f));
        for (uint32_t i = 0; 2 * i < n; ++i)
          __builtin_memcpy(rows.key_tile + (uint64_t{d / 2 + i} * kTile + j) * 4, &pairs[i], 4);
      }
  }

  static void lay_out_values(const TileRows& rows) {
    const uint32_t width = cache_width(rows.value_width);
    auto* to = reinterpret_cast<uint16_t*>(rows.value_tile);
    for (uint32_t j = 0; j < kTile; j += 2)
      for (uint32_t d = 0; d < width; d += 16) {
        const auto n = static_cast<int>(rows.value_width - d < 16 ? rows.value_width - d : 16);
        const auto value = [&](uint32_t row) {
          return row < rows.count ? S::load(rows.values + row * rows.value_stride + d, n) : S::splat(0.0f);
        };
        alignas(64) uint16_t both[32];
        S::store_bf16(both, value(j), value(j + 1));
        for (uint32_t i = 0; i < 16; ++i) {
          to[j * width + 2 * (d + i)] = both[i];
          to[j * width + 2 * (d + i) + 1] = both[16 + i];
        }
      }
  }

  // Adds a tile to X queries, or to half as many if fewer are left, and says to how many.
  template <int X>
  static uint32_t add_some(const AttendArgs& a, uint32_t tile, uint32_t query, State* states) {
    if constexpr (X > 1) {
      if (a.count - query < X) return add_some<X / 2>(a, tile, query, states);
    }
    add<X>(a, tile, a.queries + query, states);
    return X;
  }

  template <int X>
  static void add(const AttendArgs& a, uint32_t tile, const Query* queries, State* states) {
    const auto page = static_cast<uint64_t>(a.pages[tile - a.first_page]);
    F scores[X][kKeyVectors];
    score<X>(a, a.keys + page * a.key_page_bytes, states, scores);
    alignas(64) uint16_t shares[X][kTile];
    float correction[X];
    const uint32_t begin = tile * kTile;
    for (int x = 0; x < X; ++x) {
      const uint32_t seen = queries[x].last < begin ? 0 : queries[x].last - begin + 1;
      correction[x] = normalise(a, scores[x], seen < kTile ? seen : kTile, states[x], shares[x]);
    }
    const std::byte* const values = a.values + page * a.value_page_bytes;
    const uint32_t width = cache_width(a.value_width);
    for (uint32_t d = 0, left = width / 16; left > 0;) {
      const uint32_t some = left <= kMostVectors ? left : kMostVectors - 1;
      mix_some<X, kMostVectors>(some, values + uint64_t{d} * 4, width, shares, correction, states, d);
      left -= some;
      d += 16 * some;
    }
  }

  template <int X>
  static void score(const AttendArgs& a, const std::byte* keys, const State* states, F (&sums)[X][kKeyVectors]) {
    for (int x = 0; x < X; ++x)
      for (int c = 0; c < kKeyVectors; ++c) sums[x][c] = S::splat(0.0f);
    for (uint32_t d = 0; d < a.key_width; d += 2, keys += kTile * 4) {
      Pairs key[kKeyVectors];
      for (int c = 0; c < kKeyVectors; ++c) key[c] = S::load_pairs(keys + 64 * c);
      for (int x = 0; x < X; ++x) {
        const Pairs pair = S::splat_pair(states[x].query + d);
        for (int c = 0; c < kKeyVectors; ++c) sums[x][c] = S::dot_pairs(sums[x][c], key[c], pair);
      }
    }
  }

  static F shaped(const AttendArgs& a, F score) {
    constexpr float kLog2e = 1.4426950409f;
    if (a.softcap == 0.0f) return score * S::splat(a.scale * kLog2e);
    const F cap = S::splat(a.softcap);
    return S::splat(a.softcap * kLog2e) * Math<S>::tanh(score * S::splat(a.scale) / cap);
  }

  // Turns the scores of a query into rounded probabilities relative to the new maximum. Returns the factor for earlier
  // results.
  static float normalise(const AttendArgs& a, F (&scores)[kKeyVectors], uint32_t seen, State& state,
                         uint16_t (&shares)[kTile]) {
    for (F& score : scores) score = shaped(a, score);
    if (seen < kTile) hide(scores, seen);
    F largest = S::splat(state.largest);
    for (const F& score : scores) largest = S::max(score, largest);
    const float old = state.largest;
    state.largest = S::largest(largest);
    const F shift = S::splat(state.largest), correction = S::power_of_2(S::splat(old) - shift);
    F sum = S::load(state.sums) * correction;
    for (int c = 0; c < kKeyVectors; c += 2) {
      S::store_bf16(shares + 16 * c, S::power_of_2(scores[c] - shift), S::power_of_2(scores[c + 1] - shift));
      sum = S::dot_pairs(sum, S::load_pairs(shares + 16 * c), S::ones());
    }
    S::store(state.sums, sum);
    return S::first_lane(correction);
  }
  static void hide(F (&scores)[kKeyVectors], uint32_t seen) {
    float all[kTile];
    for (int c = 0; c < kKeyVectors; ++c) S::store(all + 16 * c, scores[c]);
    for (uint32_t j = seen; j < kTile; ++j) all[j] = kUnseen;
    for (int c = 0; c < kKeyVectors; ++c) scores[c] = S::load(all + 16 * c);
  }

  // Adds a tile to `some` vectors of the results, C or fewer.
  template <int X, int C>
  static void mix_some(uint32_t some, const std::byte* values, uint32_t width, const uint16_t (&shares)[X][kTile],
                       const float (&correction)[X], State* states, uint32_t d) {
    if constexpr (C > 1) {
      if (some < C) return mix_some<X, C - 1>(some, values, width, shares, correction, states, d);
    }
    F sums[X][C];
    for (int x = 0; x < X; ++x)
      for (int c = 0; c < C; ++c) sums[x][c] = S::load(states[x].result + d + 16 * c) * S::splat(correction[x]);
    for (uint32_t j = 0; j < kTile; j += 2, values += uint64_t{width} * 4) {
      Pairs value[C];
      for (int c = 0; c < C; ++c) value[c] = S::load_pairs(values + 64 * c);
      for (int x = 0; x < X; ++x) {
        const Pairs pair = S::splat_pair(shares[x] + j);
        for (int c = 0; c < C; ++c) sums[x][c] = S::dot_pairs(sums[x][c], value[c], pair);
      }
    }
    for (int x = 0; x < X; ++x)
      for (int c = 0; c < C; ++c) S::store(states[x].result + d + 16 * c, sums[x][c]);
  }
};

}  // namespace sluice::cpu
