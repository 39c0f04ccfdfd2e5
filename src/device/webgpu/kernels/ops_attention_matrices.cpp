// attention of a tower's rows to each other on GPUs with matrix units, in fast arithmetic. A first kernel rounds
// queries, keys and values to f16 (matrix_tiles.h). Then a workgroup takes a tile of 64 queries, each row with all
// query heads that share one head of keys and values, and passes through the keys in ascending order, a tile at a time.
//
// Four subgroups share a tile: two sides of 32 queries by two halves, of the keys for scores and of the values' columns
// for results. Two threads of a subgroup have a query's scores, one those of each half.
//
// A share is 2^(score - reference), where each query has a reference of its own, a whole number. A score above it by
// more than MOST_ABOVE would have a share too large for f16. The reference is raised then, and the query's earlier
// results are multiplied by a power of two, which changes none of their digits. Matrix units have no operation for
// that, so results pass through workgroup memory. Few tiles of keys have such a score.
//
// Tiles of keys begin at the first row that a query sees. Queries with the same first row form a range. Values that a
// query does not see are multiplied by 0, so infinite and NaN values become 0, and the power of their key NaN: queries
// that do see them have results that are not finite.
#include <algorithm>

#include "base/text.h"
#include "device/webgpu/emitter.h"
#include "device/webgpu/kernels/matrix_tiles.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kQueries = 64, kThreadsOfTile = 128, kMostWidth = 128;

// A subgroup: a head of a row. A thread: four numbers.
constexpr const char* kVectors = R"(
const VECTOR_WORDS = PADDED / 2u + 4u;
fn four_at(at: u32, width: u32, i: u32) -> vec4f {
  var x = vec4f();
  for (var n = 0u; n < 4u; n++) {
    if (i + n < width) { x[n] = load(at + i + n); }
  }
  return x;
}
fn bits_of_lanes(x: vec4f) -> u32 {
  let each = bitcast<vec4u>(abs(x));
  var bits = max(max(each.x, each.y), max(each.z, each.w));
  for (var step = SUBGROUP / 2u; step > 0u; step = step / 2u) { bits = max(bits, subgroupShuffleXor(bits, step)); }
  return bits;
}
fn put_halves(at: u32, x: vec4f) {
  memory[at] = pack2x16float(x.xy);
  memory[at + 1u] = pack2x16float(x.zw);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups) * (THREADS / SUBGROUP) + thread / SUBGROUP;
  let lane = thread % SUBGROUP;
  let exists = i < rows() * HEADS;
  let at = select(0u, i, exists);
  let x = four_at(p.x + at * ALL_WIDTH + (ALL_WIDTH - WIDTH), WIDTH, lane * 4u);
  let power = power_for(bitcast<f32>(min(bits_of_lanes(x), 0x7f800000u)));
  var kept = bitcast<u32>(power);
${values}  let to = p.to + at * VECTOR_WORDS;
  if (!exists) { return; }
  if (lane * 4u < PADDED) { put_halves(to + lane * 2u, x * inverse_of(power)); }
  if (lane == 0u) { memory[to + VECTOR_WORDS - 4u] = kept; }
}
)";
constexpr const char* kValues = R"(
  let v = four_at(p.v + at * VALUE_WIDTH, VALUE_WIDTH, lane * 4u);
  let is_finite_value = bits_of_lanes(v) < 0x7f800000u;
  if (!is_finite_value) { kept = 0x7fc00000u; }
  if (exists && lane * 4u < VALUE_PADDED) {
    put_halves(p.values + at * (VALUE_PADDED / 2u) + lane * 2u, select(vec4f(), v, is_finite_value));
  }
)";

