// attention of prompts over caches that are not latent, and of a tower's or a training step's rows to each other. A
// workgroup computes a tile of queries: some rows, each with all query heads that share one key-value head. It goes
// through the positions page by page, 64 at a time, and merges pages in ascending order. Each query of a tile has its
// own range of positions, and its numbers go through the same operations whatever other queries are in the tile.
//
// Own keys are [row][head][width]. A first kernel transposes them to [head][width][row], so that neighbouring threads
// read neighbouring words, as in a page. Tiles begin at the first row of the sequence; in towers, at the first row that
// a query sees (graph/seen.h), and queries with the same first row form a group, like those of one sequence.
//
// For the scores, a thread takes four queries and two positions; 32 threads have all positions of the page. For the
// values, a thread takes some words for several fours of queries. A thread issues several loads before it uses the
// first one, because loads from the cache take long and there are few other workgroups to hide the time.
#include <algorithm>
#include <bit>

#include "device/webgpu/emitter.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kLanes = 32, kMostQueries = 8, kMostOwnQueries = 16;
constexpr uint32_t kAhead = 16;  // loads that a thread issues before it uses the first one

constexpr const char* kElement = R"(
const ELEMENTS = 1u;
fn element(x: Pack, e: u32) -> f32 { return x; }
)";
constexpr const char* kElementOfPair = R"(
const ELEMENTS = 2u;
fn element(x: Pack, e: u32) -> f32 { return x[e]; }
)";

// Reductions over all lanes. Every lane gets the result.
constexpr const char* kReduceBySubgroups = R"(
fn max_of_lanes(own: vec4f, thread: u32) -> vec4f {
  var x = own;
  for (var step = LANES / 2u; step > 0u; step = step / 2u) { x = max(x, subgroupShuffleXor(x, step)); }
  return x;
}
fn sum_of_lanes(own: vec4f, thread: u32) -> vec4f {
  var x = own;
  for (var step = LANES / 2u; step > 0u; step = step / 2u) { x += subgroupShuffleXor(x, step); }
  return x;
}
)";
constexpr const char* kReduce = R"(
var<workgroup> reduced: array<vec4f, THREADS>;
fn max_of_lanes(own: vec4f, thread: u32) -> vec4f {
  workgroupBarrier();
  reduced[thread] = own;
  workgroupBarrier();
  var x = own;
  for (var lane = 0u; lane < LANES; lane++) { x = max(x, reduced[thread / LANES * LANES + lane]); }
  return x;
}
fn sum_of_lanes(own: vec4f, thread: u32) -> vec4f {
  workgroupBarrier();
  reduced[thread] = own;
  workgroupBarrier();
  var x = vec4f();
  for (var lane = 0u; lane < LANES; lane++) { x += reduced[thread / LANES * LANES + lane]; }
  return x;
}
)";

constexpr const char* kAttentionTiles = R"(
const LOWEST = -3.0e38;
const FOURS = QUERIES / 4u;
const GROUP = HEADS / CACHE_HEADS;
const KEY_ELEMENTS = KEY_WORDS * ELEMENTS;
const OWN_FOURS = FOURS * VALUE_LANES / THREADS;
const OWN_WORDS = (VALUE_WORDS + VALUE_LANES - 1u) / VALUE_LANES;
const OWN_PARTS = OWN_WORDS * ELEMENTS;
var<workgroup> queries: array<vec4f, KEY_ELEMENTS * FOURS>;
var<workgroup> shares: array<vec4f, 64u * FOURS>;
var<workgroup> factors_of: array<vec4f, FOURS>;
var<workgroup> first_of: array<u32, QUERIES>;
var<workgroup> last_of: array<u32, QUERIES>;
var<workgroup> sequence_of: array<u32, QUERIES>;

