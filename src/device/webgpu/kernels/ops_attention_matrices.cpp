// attention of a tower's rows to each other on GPUs with matrix units, in fast arithmetic. A first kernel rounds
// queries, keys and values to f16 (matrix_tiles.h). Then a workgroup takes a tile of 64 queries, each row with all
// query heads that share one head of keys and values. It passes through the keys twice, 64 at a time in ascending
// order: for the largest score of each query, and for the sum of the values' shares. So a sum need never be scaled
// again, for which matrix units have no operation.
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

constexpr uint32_t kQueries = 64, kThreadsOfTile = 64, kMostWidth = 128;

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

constexpr const char* kTile = R"(
const LOWEST = -3.0e38;
const QUERIES = 64u;
const GROUP = HEADS / KEY_HEADS;
const KEY_FOURS = KEY_PADDED / 8u;
const VALUE_FOURS = VALUE_PADDED / 8u;
const KEY_STRIDE = KEY_FOURS + 1u;
const VALUE_STRIDE = VALUE_FOURS + 1u;
const KEY_VECTOR = KEY_PADDED / 2u + 4u;
const SCORE_STRIDE = 17u;
var<workgroup> tile: array<vec4u, 64u * max(KEY_STRIDE, VALUE_STRIDE)>;
var<workgroup> scores: array<vec4u, QUERIES * SCORE_STRIDE>;
var<workgroup> powers: array<f32, 64>;
var<workgroup> sum_of: array<f32, QUERIES>;
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
fn stage_keys(first: u32, head: u32, thread: u32) {
  for (var l = 0u; l < KEY_FOURS; l++) {
    let i = thread + l * THREADS;
    let key = min(first + i / KEY_FOURS, key_rows() - 1u);
    tile[i / KEY_FOURS * KEY_STRIDE + i % KEY_FOURS] =
        four(p.keys + (key * KEY_HEADS + head) * KEY_VECTOR + i % KEY_FOURS * 4u);
  }
  powers[thread] = load(p.keys + (min(first + thread, key_rows() - 1u) * KEY_HEADS + head) * KEY_VECTOR + KEY_VECTOR - 4u);
}
fn stage_values(first: u32, head: u32, thread: u32) {
  for (var l = 0u; l < VALUE_FOURS; l++) {
    let i = thread + l * THREADS;
    let key = min(first + i / VALUE_FOURS, key_rows() - 1u);
    tile[i / VALUE_FOURS * VALUE_STRIDE + i % VALUE_FOURS] =
        four(p.values + (key * KEY_HEADS + head) * (VALUE_PADDED / 2u) + i % VALUE_FOURS * 4u);
  }
}
// Four neighbouring scores of the thread's query, LOWEST where it does not see the key.
fn scores_of(own: u32, n: u32, seen: u32, power: f32) -> vec4f {
  let of_keys = vec4f(powers[n * 4u], powers[n * 4u + 1u], powers[n * 4u + 2u], powers[n * 4u + 3u]);
  var score = bitcast<vec4f>(scores[own * SCORE_STRIDE + n]) * of_keys * power;
  if (SOFTCAP > 0.0) {
    let y = score / SOFTCAP;
    score = SOFTCAP * vec4f(exact_tanh(y.x), exact_tanh(y.y), exact_tanh(y.z), exact_tanh(y.w));
  }
  return select(vec4f(LOWEST), score, vec4u(n * 4u) + vec4u(0u, 1u, 2u, 3u) < vec4u(seen));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let head = i % KEY_HEADS;
  let first_query = i / KEY_HEADS * QUERIES;
  if (first_query >= rows() * GROUP) { return; }
  let count = min(QUERIES, rows() * GROUP - first_query);
  let query = first_query + min(thread, count - 1u);
  for (var l = 0u; l < KEY_FOURS; l++) {
    let n = thread + l * THREADS;
    let own = first_query + min(n / KEY_FOURS, count - 1u);
    tile[n / KEY_FOURS * KEY_STRIDE + n % KEY_FOURS] =
        four(p.queries + (own / GROUP * HEADS + head * GROUP + own % GROUP) * KEY_VECTOR + n % KEY_FOURS * 4u);
  }
  sequence_of[thread] = word(p.first + query / GROUP);
  last_of[thread] = word(p.last + query / GROUP);
  workgroupBarrier();
  let power = p.scale * load(p.queries + (query / GROUP * HEADS + head * GROUP + query % GROUP) * KEY_VECTOR +
                             KEY_VECTOR - 4u);
  let own_end = last_of[thread] + 1u;
  let side = thread / SUBGROUP * 32u;
${load_queries}  workgroupBarrier();

${sums}  var sum = 0.0;
  for (var begin = 0u; begin < count;) {
    if (thread == 0u) { shared_range = range_from(begin, count); }
    let range = workgroupUniformLoad(&shared_range);
    // The end of the keys that the thread's query sees, if it belongs to the range.
    let end = select(0u, own_end, thread >= begin && thread < range.end);
    var largest = LOWEST;
    for (var first = range.first; first <= range.last; first += 64u) {
      stage_keys(first, head, thread);
      workgroupBarrier();
${scores}      workgroupBarrier();
      let seen = max(end, first) - first;
      for (var n = 0u; n < 16u; n++) {
        let score = scores_of(thread, n, seen, power);
        largest = max(largest, max(max(score.x, score.y), max(score.z, score.w)));
      }
      workgroupBarrier();
    }
    for (var first = range.first; first <= range.last; first += 64u) {
      stage_keys(first, head, thread);
      workgroupBarrier();
${scores}      workgroupBarrier();
      // Eight shares take the place of the first four scores of eight that have been read.
      let seen = max(end, first) - first;
      for (var n = 0u; n < 8u; n++) {
        let a = share(scores_of(thread, n * 2u, seen, power), largest, n * 2u, seen);
        let b = share(scores_of(thread, n * 2u + 1u, seen, power), largest, n * 2u + 1u, seen);
        sum += ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w));
        scores[thread * SCORE_STRIDE + n] = eight_halves(a, b);
      }
      stage_values(first, head, thread);
      workgroupBarrier();
${products}      workgroupBarrier();
    }
    begin = range.end;
  }
  sum_of[thread] = sum;