// Workgroup memory has an array for each subgroup, side or half, as matrix_tiles.cpp has it. Rows have an unused vector
// behind them, so that the same places of neighbouring rows fall into other memory banks. Scores are multiplied by
// log2(e), because exp(x) is exp2(x log2(e)).
constexpr const char* kTile = R"(
const LOWEST = -3.0e38;
const LOG2_E = 1.44269504;
const MOST_ABOVE = 14.0;
const QUERIES = 64u;
const SIDE = 32u;
const HALF = KEYS / 2u;
const GROUP = HEADS / KEY_HEADS;
const KEY_FOURS = KEY_PADDED / 8u;
const VALUE_FOURS = VALUE_PADDED / 8u;
const HALF_VALUE_FOURS = VALUE_FOURS / 2u;
const KEY_VECTOR = KEY_PADDED / 2u + 4u;
const KEY_STRIDE = KEY_FOURS + 1u;
const VALUE_STRIDE = HALF_VALUE_FOURS + 1u;
const SCORE_STRIDE = 9u;
const SHARE_STRIDE = 9u;
const KEY_LOADS = (KEYS * KEY_FOURS + THREADS - 1u) / THREADS;
const VALUE_LOADS = KEYS * VALUE_FOURS / THREADS;
var<workgroup> keys: array<array<vec4u, HALF * KEY_STRIDE>, 2>;
var<workgroup> values: array<array<vec4u, KEYS * VALUE_STRIDE>, 2>;
var<workgroup> scores: array<array<vec4u, SIDE * SCORE_STRIDE>, 4>;
var<workgroup> shares: array<array<vec4u, SIDE * SHARE_STRIDE>, 2>;
var<workgroup> powers: array<vec4f, KEYS / 4u>;
var<workgroup> of_queries: array<f32, QUERIES>;
var<workgroup> rescaled: array<u32, THREADS / SUBGROUP>;
var<workgroup> sequence_of: array<u32, QUERIES>;
var<workgroup> last_of: array<u32, QUERIES>;
alias Left = subgroup_matrix_left<f16, 16, 16>;
alias Right = subgroup_matrix_right<f16, 16, 16>;
alias Sums = subgroup_matrix_result<f32, 16, 16>;

