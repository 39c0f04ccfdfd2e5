// Attention over cached pages, and writing to them.
//
// A page has keys as [key width][64] and values as [64][padded width]. A vector of keys gives the scores of sixteen
// positions without adding lanes. Within a part of kPartPositions, tiles of 64 absolute positions are added in
// ascending order with a running maximum (online softmax, Milakov and Gimelshein 2018):
//   result = result * exp(old maximum - new maximum) + sum_j p_j value_j, j ascending
// Parts are merged by the same formula. Queries in one call share loads of positions that all of them see, never
// arithmetic.
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
// Stores lane by lane, which is slow but rare: an element is written once and read at every later step.
template <class S>
struct CacheBf16 {
  using Element = uint16_t;
  static typename S::F load(const Element* from) { return S::load_bf16(from); }
  static void store(Element* to, typename S::F x) {
    float lanes[16];
    uint32_t bits[16];
    S::store(lanes, x);
    __builtin_memcpy(bits, lanes, sizeof(bits));
    for (int i = 0; i < 16; ++i) {
      const bool nan = (bits[i] & 0x7fffffffu) > 0x7f800000u;  // rounding could hide one
      to[i] = static_cast<Element>(nan ? bits[i] >> 16 | 0x40 : (bits[i] + 0x7fff + (bits[i] >> 16 & 1)) >> 16);
    }
  }
};