// Queries [begin, end) of one sequence: the pages that any of them sees, and the positions that all queries see.
struct Range { end: u32, sequence: u32, first_tile: u32, last_tile: u32, first_of_all: u32, last_of_all: u32 }
var<workgroup> shared_range: Range;
fn range_from(begin: u32, count: u32) -> Range {
  var range = Range(begin, sequence_of[begin], 0xffffffffu, 0u, 0u, 0xffffffffu);
  while (range.end < count && sequence_of[range.end] == range.sequence) {
    range.first_tile = min(range.first_tile, first_of[range.end] / 64u);
    range.last_tile = max(range.last_tile, last_of[range.end] / 64u);
    range.first_of_all = max(range.first_of_all, first_of[range.end]);
    range.last_of_all = min(range.last_of_all, last_of[range.end]);
    range.end++;
  }
  if (begin > 0u || range.end < count) { range.last_of_all = 0u; }
  return range;
}

fn query_element(first: u32, count: u32, query: u32, head: u32, i: u32) -> f32 {
  if (query >= count || i >= KEY_WIDTH) { return 0.0; }
  let row = (first + query) / GROUP;
  let own_head = head * GROUP + (first + query) % GROUP;
  return load(p.q + (row * HEADS + own_head) * QUERY_WIDTH + (QUERY_WIDTH - KEY_WIDTH) + i);
}
fn four_of(at: u32, begin: u32, end: u32) -> vec4<bool> {
  let query = vec4u(at, at + 1u, at + 2u, at + 3u);
  return (query >= vec4u(begin)) & (query < vec4u(end));
}
// For each of four queries: whether it belongs to the range and sees the position.
fn see(at: u32, begin: u32, end: u32, position: u32) -> vec4<bool> {
  let first = vec4u(first_of[at], first_of[at + 1u], first_of[at + 2u], first_of[at + 3u]);
  let last = vec4u(last_of[at], last_of[at + 1u], last_of[at + 2u], last_of[at + 3u]);
  return four_of(at, begin, end) & (first <= vec4u(position)) & (last >= vec4u(position));
}
fn exp_4(x: vec4f) -> vec4f { return vec4f(exact_exp(x.x), exact_exp(x.y), exact_exp(x.z), exact_exp(x.w)); }
fn scaled(x: vec4f) -> vec4f {
  var score = x * p.scale;
  if (p.softcap > 0.0) {
    let y = score / p.softcap;
    score = p.softcap * vec4f(exact_tanh(y.x), exact_tanh(y.y), exact_tanh(y.z), exact_tanh(y.w));
  }
  return score;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let head = i % CACHE_HEADS;
  let first_query = i / CACHE_HEADS * QUERIES;
  if (first_query >= rows() * GROUP) { return; }
  let count = min(QUERIES, rows() * GROUP - first_query);
  for (var n = thread; n < KEY_ELEMENTS * FOURS; n += THREADS) {
    let e = n % KEY_ELEMENTS;
    let query = n / KEY_ELEMENTS * 4u;
    queries[e * FOURS + query / 4u] =
        vec4f(query_element(first_query, count, query, head, e), query_element(first_query, count, query + 1u, head, e),
              query_element(first_query, count, query + 2u, head, e),
              query_element(first_query, count, query + 3u, head, e));
  }
  if (thread < QUERIES) {
    let row = (first_query + min(thread, count - 1u)) / GROUP;
    first_of[thread] = ${first};
    last_of[thread] = ${last};
    sequence_of[thread] = sequence(step_row(row));
  }
  workgroupBarrier();

  let four = thread / LANES;
  let lane = thread % LANES;
  let own_four = thread / VALUE_LANES * OWN_FOURS;
  let own_word = thread % VALUE_LANES;
  var largest = vec4f(LOWEST);
  var sum = vec4f();
  var out: array<vec4f, OWN_FOURS * OWN_PARTS>;
  for (var begin = 0u; begin < count;) {
    if (thread == 0u) { shared_range = range_from(begin, count); }
    let range = workgroupUniformLoad(&shared_range);
    for (var tile = range.first_tile; tile <= range.last_tile; tile++) {
${tile}      var score = array(vec4f(), vec4f());
      for (var word = 0u; word < KEY_WORDS; word += KEYS_AHEAD) {
        var a: array<u32, KEYS_AHEAD>;
        var b: array<u32, KEYS_AHEAD>;
        for (var n = 0u; n < KEYS_AHEAD; n++) {
          a[n] = ${memory}[keys + (word + n) * ${key_stride}];
          b[n] = ${memory}[keys + (word + n) * ${key_stride} + LANES];
        }
        for (var n = 0u; n < KEYS_AHEAD; n++) {
          for (var e = 0u; e < ELEMENTS; e++) {
            let query = queries[((word + n) * ELEMENTS + e) * FOURS + four];
            score[0] = fma(query, vec4f(element(unpack(a[n]), e)), score[0]);
            score[1] = fma(query, vec4f(element(unpack(b[n]), e)), score[1]);
          }
        }
      }
      let sees_a = see(four * 4u, begin, range.end, tile * 64u + lane);
      let sees_b = see(four * 4u, begin, range.end, tile * 64u + lane + LANES);
      let a = select(vec4f(LOWEST), scaled(score[0]), sees_a);
      let b = select(vec4f(LOWEST), scaled(score[1]), sees_b);
      let new_largest = max(largest, max_of_lanes(max(a, b), thread));
      let share_a = select(vec4f(), exp_4(a - new_largest), sees_a);
      let share_b = select(vec4f(), exp_4(b - new_largest), sees_b);
      let factor = exp_4(largest - new_largest);
      sum = sum * factor + sum_of_lanes(share_a + share_b, thread);
      largest = new_largest;
      workgroupBarrier();
      shares[lane * FOURS + four] = share_a;
      shares[(lane + LANES) * FOURS + four] = share_b;
      if (lane == 0u) { factors_of[four] = factor; }
      workgroupBarrier();

      for (var f = 0u; f < OWN_FOURS; f++) {
        let factor_of_four = factors_of[own_four + f];
        for (var k = 0u; k < OWN_PARTS; k++) { out[f * OWN_PARTS + k] *= factor_of_four; }
      }
      let all_see = tile * 64u >= range.first_of_all && tile * 64u + 63u <= range.last_of_all;
      for (var j = 0u; j < 64u; j += VALUES_AHEAD) {
        var ahead: array<u32, VALUES_AHEAD * OWN_WORDS>;
        for (var n = 0u; n < VALUES_AHEAD; n++) {
          for (var k = 0u; k < OWN_WORDS; k++) {
            ahead[n * OWN_WORDS + k] = ${memory}[values + (j + n) * ${value_stride} + min(own_word + k * VALUE_LANES, VALUE_WORDS - 1u)];
          }
        }
        if (all_see) {
          for (var n = 0u; n < VALUES_AHEAD; n++) {
            for (var f = 0u; f < OWN_FOURS; f++) {
              let share = shares[(j + n) * FOURS + own_four + f];
              for (var k = 0u; k < OWN_PARTS; k++) {
                let value = element(unpack(ahead[n * OWN_WORDS + k / ELEMENTS]), k % ELEMENTS);
                out[f * OWN_PARTS + k] = fma(share, vec4f(value), out[f * OWN_PARTS + k]);
              }
            }
          }
        } else {
          // Values that a query does not see may be infinite or NaN, so they must not be multiplied by 0.
          for (var n = 0u; n < VALUES_AHEAD; n++) {
            for (var f = 0u; f < OWN_FOURS; f++) {
              let sees = see((own_four + f) * 4u, begin, range.end, tile * 64u + j + n);
              let share = shares[(j + n) * FOURS + own_four + f];
              for (var k = 0u; k < OWN_PARTS; k++) {
                let value = element(unpack(ahead[n * OWN_WORDS + k / ELEMENTS]), k % ELEMENTS);
                let at = f * OWN_PARTS + k;
                out[at] = select(out[at], fma(share, vec4f(value), out[at]), sees);
              }
            }
          }
        }
      }
    }
    begin = range.end;
  }
  workgroupBarrier();
  if (lane == 0u) { factors_of[four] = sum; }
  workgroupBarrier();
  for (var f = 0u; f < OWN_FOURS; f++) {
    for (var k = 0u; k < OWN_PARTS; k++) {
      let x = out[f * OWN_PARTS + k] / factors_of[own_four + f];
      let word = own_word + k / ELEMENTS * VALUE_LANES;
      for (var n = 0u; n < 4u; n++) {
        keep(first_query, count, (own_four + f) * 4u + n, head, word * ELEMENTS + k % ELEMENTS, x[n]);
      }
    }
  }
}
fn keep(first: u32, count: u32, query: u32, head: u32, i: u32, x: f32) {
  if (query >= count || i >= VALUE_WIDTH) { return; }
  let own_head = head * GROUP + (first + query) % GROUP;
  store(p.out + ((first + query) / GROUP * HEADS + own_head) * VALUE_WIDTH + i, x);
}
)";