// Queries [begin, end) that see the same first row, and the last one that any of them sees.
struct Range { end: u32, first: u32, last: u32 }
var<workgroup> shared_range: Range;
fn range_from(begin: u32, count: u32) -> Range {
  var range = Range(begin, sequence_of[begin], 0u);
  while (range.end < count && sequence_of[range.end] == range.first) {
    range.last = max(range.last, last_of[range.end]);
    range.end++;
  }
  return range;
}
fn query_vector(query: u32, head: u32) -> u32 {
  return p.queries + (query / GROUP * HEADS + head * GROUP + query % GROUP) * KEY_VECTOR;
}
fn key_vector(key: u32, head: u32) -> u32 {
  return p.keys + (min(key, key_rows() - 1u) * KEY_HEADS + head) * KEY_VECTOR;
}
fn value_vector(key: u32, head: u32) -> u32 {
  return p.values + (min(key, key_rows() - 1u) * KEY_HEADS + head) * (VALUE_PADDED / 2u);
}
// The scores that a thread looks at: of one query and half of a tile's keys; and the factor of the query's scores. Two
// threads of a subgroup share a query.
struct Own { query: u32, half: u32, power: f32 }
// Four neighbouring ones.
fn scores_of(own: Own, n: u32) -> vec4f {
  let score = bitcast<vec4f>(scores[own.query / SIDE + own.half * 2u][own.query % SIDE * SCORE_STRIDE + n]) *
              powers[own.half * (HALF / 4u) + n] * own.power;
  if (SOFTCAP == 0.0) { return score; }
  let y = score / SOFTCAP;
  return SOFTCAP * LOG2_E * vec4f(exact_tanh(y.x), exact_tanh(y.y), exact_tanh(y.z), exact_tanh(y.w));
}
fn seen_scores(own: Own, n: u32, seen: u32) -> vec4f {
  return select(vec4f(LOWEST), scores_of(own, n), vec4u(n * 4u) + vec4u(0u, 1u, 2u, 3u) < vec4u(seen));
}
// 0 where a key is not seen.
fn shares_of(scores: vec4f, reference: f32) -> vec4f {
  return select(exp2(scores - reference), vec4f(), scores == vec4f(LOWEST));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let head = i % KEY_HEADS;
  let first_query = i / KEY_HEADS * QUERIES;
  if (first_query >= rows() * GROUP) { return; }
  let count = min(QUERIES, rows() * GROUP - first_query);
  let subgroup = thread / SUBGROUP;
  let lane = thread % SUBGROUP;
  let side = subgroup % 2u;
  let half = subgroup / 2u;
  if (thread < QUERIES) {
    let query = first_query + min(thread, count - 1u);
    sequence_of[thread] = word(p.first + query / GROUP);
    last_of[thread] = word(p.last + query / GROUP);
  }
${load_queries}  let scale = p.scale * select(1.0, LOG2_E, SOFTCAP == 0.0);
  let of_tile = subgroup * (SUBGROUP / 2u) + lane % (SUBGROUP / 2u);
  let query = query_vector(first_query + min(of_tile, count - 1u), head);
  let own = Own(of_tile, lane / (SUBGROUP / 2u), scale * load(query + KEY_VECTOR - 4u));
  let own_end = last_of[of_tile] + 1u;
  var next_key: array<vec4u, KEY_LOADS>;
  var next_value: array<vec4u, VALUE_LOADS>;
  var next_power: f32;
${sums}  var sum = 0.0;
  for (var begin = 0u; begin < count;) {
    if (thread == 0u) { shared_range = range_from(begin, count); }
    let range = workgroupUniformLoad(&shared_range);
    // The end of the keys that the thread's query sees, if it belongs to the range.
    let end = select(0u, own_end, of_tile >= begin && of_tile < range.end);
    var reference = LOWEST;
    {
${fetch_first}${put_keys}    }
    for (var first = range.first; first <= range.last; first += KEYS) {
      workgroupBarrier();
${scores}      workgroupBarrier();
      let next = min(first + KEYS, range.last);
${fetch_next}      for (var l = 0u; l < VALUE_LOADS; l++) {
        let at = thread + l * THREADS;
        next_value[l] = four(value_vector(first + at / VALUE_FOURS, head) + at % VALUE_FOURS * 4u);
      }
      let seen = max(end, first + own.half * HALF) - (first + own.half * HALF);
      var largest = LOWEST;
      var kept: array<vec4f, HALF / 4u>;
      for (var n = 0u; n < HALF / 4u; n++) {
        let score = seen_scores(own, n, seen);
        kept[n] = score;
        largest = max(largest, max(max(score.x, score.y), max(score.z, score.w)));
      }
      largest = max(largest, subgroupShuffleXor(largest, SUBGROUP / 2u));
      let before = reference;
      if (largest > reference + MOST_ABOVE) { reference = ceil(largest); }
      let is_rescaled = reference != before && before != LOWEST;
      let factor = select(1.0, exp2(before - reference), is_rescaled);
      if (own.half == 0u) { of_queries[of_tile] = factor; }
      let is_any_rescaled = subgroupAny(is_rescaled);
      if (lane == 0u) { rescaled[subgroup] = u32(is_any_rescaled); }
      sum *= factor;
      for (var n = 0u; n < HALF / 8u; n++) {
        let a = shares_of(kept[n * 2u], reference);
        let b = shares_of(kept[n * 2u + 1u], reference);
        sum += ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w));
        shares[of_tile / SIDE][of_tile % SIDE * SHARE_STRIDE + own.half * (HALF / 8u) + n] = eight_halves(a, b);
      }
      for (var l = 0u; l < VALUE_LOADS; l++) {
        let at = thread + l * THREADS;
        values[at % VALUE_FOURS / HALF_VALUE_FOURS]
              [at / VALUE_FOURS * VALUE_STRIDE + at % HALF_VALUE_FOURS] = next_value[l];
      }
      let rescaled_by = workgroupUniformLoad(&rescaled);
${put_keys}      if ((rescaled_by[0] | rescaled_by[1] | rescaled_by[2] | rescaled_by[3]) != 0u) {
${rescale}      }
${products}    }
    workgroupBarrier();
    begin = range.end;
  }
  sum += subgroupShuffleXor(sum, SUBGROUP / 2u);
  if (own.half == 0u) { of_queries[of_tile] = sum; }
  workgroupBarrier();
