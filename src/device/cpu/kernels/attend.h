// Attention over cached pages, and writing them.
//
// Keys of a page lie as [key width][64], so that scores of sixteen positions come from one vector without adding lanes;
// values as [64][padded width]. Tiles of 64 absolute positions are merged in ascending order with a running maximum
// (online softmax, Milakov and Gimelshein 2018): result = result * exp(old - new maximum) + sum_j p_j value_j, j
// ascending. Each query's arithmetic is its own; queries that see the same part of a tile only share its loads.
#pragma once

#include "device/cpu/kernels.h"
#include "device/cpu/kernels/math.h"
#include "graph/program.h"

namespace sluice::cpu {

template <class S>
struct CacheF32 {
  using Element = float;
  static typename S::F load(const Element* from) { return S::load(from); }
  static void store(Element* to, typename S::F x) { S::store(to, x); }
};
template <class S>
struct CacheF16 {
  using Element = uint16_t;
  static typename S::F load(const Element* from) { return S::load_f16(from); }
  static void store(Element* to, typename S::F x) { S::store_f16(to, x); }
};

template <class S, class Cache>
struct Attend {
  using F = typename S::F;
  using Element = typename Cache::Element;
  static constexpr uint32_t kTile = kPagePositions;

  static void append_key(const float* key, std::byte* keys, uint32_t width, uint32_t position) {
    auto* to = reinterpret_cast<Element*>(keys) + position;
    for (uint32_t d = 0; d < width; d += 16) {
      const uint32_t n = width - d < 16 ? width - d : 16;
      Element elements[16];
      Cache::store(elements, S::load(key + d, static_cast<int>(n)));
      for (uint32_t i = 0; i < n; ++i) to[(d + i) * kTile] = elements[i];
    }
  }
  static void append_value(const float* value, std::byte* values, uint32_t width, uint32_t position) {
    Element* to = reinterpret_cast<Element*>(values) + uint64_t{position} * cache_width(width);
    for (uint32_t d = 0; d < width; d += 16)
      Cache::store(to + d, S::load(value + d, static_cast<int>(width - d < 16 ? width - d : 16)));
  }

  static void attend(const AttendArgs& a) {
    Softmax softmax[kMaxQueries];
    const uint32_t width = cache_width(a.value_width);
    for (uint64_t i = 0; i < uint64_t{a.count} * width; ++i) a.scratch[i] = 0.0f;
    uint32_t tile = a.queries[0].first / kTile, last = a.queries[0].last / kTile;
    for (uint32_t i = 1; i < a.count; ++i) {
      if (a.queries[i].first / kTile < tile) tile = a.queries[i].first / kTile;
      if (a.queries[i].last / kTile > last) last = a.queries[i].last / kTile;
    }
    for (; tile <= last; ++tile) add_tile(a, tile, softmax);
    for (uint32_t i = 0; i < a.count; ++i) {
      const float* result = a.scratch + uint64_t{i} * width;
      const F sum = S::splat(softmax[i].sum);
      for (uint32_t d = 0; d < a.value_width; d += 16) {
        const int n = static_cast<int>(a.value_width - d < 16 ? a.value_width - d : 16);
        S::store(a.queries[i].out + d, S::load(result + d) / sum, n);
      }
    }
  }

 private:
  // Of one query, over the tiles so far.
  struct Softmax {
    float largest = -__builtin_inff();
    float sum = 0.0f;
  };
  // Positions of a tile that a query sees: [from, to).
  struct Seen {
    uint32_t from = 0, to = 0;
    bool operator==(const Seen&) const = default;
  };
  static Seen seen(const Query& query, uint32_t tile) {
    const uint32_t begin = tile * kTile;
    const uint32_t from = query.first > begin ? query.first - begin : 0;
    if (query.last < begin || from >= kTile) return {};
    return {from, query.last - begin < kTile ? query.last - begin + 1 : kTile};
  }

  struct Tile {
    const Element* keys;
    const Element* values;
    Seen seen;
  };

  static void add_tile(const AttendArgs& a, uint32_t index, Softmax* softmax) {
    const auto page = static_cast<uint64_t>(a.pages[index - a.first_page]);
    Tile tile{reinterpret_cast<const Element*>(a.keys + page * a.key_page_bytes),
              reinterpret_cast<const Element*>(a.values + page * a.value_page_bytes),
              {}};
    for (uint32_t i = 0; i < a.count;) {
      tile.seen = seen(a.queries[i], index);
      uint32_t alike = 1;
      while (alike < S::kTileQueries && i + alike < a.count && seen(a.queries[i + alike], index) == tile.seen) ++alike;
      const bool together = alike == S::kTileQueries;
      if (tile.seen != Seen{})
        together ? add<S::kTileQueries>(a, tile, i, softmax + i) : add<1>(a, tile, i, softmax + i);
      i += together ? S::kTileQueries : 1;
    }
  }

  // Queries [query, query + X), which see the same part of the tile.
  template <int X>
  static void add(const AttendArgs& a, const Tile& tile, uint32_t query, Softmax* softmax) {
    alignas(64) float p[X][kTile];
    const float* q[X];
    for (int x = 0; x < X; ++x) q[x] = a.queries[query + static_cast<uint32_t>(x)].q;
    for (uint32_t at = 0; at < kTile; at += 16 * S::kTileVectors) score<X>(a, tile.keys + at, q, p, at);
    if (a.queries[query].latent != nullptr) score_latents<X>(a, tile, query, p);
    for (int x = 0; x < X; ++x)
      for (uint32_t j = 0; j < kTile; j += 16) S::store(p[x] + j, shaped(a, S::load(p[x] + j)));
    float correction[X];
    for (int x = 0; x < X; ++x) correction[x] = normalise(p[x], tile.seen, softmax[x]);
    const uint32_t width = cache_width(a.value_width);
    float* results = a.scratch + uint64_t{query} * width;
    uint32_t d = 0;
    for (; d + 16 * S::kTileVectors <= width; d += 16 * S::kTileVectors)
      mix<X, S::kTileVectors>(tile, p, correction, results, width, d);
    for (; d < width; d += 16) mix<X, 1>(tile, p, correction, results, width, d);
  }