// Where a tile of 64 keys and values begins.
constexpr const char* kTileOfPage = R"(      let page = page_of(range.sequence, tile) * PAGE_WORDS;
      let keys = page + head * KEY_WORDS * 64u + lane;
      let values = page + VALUES_AT + head * 64u * VALUE_WORDS;
)";
constexpr const char* kTileOfRows = R"(      let first_key = first_key_of(range.sequence) + tile * 64u;
      let keys = p.keys + head * KEY_WORDS * key_rows() + first_key + lane;
      let values = p.v + (first_key * CACHE_HEADS + head) * VALUE_WORDS;
)";

// Keys are counted from the first row that a query sees, which stands for its sequence.
constexpr const char* kSeenRows = R"(
fn first_own(row: u32) -> u32 { return 0u; }
fn last_own(row: u32) -> u32 { return memory[p.last + row] - memory[p.first + row]; }
fn sequence(row: u32) -> u32 { return memory[p.first + row]; }
fn first_key_of(sequence: u32) -> u32 { return sequence; }
)";
// By position; keys are counted from the first row of the sequence.
constexpr const char* kSeenPositions = R"(
fn begin_of(row: u32) -> u32 { return position(first_row(sequence(step_row(row)))); }
fn first_own(row: u32) -> u32 {
  let begin = begin_of(row);
  return max(first_seen(row), begin) - begin;
}
fn last_own(row: u32) -> u32 { return last_seen(row) - begin_of(row); }
fn first_key_of(sequence: u32) -> u32 { return first_row(sequence); }
)";
constexpr const char* kOwnElement = R"(
alias Pack = f32;
fn unpack(word: u32) -> Pack { return bitcast<f32>(word); }
)";