${kept}}
fn keep(query: u32, head: u32, i: u32, x: vec4f) {
  if (i >= VALUE_WIDTH) { return; }
  let at = p.out + (query / GROUP * HEADS + head * GROUP + query % GROUP) * VALUE_WIDTH + i;
${store}}
)";
// Up to 64 columns of the queries at once.
constexpr const char* kLoadQueries = R"(
  for (var n = thread; n < QUERIES * ${fours}u; n += THREADS) {
    let other = first_query + min(n / ${fours}u, count - 1u);
    shares[n / ${fours}u / SIDE][n / ${fours}u % SIDE * SHARE_STRIDE + n % ${fours}u] =
        four(query_vector(other, head) + (${first}u + n % ${fours}u) * 4u);
  }
  workgroupBarrier();
${load}  workgroupBarrier();
)";
constexpr const char* kFetchKeys = R"(
      for (var l = 0u; l < KEY_LOADS; l++) {
        let at = thread + l * THREADS;
        if (at < KEYS * KEY_FOURS) { next_key[l] = four(key_vector(${key} + at / KEY_FOURS, head) + at % KEY_FOURS * 4u); }
      }
      next_power = load(key_vector(${key} + thread % KEYS, head) + KEY_VECTOR - 4u);
)";
constexpr const char* kPutKeys = R"(
      for (var l = 0u; l < KEY_LOADS; l++) {
        let at = thread + l * THREADS;
        let key = at / KEY_FOURS;
        if (at < KEYS * KEY_FOURS) { keys[key / HALF][key % HALF * KEY_STRIDE + at % KEY_FOURS] = next_key[l]; }
      }
      if (thread < KEYS) { powers[thread / 4u][thread % 4u] = next_power; }
)";
// Up to 32 values of each query at once, so that neighbouring threads keep neighbouring values.
constexpr const char* kKeep = R"(
${store}  workgroupBarrier();
  for (var n = lane; n < SIDE * ${fours}u; n += SUBGROUP) {
    let other = side * SIDE + n / ${fours}u;
    if (other < count) {
      keep(first_query + other, head, half * (VALUE_PADDED / 2u) + ${first}u + n % ${fours}u * 4u,
           bitcast<vec4f>(scores[subgroup][n / ${fours}u * SCORE_STRIDE + n % ${fours}u]) / of_queries[other]);
    }
  }
  workgroupBarrier();
)";
// As many at once. Only memory can be multiplied by a factor for each row.
constexpr const char* kRescale = R"(
${store}        workgroupBarrier();
        for (var n = 0u; n < ${fours}u; n++) {
          let at = lane * SCORE_STRIDE + n;
          scores[subgroup][at] = bitcast<vec4u>(bitcast<vec4f>(scores[subgroup][at]) * of_queries[side * SIDE + lane]);
        }
        workgroupBarrier();
${load}        workgroupBarrier();
)";
constexpr const char* kKeepValues = "  store4(at, x);\n";
constexpr const char* kKeepEachValue = R"(
  for (var n = 0u; n < 4u; n++) {
    if (i + n < VALUE_WIDTH) { store(at + n, x[n]); }
  }
)";

// Of a head: whole matrices of keys, and of each half of the values.
uint32_t padded_keys(uint32_t width) { return (width + 15) / 16 * 16; }
uint32_t padded_values(uint32_t width) { return (width + 31) / 32 * 32; }

}  // namespace