${kept}}
fn share(score: vec4f, largest: f32, n: u32, seen: u32) -> vec4f {
  return select(vec4f(), exp(score - largest), vec4u(n * 4u) + vec4u(0u, 1u, 2u, 3u) < vec4u(seen));
}
fn keep(query: u32, head: u32, i: u32, x: vec4f) {
  if (i >= VALUE_WIDTH) { return; }
  let at = p.out + (query / GROUP * HEADS + head * GROUP + query % GROUP) * VALUE_WIDTH + i;
${store}}
)";
// Up to 64 values of each query at once, so that neighbouring threads keep neighbouring values.
constexpr const char* kKeep = R"(
${store}  workgroupBarrier();
  for (var n = thread % SUBGROUP; n < 32u * ${fours}u; n += SUBGROUP) {
    let own = side + n / ${fours}u;
    if (own < count) {
      keep(first_query + own, head, ${first}u + n % ${fours}u * 4u,
           bitcast<vec4f>(scores[own * SCORE_STRIDE + n % ${fours}u]) / sum_of[own]);
    }
  }
  workgroupBarrier();
)";
constexpr const char* kKeepValues = "  store4(at, x);\n";
constexpr const char* kKeepEachValue = R"(
  for (var n = 0u; n < 4u; n++) {
    if (i + n < VALUE_WIDTH) { store(at + n, x[n]); }
  }
)";

uint32_t padded(uint32_t width) { return (width + 15) / 16 * 16; }

}  // namespace