constexpr const char* kTurnedKeys = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups) * THREADS + thread;
  if (i < rows() * COLUMNS) { memory[p.out + i] = memory[p.k + i % rows() * COLUMNS + i / rows()]; }
}
)";

// The largest tile that fits into workgroup memory, at most `most` queries; 0: not even four queries fit. Sixteen are
// no faster than eight for prompts (docs/experiments.md).
uint32_t queries_of(const Adapter& adapter, uint32_t key_elements, uint32_t most) {
  for (uint32_t queries = most; queries >= 4; queries /= 2) {
    const uint32_t fours = key_elements + 64 + 1 + 8 * 4;  // vectors for four queries; 8 * 4 for reductions
    if (fours * queries / 4 * 16 + queries * 12 + 64 <= adapter.workgroup_bytes) return queries;
  }
  return 0;
}

}  // namespace

// The kernel without the bindings from which it reads keys and values.
Kernel Emitter::attention_tiles(const Attention& op, const AttentionShape& shape) const {
  Kernel kernel{.name = "attention_tiles", .extent = type(op.q).extent};
  kernel.threads = shape.queries / 4 * kLanes;
  const uint32_t heads = type(op.q).heads;
  const uint32_t value_lanes = std::clamp(std::bit_ceil(shape.value_words), kLanes, kernel.threads);
  const uint32_t own_words = (shape.value_words + value_lanes - 1) / value_lanes;
  const uint32_t keys_ahead = std::min(shape.key_words & (~shape.key_words + 1),
                                       adapter_.is_software ? 1u : kAhead);  // a power of two that divides
  const uint32_t values_ahead = adapter_.is_software ? 1 : std::max(std::bit_floor(kAhead / own_words), 1u);
  kernel.constants = {{"HEADS", heads},
                      {"CACHE_HEADS", shape.heads},
                      {"QUERY_WIDTH", type(op.q).width},
                      {"QUERIES", shape.queries},
                      {"LANES", kLanes},
                      {"VALUE_LANES", value_lanes},
                      {"KEYS_AHEAD", keys_ahead},
                      {"VALUES_AHEAD", values_ahead}};
  kernel.params = {{"q", at(op.q)}, {"out", at(op.out)}, {"scale", op.scale}, {"softcap", op.softcap}};
  const bool in_subgroups = subgroup_lanes(adapter_) >= kLanes;
  if (in_subgroups) use_subgroups(kernel, adapter_);
  kernel.snippets = {kMath, in_subgroups ? kReduceBySubgroups : kReduce,
                     shape.per_word == 1 ? kElement : kElementOfPair};
  kernel.grid = {.items = heads / shape.heads, .per = shape.queries, .times = shape.heads};
  return kernel;
}