template <class S, class Cache>
struct Attend {
  using F = typename S::F;
  using Element = typename Cache::Element;
  static constexpr uint32_t kTile = kPagePositions;
  static constexpr uint32_t kPartTiles = kPartPositions / kTile;

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
    uint32_t first = a.queries[0].first / kPartPositions, last = a.queries[0].last / kPartPositions;
    for (uint32_t i = 1; i < a.count; ++i) {
      if (a.queries[i].first / kPartPositions < first) first = a.queries[i].first / kPartPositions;
      if (a.queries[i].last / kPartPositions > last) last = a.queries[i].last / kPartPositions;
    }
    sum_part(a, first, ~0u);
    AttendArgs next = a;
    next.scratch = partial(a, a.count);
    for (uint32_t part = first + 1; part <= last; ++part) {
      sum_part(next, part, ~0u);
      for (uint32_t i = 0; i < a.count; ++i) {
        const uint32_t begin = a.queries[i].first / kPartPositions;
        if (begin == part)
          __builtin_memcpy(partial(a, i), partial(next, i), sizeof(float) * partial_floats(a.value_width));
        if (begin < part && part <= a.queries[i].last / kPartPositions)
          merge(partial(a, i), partial(next, i), a.value_width);
      }
    }
    for (uint32_t i = 0; i < a.count; ++i) finish(partial(a, i), a.queries[i].out, a.value_width);
  }

  static void attend_part(const AttendArgs& a, uint32_t part) { sum_part(a, part, (part + 1) * kPartTiles); }
  static void merge(float* sum, const float* part, uint32_t value_width) {
    const uint32_t width = cache_width(value_width);
    const float largest = part[width] > sum[width] ? part[width] : sum[width];
    const F before = Math<S>::exp(S::splat(sum[width] - largest)), now = Math<S>::exp(S::splat(part[width] - largest));
    for (uint32_t d = 0; d < width; d += 16)
      S::store(sum + d, S::fma(now, S::load(part + d), S::load(sum + d) * before));
    float lanes[16];
    S::store(lanes, S::fma(now, S::splat(part[width + 1]), S::splat(sum[width + 1]) * before));
    sum[width] = largest;
    sum[width + 1] = lanes[0];
  }

  static void finish(const float* sum, float* out, uint32_t value_width) {
    const F weights = S::splat(sum[cache_width(value_width) + 1]);
    for (uint32_t d = 0; d < value_width; d += 16) {
      const int n = static_cast<int>(value_width - d < 16 ? value_width - d : 16);
      S::store(out + d, S::load(sum + d) / weights, n);
    }
  }

 private:
  // The running maximum and sum of one query.
  struct Softmax {
    float largest = -__builtin_inff();
    float sum = 0.0f;
  };

  // Sums the tiles of a part. Tiles from `end` on are not even prefetched, because other calls read them.
  static void sum_part(const AttendArgs& a, uint32_t part, uint32_t end) {
    Softmax softmax[kMaxQueries];
    const uint32_t width = cache_width(a.value_width);
    uint32_t last = a.queries[0].last / kTile;
    for (uint32_t i = 0; i < a.count; ++i) {
      for (uint32_t d = 0; d < width; d += 16) S::store(partial(a, i) + d, S::splat(0.0f));
      if (a.queries[i].last / kTile > last) last = a.queries[i].last / kTile;
    }
    if (end > last) end = last + 1;
    for (uint32_t tile = part * kPartTiles; tile < (part + 1) * kPartTiles && tile < end; ++tile)
      add_tile(a, tile, tile + 1 < end, softmax);
    for (uint32_t i = 0; i < a.count; ++i) {
      partial(a, i)[width] = softmax[i].largest;
      partial(a, i)[width + 1] = softmax[i].sum;
    }
  }

  // Positions of a tile that a query sees: [from, to).
  struct Seen {
    uint32_t from = 0, to = 0;
  };
  static Seen seen(const Query& query, uint32_t tile) {
    const uint32_t begin = tile * kTile;
    const uint32_t from = query.first > begin ? query.first - begin : 0;
    if (query.last < begin || from >= kTile) return {};
    return {from, query.last - begin < kTile ? query.last - begin + 1 : kTile};
  }

  // Prefetches a run of memory during other work, some lines at each step.
  struct Ahead {
    const char* at = nullptr;
    uint64_t lines = 0;
    uint64_t each = 0;  // lines a step
    void step() {
      for (uint64_t i = 0; i < each && lines > 0; ++i, --lines, at += 64) __builtin_prefetch(at, 0, 2);
    }
  };
  static Ahead ahead(const void* from, uint64_t bytes, uint64_t steps) {
    const uint64_t lines = bytes / 64;
    return {static_cast<const char*>(from), lines, (lines + steps - 1) / steps};
  }

  struct Tile {
    const Element* keys;
    const Element* values;
    const Element* next_keys;  // null: no tile follows
    bool fetched = false;      // earlier queries have fetched it
  };

  // The partial sum of one query.
  static float* partial(const AttendArgs& a, uint32_t query) {
    return a.scratch + uint64_t{query} * partial_floats(a.value_width);
  }

  static void add_tile(const AttendArgs& a, uint32_t index, bool more, Softmax* softmax) {
    Seen of_query[kMaxQueries];
    uint32_t any = 0;
    for (uint32_t i = 0; i < a.count; ++i) any |= (of_query[i] = seen(a.queries[i], index)).to;
    if (any == 0) return;  // the page may be gone
    const auto page_of = [&](uint32_t tile) { return static_cast<uint64_t>(a.pages[tile - a.first_page]); };
    const auto keys_of = [&](uint32_t tile) {
      return reinterpret_cast<const Element*>(a.keys + page_of(tile) * a.key_page_bytes);
    };
    Tile tile{keys_of(index), reinterpret_cast<const Element*>(a.values + page_of(index) * a.value_page_bytes),
              more ? keys_of(index + 1) : nullptr};
    for (uint32_t i = 0; i < a.count;) {
      uint32_t together = 0;
      while (i + together < a.count && of_query[i + together].to != 0) ++together;
      if (together == 0) ++i;
      while (together > 0) {
        const uint32_t taken = add_some<S::kTileQueries>(a, tile, i, together, of_query + i, softmax + i);
        tile.fetched = true;
        i += taken;
        together -= taken;
      }
    }
  }

  // Adds the tile to the next X of `count` queries, or to half as many if fewer are left.
  template <int X>
  static uint32_t add_some(const AttendArgs& a, const Tile& tile, uint32_t query, uint32_t count, const Seen* of_query,
                           Softmax* softmax) {
    if constexpr (X > 1) {
      if (count < X) return add_some<X / 2>(a, tile, query, count, of_query, softmax);
    }
    add<X>(a, tile, query, of_query, softmax);
    return X;
  }

  // The vectors that X queries compute together.
  template <int X>
  static constexpr int kVectors = S::kTileQueries * S::kTileVectors / X < 4 ? S::kTileQueries * S::kTileVectors / X : 4;

  // Adds the tile to queries [query, query + X).
  template <int X>
  static void add(const AttendArgs& a, const Tile& tile, uint32_t query, const Seen* of_query, Softmax* softmax) {
    alignas(64) float p[X][kTile];
    const float* q[X];
    Seen by_all{0, kTile}, by_any{kTile, 0};
    for (int x = 0; x < X; ++x) {
      q[x] = a.queries[query + static_cast<uint32_t>(x)].q;
      by_all = {larger(by_all.from, of_query[x].from), smaller(by_all.to, of_query[x].to)};
      by_any = {smaller(by_any.from, of_query[x].from), larger(by_any.to, of_query[x].to)};
    }
    if (by_all.from > by_all.to) by_all = {kTile, kTile};
    const uint32_t width = cache_width(a.value_width);
    Ahead values;
    if (!tile.fetched)
      values = ahead(tile.values, kTile * width * sizeof(Element), a.key_width * (kTile / 16 / kVectors<X>));
    for (uint32_t at = 0; at < kTile; at += 16 * kVectors<X>) score<X>(a, tile.keys + at, values, q, p, at);
    if (a.queries[query].latent != nullptr) score_latents<X>(a, tile, query, by_any, p);
    float correction[X];
    for (int x = 0; x < X; ++x) {
      for (uint32_t j = 0; j < kTile; j += 16) S::store(p[x] + j, shaped(a, S::load(p[x] + j)));
      correction[x] = normalise(p[x], of_query[x], softmax[x]);
    }
    Mixed<X> m{.p = p, .of_query = of_query, .by_all = by_all, .correction = correction, .width = width};
    if (!tile.fetched && tile.next_keys != nullptr)
      m.keys =
          ahead(tile.next_keys, kTile * a.key_width * sizeof(Element), uint64_t{width} / 16 / kVectors<X> * kTile + 1);
    for (int x = 0; x < X; ++x) m.results[x] = partial(a, query + static_cast<uint32_t>(x));
    uint32_t d = 0;
    for (; d + 16 * kVectors<X> <= width; d += 16 * kVectors<X>) mix<X, kVectors<X>>(tile, m, d);
    for (; d < width; d += 16) mix<X, 1>(tile, m, d);
  }
  static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }
  static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

  // Computes the scores of some vectors of positions from `at` on, whose keys begin at `keys`.
  template <int X>
  static void score(const AttendArgs& a, const Element* keys, Ahead& values, const float* const (&q)[X],
                    float (&scores)[X][kTile], uint32_t at) {
    constexpr int C = kVectors<X>;
    F sum[X][C];
    for (int x = 0; x < X; ++x)
      for (int c = 0; c < C; ++c) sum[x][c] = S::splat(0.0f);
    for (uint32_t d = 0; d < a.key_width; ++d) {
      values.step();
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
  // Adds to scores the products with latents of positions `range`, which are laid out like values. It computes several
  // positions at once, so that sums do not wait for each other.
  template <int X>
  static void score_latents(const AttendArgs& a, const Tile& tile, uint32_t query, const Seen& range,
                            float (&scores)[X][kTile]) {
    constexpr uint32_t C = kVectors<X>;
    uint32_t j = range.from;
    for (; j + C <= range.to; j += C) score_latents<X, C>(a, tile, query, scores, j);
    for (; j < range.to; ++j) score_latents<X, 1>(a, tile, query, scores, j);
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

  // Turns a query's scores into probabilities relative to the new maximum, without subnormal ones: their products would
  // take a hundred times as long. Returns the factor for earlier results.
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
      const F e = S::without_subnormals(Math<S>::exp(S::load(p + j) - shift));
      S::store(p + j, e);
      sum = sum + e;
    }
    float correction[16];
    S::store(correction, Math<S>::exp(S::splat(old) - shift));
    softmax.sum = softmax.sum * correction[0] + S::sum(sum);
    return correction[0];
  }

  // X queries that add p_j value_j to their results, for the positions j that they see.
  template <int X>
  struct Mixed {
    const float (&p)[X][kTile];
    const Seen* of_query;
    Seen by_all;
    const float (&correction)[X];
    uint32_t width;
    Ahead keys{};
    float* results[X] = {};
  };
  // Adds to elements [d, d + 16 C) of the results.
  template <int X, int C>
  static void mix(const Tile& tile, Mixed<X>& m, uint32_t d) {
    F sum[X][C];
    for (int x = 0; x < X; ++x)
      for (int c = 0; c < C; ++c) sum[x][c] = S::load(m.results[x] + d + 16 * c) * S::splat(m.correction[x]);
    const Element* values = tile.values + d;
    for (int x = 0; x < X; ++x)
      mix_one<X, C>(values, m, x, {m.of_query[x].from, smaller(m.of_query[x].to, m.by_all.from)}, sum[x]);
    for (uint32_t j = m.by_all.from; j < m.by_all.to; ++j) {
      m.keys.step();
      F value[C];
      for (int c = 0; c < C; ++c) value[c] = Cache::load(values + uint64_t{j} * m.width + 16 * c);
      for (int x = 0; x < X; ++x) {
        const F share = S::splat(m.p[x][j]);
        for (int c = 0; c < C; ++c) sum[x][c] = S::fma(share, value[c], sum[x][c]);
      }
    }
    for (int x = 0; x < X; ++x)
      mix_one<X, C>(values, m, x, {larger(m.of_query[x].from, m.by_all.to), m.of_query[x].to}, sum[x]);
    for (int x = 0; x < X; ++x)
      for (int c = 0; c < C; ++c) S::store(m.results[x] + d + 16 * c, sum[x][c]);
  }
  // Adds positions that not all X queries see to one query's result.
  template <int X, int C>
  static void mix_one(const Element* values, const Mixed<X>& m, int x, const Seen& range, F (&sum)[C]) {
    for (uint32_t j = range.from; j < range.to; ++j)
      for (int c = 0; c < C; ++c)
        sum[c] = S::fma(S::splat(m.p[x][j]), Cache::load(values + uint64_t{j} * m.width + 16 * c), sum[c]);
  }
};

}  // namespace sluice::cpu