void Emitter::emit_head_halves(const HeadHalves& of) {
  Kernel kernel{.name = "heads_as_halves", .extent = type(of.x).extent, .threads = 128};
  const bool has_values = of.v != kNone;
  kernel.constants = {
      {"HEADS", of.heads}, {"ALL_WIDTH", type(of.x).width}, {"WIDTH", of.width}, {"PADDED", padded(of.width)}};
  kernel.params = {{"x", at(of.x)}, {"to", of.to}};
  if (has_values) {
    kernel.constants.insert(kernel.constants.end(),
                            {{"VALUE_WIDTH", of.value_width}, {"VALUE_PADDED", padded(of.value_width)}});
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
  const uint32_t key_padded = padded(keys.key_width), value_padded = padded(keys.value_width);
  const uint64_t bytes = (uint64_t{64} * (std::max(key_padded, value_padded) / 8 + 1) + kQueries * 17) * 16 + 1024;
  if (std::max(key_padded, value_padded) > kMostWidth || bytes > adapter_.workgroup_bytes) return false;
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
  kernel.constants = {{"HEADS", heads},
                      {"KEY_HEADS", keys.heads},
                      {"KEY_PADDED", key_padded},
                      {"VALUE_PADDED", value_padded},
                      {"VALUE_WIDTH", keys.value_width}};
  kernel.constants.push_back({"SOFTCAP", op.softcap});
  kernel.params = {{"queries", queries},    {"keys", halves},      {"values", values}, {"out", at(op.out)},
                   {"first", at(op.first)}, {"last", at(op.last)}, {"scale", op.scale}};
  kernel.bindings = {memory()};
  const bool fours = keys.value_width % 4 == 0 && at(op.out) % 4 == 0;
  if (fours) kernel.bindings.front().element = kFours;
  use_matrices(kernel, adapter_);
  kernel.snippets = {kMath, kAsHalves, rows_function("key_rows", type(op.k).extent)};
  // A subgroup has two matrices of 16 queries, so that each matrix of keys and values is loaded once for both.
  std::string load_queries, scores, sums, products, kept;
  const uint32_t key_parts = key_padded / 16, value_parts = value_padded / 16;
  for (uint32_t k = 0; k < key_parts; ++k)
    for (const uint32_t q : {0, 1})
      load_queries += cat("  let query_", q, "_", k, " = subgroupMatrixLoad<Left, row_major>(&tile, (side + ", q * 16,
                          "u) * KEY_STRIDE + ", k * 2, "u, KEY_STRIDE);\n");
  for (uint32_t j = 0; j < 4; ++j) {
    for (const uint32_t q : {0, 1}) scores += cat("      var score_", q, "_", j, " = Sums();\n");
    for (uint32_t k = 0; k < key_parts; ++k) {
      scores += cat("      let key_", j, "_", k, " = subgroupMatrixLoad<Right, col_major>(&tile, ", j * 16,
                    "u * KEY_STRIDE + ", k * 2, "u, KEY_STRIDE);\n");
      for (const uint32_t q : {0, 1})
        scores += cat("      score_", q, "_", j, " = subgroupMatrixMultiplyAccumulate(query_", q, "_", k, ", key_", j,
                      "_", k, ", score_", q, "_", j, ");\n");
    }
    for (const uint32_t q : {0, 1})
      scores += cat("      subgroupMatrixStore<row_major>(&scores, (side + ", q * 16, "u) * SCORE_STRIDE + ", j * 4,
                    "u, score_", q, "_", j, ", SCORE_STRIDE);\n");
  }
  for (uint32_t k = 0; k < 4; ++k) {
    for (const uint32_t q : {0, 1})
      products += cat("      let share_", q, "_", k, " = subgroupMatrixLoad<Left, row_major>(&scores, (side + ", q * 16,
                      "u) * SCORE_STRIDE + ", k * 2, "u, SCORE_STRIDE);\n");
    for (uint32_t n = 0; n < value_parts; ++n) {
      products += cat("      let value_", k, "_", n, " = subgroupMatrixLoad<Right, row_major>(&tile, ", k * 16,
                      "u * VALUE_STRIDE + ", n * 2, "u, VALUE_STRIDE);\n");
      for (const uint32_t q : {0, 1})
        products += cat("      out_", q, "_", n, " = subgroupMatrixMultiplyAccumulate(share_", q, "_", k, ", value_", k,
                        "_", n, ", out_", q, "_", n, ");\n");
    }
  }
  for (uint32_t n = 0; n < value_parts; ++n)
    for (const uint32_t q : {0, 1}) sums += cat("  var out_", q, "_", n, " = Sums();\n");
  for (uint32_t first = 0; first < value_parts; first += 4) {
    const uint32_t parts = std::min(value_parts - first, 4u);
    std::string store;
    for (uint32_t n = 0; n < parts; ++n)
      for (const uint32_t q : {0, 1})
        store += cat("  subgroupMatrixStore<row_major>(&scores, (side + ", q * 16, "u) * SCORE_STRIDE + ", n * 4,
                     "u, out_", q, "_", first + n, ", SCORE_STRIDE);\n");
    kept += fill(kKeep, {{"store", store}, {"fours", cat(parts * 4)}, {"first", cat(first * 16)}});
  }
  kernel.body = fill(kTile, {{"load_queries", load_queries},
                             {"scores", scores},
                             {"sums", sums},
                             {"products", products},
                             {"kept", kept},
                             {"store", fours ? kKeepValues : kKeepEachValue}});
  kernel.grid = {.items = heads / keys.heads, .per = kQueries, .times = keys.heads};
  add(kernel);
  return true;
}

}  // namespace sluice::webgpu