bool Emitter::emit_attention_tiles(const Attention& op) {
  const StateDecl& decl = program_.states[op.state.state];
  const StateLayout& cache = layout_.state(op.state.state);
  const uint32_t queries = queries_of(adapter_, cache.key_words * cache.per_word, kMostQueries);
  if (queries == 0) return false;
  Kernel kernel = attention_tiles(op, {.heads = decl.heads,
                                       .key_words = cache.key_words,
                                       .value_words = cache.value_words,
                                       .per_word = cache.per_word,
                                       .queries = queries});
  kernel.body = fill(kAttentionTiles, {{"tile", kTileOfPage},
                                       {"memory", "cache"},
                                       {"key_stride", "64u"},
                                       {"value_stride", "VALUE_WORDS"},
                                       {"first", "first_seen(row)"},
                                       {"last", "last_seen(row)"}});
  use_cache(kernel, op.state.state, Access::read);
  use_seen(kernel, op);
  add(kernel);
  return true;
}

bool Emitter::emit_own_attention_tiles(const Attention& op) {
  const KeyShape keys = op.keys(program_);
  const uint32_t queries = queries_of(adapter_, keys.key_width, kMostOwnQueries);
  if (queries == 0) return false;
  const uint32_t turned = scratch(most_rows(type(op.k).extent) * columns(op.k));
  Kernel turning{.name = "turned_keys", .body = kTurnedKeys, .extent = type(op.k).extent};
  turning.constants = {{"COLUMNS", columns(op.k)}};
  turning.params = {{"k", at(op.k)}, {"out", turned}};
  turning.bindings = {memory()};
  turning.grid = {.items = columns(op.k), .per = kThreads};
  add(turning);
  Kernel kernel = attention_tiles(
      op, {.heads = keys.heads, .key_words = keys.key_width, .value_words = keys.value_width, .queries = queries});
  kernel.name = "own_attention_tiles";
  kernel.body = fill(kAttentionTiles, {{"tile", kTileOfRows},
                                       {"memory", "memory"},
                                       {"key_stride", "key_rows()"},
                                       {"value_stride", "(CACHE_HEADS * VALUE_WORDS)"},
                                       {"first", "first_own(row)"},
                                       {"last", "last_own(row)"}});
  kernel.constants.insert(kernel.constants.end(), {{"KEY_WIDTH", keys.key_width},
                                                   {"KEY_WORDS", keys.key_width},
                                                   {"VALUE_WIDTH", keys.value_width},
                                                   {"VALUE_WORDS", keys.value_width}});
  kernel.params.insert(kernel.params.end(), {{"keys", turned}, {"v", at(op.v)}});
  kernel.bindings = {memory()};
  kernel.snippets.emplace_back(kOwnElement);
  kernel.snippets.push_back(rows_function("key_rows", type(op.k).extent));
  use_step_rows(kernel);
  if (has_positions(type(op.q).extent)) {
    use_sequence_rows(kernel);
    use_seen(kernel, op);
    kernel.snippets.emplace_back(kSeenPositions);
  } else {
    kernel.params.insert(kernel.params.end(), {{"first", at(op.first)}, {"last", at(op.last)}});
    kernel.snippets.emplace_back(kSeenRows);
  }
  add(kernel);
  return true;
}

}  // namespace sluice::webgpu