void Emitter::emit_head_halves(const HeadHalves& of) {
  Kernel kernel{.name = "heads_as_halves", .extent = type(of.x).extent, .threads = 128};
  const bool has_values = of.v != kNone;
  kernel.constants = {
      {"HEADS", of.heads}, {"ALL_WIDTH", type(of.x).width}, {"WIDTH", of.width}, {"PADDED", padded_keys(of.width)}};
  kernel.params = {{"x", at(of.x)}, {"to", of.to}};
  if (has_values) {
    kernel.constants.insert(kernel.constants.end(),
                            {{"VALUE_WIDTH", of.value_width}, {"VALUE_PADDED", padded_values(of.value_width)}});
    kernel.params.insert(kernel.params.end(), {{"v", at(of.v)}, {"values", of.values}});
  }
  kernel.bindings = {memory()};
  use_subgroups(kernel, adapter_);
  kernel.snippets = {kAsHalves};
  kernel.body = fill(kVectors, {{"values", has_values ? kValues : ""}});
  kernel.grid = {.items = of.heads, .per = 4};
  add(kernel);
}

bool Emitter::emit_own_attention_matrices(const Attention& op) {
  const KeyShape keys = op.keys(program_);
  if (request_.arithmetic != Arithmetic::fast || !adapter_.matrices || has_positions(type(op.q).extent)) return false;
  const uint32_t key_padded = padded_keys(keys.key_width), value_padded = padded_values(keys.value_width);
  const uint32_t widest = std::max(key_padded, value_padded), keys_of_tile = widest <= 64 ? 64 : 32;
  const uint32_t vectors =
      keys_of_tile * (key_padded / 8 + 1) + 2 * keys_of_tile * (value_padded / 16 + 1) + 6 * 32 * 9 + keys_of_tile / 4;
  if (widest > kMostWidth || vectors * 16 + 3 * kQueries * 4 + 32 > adapter_.workgroup_bytes) return false;
  const uint32_t heads = type(op.q).heads;
  const uint64_t query_rows = most_rows(type(op.q).extent), key_rows = most_rows(type(op.k).extent);
  const uint32_t queries = scratch(query_rows * heads * (key_padded / 2 + 4));
  const uint32_t halves = scratch(key_rows * keys.heads * (key_padded / 2 + 4));
  const uint32_t values = scratch(key_rows * keys.heads * (value_padded / 2));
  emit_head_halves({.x = op.q, .heads = heads, .width = keys.key_width, .to = queries});
  emit_head_halves({.x = op.k,
                    .heads = keys.heads,
                    .width = keys.key_width,
                    .to = halves,
                    .v = op.v,
                    .value_width = keys.value_width,
                    .values = values});
  Kernel kernel{.name = "own_attention_matrices", .extent = type(op.q).extent, .threads = kThreadsOfTile};
  kernel.constants = {{"HEADS", heads},           {"KEY_HEADS", keys.heads},      {"KEYS", keys_of_tile},
                      {"KEY_PADDED", key_padded}, {"VALUE_PADDED", value_padded}, {"VALUE_WIDTH", keys.value_width}};
  kernel.constants.push_back({"SOFTCAP", op.softcap});
  kernel.params = {{"queries", queries},    {"keys", halves},      {"values", values}, {"out", at(op.out)},
                   {"first", at(op.first)}, {"last", at(op.last)}, {"scale", op.scale}};
  kernel.bindings = {memory()};
  const bool fours = keys.value_width % 4 == 0 && at(op.out) % 4 == 0;
  if (fours) kernel.bindings.front().element = kFours;
  use_matrices(kernel, adapter_);
  kernel.snippets = {kMath, kAsHalves, rows_function("key_rows", type(op.k).extent)};
  // A subgroup has two matrices of 16 queries, so that each matrix of keys and values is loaded once for both.
  std::string load_queries, scores, sums, rescale, products, kept;
  const uint32_t key_parts = key_padded / 16, value_parts = value_padded / 32, score_parts = keys_of_tile / 32;
  for (uint32_t first = 0; first < key_parts; first += 4) {
    const uint32_t parts = std::min(key_parts - first, 4u);
    std::string load;
    for (uint32_t k = 0; k < parts; ++k)
      for (const uint32_t q : {0, 1})
        load += cat("  let query_", q, "_", first + k, " = subgroupMatrixLoad<Left, row_major>(&shares[side], ", q * 16,
                    "u * SHARE_STRIDE + ", k * 2, "u, SHARE_STRIDE);\n");
    load_queries += fill(kLoadQueries, {{"fours", cat(parts * 2)}, {"first", cat(first * 2)}, {"load", load}});
  }
  for (const uint32_t q : {0, 1})
    for (uint32_t j = 0; j < score_parts; ++j) scores += cat("      var score_", q, "_", j, " = Sums();\n");
  for (uint32_t k = 0; k < key_parts; ++k) {
    for (uint32_t j = 0; j < score_parts; ++j) {
      scores += cat("      let key_", j, "_", k, " = subgroupMatrixLoad<Right, col_major>(&keys[half], ", j * 16,
                    "u * KEY_STRIDE + ", k * 2, "u, KEY_STRIDE);\n");
      for (const uint32_t q : {0, 1})
        scores += cat("      score_", q, "_", j, " = subgroupMatrixMultiplyAccumulate(query_", q, "_", k, ", key_", j,
                      "_", k, ", score_", q, "_", j, ");\n");
    }
  }
  for (const uint32_t q : {0, 1})
    for (uint32_t j = 0; j < score_parts; ++j)
      scores += cat("      subgroupMatrixStore<row_major>(&scores[subgroup], ", q * 16, "u * SCORE_STRIDE + ", j * 4,
                    "u, score_", q, "_", j, ", SCORE_STRIDE);\n");
  for (uint32_t k = 0; k < keys_of_tile / 16; ++k) {
    for (const uint32_t q : {0, 1})
      products += cat("      let share_", q, "_", k, " = subgroupMatrixLoad<Left, row_major>(&shares[side], ", q * 16,
                      "u * SHARE_STRIDE + ", k * 2, "u, SHARE_STRIDE);\n");
    for (uint32_t n = 0; n < value_parts; ++n) {
      products += cat("      let value_", k, "_", n, " = subgroupMatrixLoad<Right, row_major>(&values[half], ", k * 16,
                      "u * VALUE_STRIDE + ", n * 2, "u, VALUE_STRIDE);\n");
      for (const uint32_t q : {0, 1})
        products += cat("      out_", q, "_", n, " = subgroupMatrixMultiplyAccumulate(share_", q, "_", k, ", value_", k,
                        "_", n, ", out_", q, "_", n, ");\n");
    }
  }
  for (uint32_t n = 0; n < value_parts; ++n)
    for (const uint32_t q : {0, 1}) sums += cat("  var out_", q, "_", n, " = Sums();\n");
  for (uint32_t first = 0; first < value_parts; first += 2) {
    const uint32_t parts = std::min(value_parts - first, 2u);
    std::string store, load;
    for (uint32_t n = 0; n < parts; ++n)
      for (const uint32_t q : {0, 1}) {
        const std::string at = cat(q * 16, "u * SCORE_STRIDE + ", n * 4, "u"), out = cat("out_", q, "_", first + n);
        store += cat("  subgroupMatrixStore<row_major>(&scores[subgroup], ", at, ", ", out, ", SCORE_STRIDE);\n");
        load += cat("  ", out, " = subgroupMatrixLoad<Sums, row_major>(&scores[subgroup], ", at, ", SCORE_STRIDE);\n");
      }
    const std::string count = cat(parts * 4);
    rescale += fill(kRescale, {{"store", store}, {"fours", count}, {"load", load}});
    kept += fill(kKeep, {{"store", store}, {"fours", count}, {"first", cat(first * 16)}});
  }
  kernel.body = fill(kTile, {{"load_queries", load_queries},
                             {"fetch_first", fill(kFetchKeys, {{"key", "range.first"}})},
                             {"fetch_next", fill(kFetchKeys, {{"key", "next"}})},
                             {"put_keys", kPutKeys},
                             {"scores", scores},
                             {"sums", sums},
                             {"rescale", rescale},
                             {"products", products},
                             {"kept", kept},
                             {"store", fours ? kKeepValues : kKeepEachValue}});
  kernel.grid = {.items = heads / keys.heads, .per = kQueries, .times = keys.heads};
  add(kernel);
  return true;
}

}  // namespace sluice::webgpu