  // Products with kTileVectors vectors of positions from `at` on, whose keys begin at `keys`.
  template <int X>
  static void score(const AttendArgs& a, const Element* keys, const float* const (&q)[X], float (&scores)[X][kTile],
                    uint32_t at) {
    constexpr int C = S::kTileVectors;
    F sum[X][C];
    for (int x = 0; x < X; ++x)
      for (int c = 0; c < C; ++c) sum[x][c] = S::splat(0.0f);
    for (uint32_t d = 0; d < a.key_width; ++d) {
      F key[C];
      for (int c = 0; c < C; ++c) key[c] = Cache::load(keys + d * kTile + 16 * c);
      for (int x = 0; x < X; ++x) {
        const F element = S::splat(q[x][d]);
        for (int c = 0; c < C; ++c) sum[x][c] = S::fma(element, key[c], sum[x][c]);
      }
    }
    for (int x = 0; x < X; ++x)
      for (int c = 0; c < C; ++c) S::store(scores[x] + at + 16 * c, sum[x][c]);
  }
  // Adds the products with the latents of the positions seen, which lie as values do.
  template <int X>
  static void score_latents(const AttendArgs& a, const Tile& tile, uint32_t query, float (&scores)[X][kTile]) {
    constexpr uint32_t C = X == 1 ? 4 : 1;  // positions at once, so that sums do not wait for each other
    uint32_t j = tile.seen.from;
    for (; j + C <= tile.seen.to; j += C) score_latents<X, C>(a, tile, query, scores, j);
    for (; j < tile.seen.to; ++j) score_latents<X, 1>(a, tile, query, scores, j);
  }
  template <int X, uint32_t C>
  static void score_latents(const AttendArgs& a, const Tile& tile, uint32_t query, float (&scores)[X][kTile],
                            uint32_t j) {
    const uint32_t width = cache_width(a.value_width);
    F sum[X][C];
    for (int x = 0; x < X; ++x)
      for (uint32_t c = 0; c < C; ++c) sum[x][c] = S::splat(0.0f);
    for (uint32_t d = 0; d < width; d += 16) {
      F latent[C];
      for (uint32_t c = 0; c < C; ++c) latent[c] = Cache::load(tile.values + uint64_t{j + c} * width + d);
      for (int x = 0; x < X; ++x) {
        const F part = S::load(a.queries[query + static_cast<uint32_t>(x)].latent + d);
        for (uint32_t c = 0; c < C; ++c) sum[x][c] = S::fma(part, latent[c], sum[x][c]);
      }
    }
    for (int x = 0; x < X; ++x)
      for (uint32_t c = 0; c < C; ++c) scores[x][j + c] += S::sum(sum[x][c]);
  }
  static F shaped(const AttendArgs& a, F score) {
    const F scaled = score * S::splat(a.scale);
    if (a.softcap == 0.0f) return scaled;
    const F cap = S::splat(a.softcap);
    return cap * Math<S>::tanh(scaled / cap);
  }

  // Turns a query's scores into probabilities relative to the new maximum; returns what earlier results are to be
  // multiplied with.
  static float normalise(float* p, const Seen& seen, Softmax& softmax) {
    for (uint32_t j = 0; j < seen.from; ++j) p[j] = -__builtin_inff();
    for (uint32_t j = seen.to; j < kTile; ++j) p[j] = -__builtin_inff();
    F largest = S::splat(softmax.largest);
    for (uint32_t j = 0; j < kTile; j += 16) largest = S::max(S::load(p + j), largest);
    const float old = softmax.largest;
    softmax.largest = S::largest(largest);
    const F shift = S::splat(softmax.largest);
    F sum = S::splat(0.0f);
    for (uint32_t j = 0; j < kTile; j += 16) {
      const F e = Math<S>::exp(S::load(p + j) - shift);
      S::store(p + j, e);
      sum = sum + e;
    }
    float correction[16];
    S::store(correction, Math<S>::exp(S::splat(old) - shift));
    softmax.sum = softmax.sum * correction[0] + S::sum(sum);
    return correction[0];
  }

  // Elements [d, d + 16 C) of the results.
  template <int X, int C>
  static void mix(const Tile& tile, const float (&p)[X][kTile], const float (&correction)[X], float* results,
                  uint32_t width, uint32_t d) {
    F sum[X][C];
    for (int x = 0; x < X; ++x)
      for (int c = 0; c < C; ++c)
        sum[x][c] = S::load(results + static_cast<uint32_t>(x) * width + d + 16 * c) * S::splat(correction[x]);
    for (uint32_t j = tile.seen.from; j < tile.seen.to; ++j) {
      F value[C];
      for (int c = 0; c < C; ++c) value[c] = Cache::load(tile.values + uint64_t{j} * width + d + 16 * c);
      for (int x = 0; x < X; ++x) {
        const F share = S::splat(p[x][j]);
        for (int c = 0; c < C; ++c) sum[x][c] = S::fma(share, value[c], sum[x][c]);
      }
    }
    for (int x = 0; x < X; ++x)
      for (int c = 0; c < C; ++c) S::store(results + static_cast<uint32_t>(x) * width + d + 16 * c, sum[x][c]);
  }
};

}  // namespace sluice::cpu
