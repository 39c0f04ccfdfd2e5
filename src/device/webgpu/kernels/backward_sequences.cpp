// attention_backward, short_conv_backward, delta_gates_backward.
//
// attention_backward computes tiles of TILE queries by TILE keys, as FlashAttention does (Dao et al. 2022,
// arXiv:2205.14135):
//
//   queries   a workgroup for each tile of queries of a head: first the softmax's largest score and sums, then d_q
//   keys      a workgroup for each tile of keys and head of queries: d_k and d_v of that head
//   heads     d_k and d_v of a kv head are the sums of its heads, in ascending order
#include <utility>

#include "device/webgpu/emitter.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

constexpr const char* kTile = R"(
const TILE = 2u * SIDE;
const STRIDE = TILE + 1u;
const DEPTH = 16u;  // elements of a row that are staged at once
const LOWEST = -3.0e38;
var<workgroup> staged_queries: array<f32, TILE * (DEPTH + 1u)>;
var<workgroup> staged_keys: array<f32, TILE * (DEPTH + 1u)>;
var<workgroup> scores: array<f32, TILE * STRIDE>;    // then gradients of the products of queries and keys
var<workgroup> d_shares: array<f32, TILE * STRIDE>;  // or shares
var<workgroup> tile_range: vec2u;

// `stats` has STATS words for each head of a row: its largest score, the sum of shares before they are divided by it, the
// mean of their gradients, and the rows that it sees.

// Rows beyond the count are zeros.
struct Rows { at: u32, stride: u32, count: u32 }
// The products of each row of `left` and each of `right`, sums over their elements.
fn tile_products(left: Rows, right: Rows, width: u32, is_score: bool, thread: u32) {
  let row = thread / SIDE;
  let column = thread % SIDE;
  var sums: array<array<f32, 2>, 2>;
  for (var first = 0u; first < width; first += DEPTH) {
    workgroupBarrier();
    for (var i = thread; i < TILE * DEPTH; i += THREADS) {
      let r = i / DEPTH;
      let e = first + i % DEPTH;
      var x = 0.0;
      var y = 0.0;
      if (e < width && r < left.count) { x = load(left.at + r * left.stride + e); }
      if (e < width && r < right.count) { y = load(right.at + r * right.stride + e); }
      staged_queries[r * (DEPTH + 1u) + i % DEPTH] = x;
      staged_keys[r * (DEPTH + 1u) + i % DEPTH] = y;
    }
    workgroupBarrier();
    for (var e = 0u; e < DEPTH; e++) {
      for (var i = 0u; i < 2u; i++) {
        let x = staged_queries[(row + SIDE * i) * (DEPTH + 1u) + e];
        for (var j = 0u; j < 2u; j++) {
          sums[i][j] = fma(x, staged_keys[(column + SIDE * j) * (DEPTH + 1u) + e], sums[i][j]);
        }
      }
    }
  }
  for (var i = 0u; i < 2u; i++) {
    for (var j = 0u; j < 2u; j++) {
      let at = (row + SIDE * i) * STRIDE + column + SIDE * j;
      if (is_score) { scores[at] = sums[i][j]; } else { d_shares[at] = sums[i][j]; }
    }
  }
}

// A row that is not finite must not reach those that do not see it, by a product with 0. Those that see it have scores
// that are not finite.
fn if_finite(x: f32) -> f32 { return select(0.0, x, is_finite(x)); }

// The products of queries and keys, and those of the queries' gradients and values.
fn tile_scores(query: u32, head: u32, key: u32, end: u32, thread: u32) {
  tile_products(queries_of(query, head), keys_of(key, end, head / GROUP), KEY_WIDTH, true, thread);
  tile_products(gradients_of(query, head), values_of(key, end, head / GROUP), VALUE_WIDTH, false, thread);
  workgroupBarrier();
}

struct Score { score: f32, slope: f32 }
// The slope is that of the soft cap, with the scale.
fn scored(product: f32) -> Score {
  let score = product * p.scale;
  if (p.softcap <= 0.0) { return Score(score, p.scale); }
  let capped = exact_tanh(score / p.softcap);
  return Score(p.softcap * capped, p.scale * (1.0 - capped * capped));
}

fn queries_of(row: u32, head: u32) -> Rows {
  return Rows(p.q + (row * HEADS + head) * KEY_WIDTH, HEADS * KEY_WIDTH, min(TILE, query_rows() - row));
}
fn gradients_of(row: u32, head: u32) -> Rows {
  return Rows(p.d_out + (row * HEADS + head) * VALUE_WIDTH, HEADS * VALUE_WIDTH, min(TILE, query_rows() - row));
}
fn keys_of(row: u32, end: u32, head: u32) -> Rows {
  return Rows(p.k + (row * KEY_HEADS + head) * KEY_WIDTH, KEY_HEADS * KEY_WIDTH, min(TILE, end - row));
}
fn values_of(row: u32, end: u32, head: u32) -> Rows {
  return Rows(p.v + (row * KEY_HEADS + head) * VALUE_WIDTH, KEY_HEADS * VALUE_WIDTH, min(TILE, end - row));
}
)";

constexpr const char* kSequences = R"(
// The first row of the step in the sequence of that row, and the end of its rows.
fn sequence_begin(row: u32) -> u32 { return first_row(sequence(row)); }
fn sequence_end(row: u32) -> u32 { return first_row(sequence(row) + 1u); }
)";

// Adds to `sums`, of each of the tile's rows or keys (j), the rows of `added` (i) times their factors.
constexpr const char* kAddRows = R"(
    {
      let added = ${added};
      for (var part = 0u; part < ${parts}; part++) {
        let element = thread + part * THREADS;
        if (element < ${width}) {
          for (var i = 0u; i < added.count; i++) {
            let x = if_finite(load(added.at + i * added.stride + element));
            for (var j = 0u; j < TILE; j++) { ${sums}[part][j] = fma(${factors}[${place}], x, ${sums}[part][j]); }
          }
        }
      }
    }
)";

constexpr const char* kQueries = R"(
var<workgroup> seen_begin: array<u32, TILE>;
var<workgroup> seen_end: array<u32, TILE>;
var<workgroup> largest: array<f32, TILE>;
var<workgroup> sums: array<f32, TILE>;
var<workgroup> mixed: array<f32, TILE>;

// Tiles of keys begin anew with each sequence, so that a row's tiles do not depend on the sequences before its own.
var<workgroup> tile_end: u32;
var<private> known_end: u32;  // of the sequence of the tile before
fn end_of_tile(tile: u32, end: u32) -> u32 {
  if (tile >= known_end) { known_end = sequence_end(tile); }
  return min(min(tile + TILE, known_end), end);
}
// Rows begin to end - 1 of the step are seen.
fn seen_by(row: u32) -> vec2u {
  let own = sequence_begin(step_row(row));
  let first_position = position(own);
  return vec2u(own + max(first_seen(row), first_position) - first_position, own + last_seen(row) - first_position + 1u);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let first = i / HEADS * TILE;
  let head = i % HEADS;
  if (first >= rows()) { return; }
  for (var r = thread; r < TILE; r += THREADS) {
    var seen = vec2u(0u, 0u);
    if (first + r < rows()) { seen = seen_by(first + r); }
    seen_begin[r] = seen.x;
    seen_end[r] = seen.y;
    largest[r] = LOWEST;
    sums[r] = 0.0;
    mixed[r] = 0.0;
  }
  workgroupBarrier();
  if (thread == 0u) {
    var all = vec2u(~0u, 0u);
    for (var r = 0u; r < TILE; r++) {
      if (seen_end[r] > 0u) { all = vec2u(min(all.x, seen_begin[r]), max(all.y, seen_end[r])); }
    }
    let begin = sequence_begin(step_row(first));
    tile_range = vec2u(begin + (all.x - begin) / TILE * TILE, all.y);
  }
  let range = workgroupUniformLoad(&tile_range);
  for (var tile = range.x; tile < range.y;) {
    if (thread == 0u) { tile_end = end_of_tile(tile, range.y); }
    let tile_behind = workgroupUniformLoad(&tile_end);
    tile_scores(first, head, tile, tile_behind, thread);
    for (var r = thread; r < TILE; r += THREADS) {
      let begin = max(seen_begin[r], tile);
      let end = min(seen_end[r], tile_behind);
      var most = largest[r];
      for (var k = begin; k < end; k++) {
        let score = scored(scores[r * STRIDE + k - tile]).score;
        scores[r * STRIDE + k - tile] = score;
        most = max(most, score);
      }
      let factor = exact_exp(largest[r] - most);
      var sum = sums[r] * factor;
      var mean = mixed[r] * factor;
      for (var k = begin; k < end; k++) {
        let share = exact_exp(scores[r * STRIDE + k - tile] - most);
        sum += share;
        mean = fma(share, d_shares[r * STRIDE + k - tile], mean);
      }
      largest[r] = most;
      sums[r] = sum;
      mixed[r] = mean;
    }
    tile = tile_behind;
  }
  workgroupBarrier();
  for (var r = thread; r < TILE; r += THREADS) {
    if (first + r < rows()) {
      let to = p.stats + ((first + r) * HEADS + head) * STATS;
      store(to, largest[r]);
      store(to + 1u, sums[r]);
      store(to + 2u, mixed[r] / sums[r]);
      memory[to + 3u] = seen_begin[r];
      memory[to + 4u] = seen_end[r];
    }
  }
  var out: array<array<f32, TILE>, THREAD_KEYS>;
  known_end = 0u;
  for (var tile = range.x; tile < range.y;) {
    if (thread == 0u) { tile_end = end_of_tile(tile, range.y); }
    let tile_behind = workgroupUniformLoad(&tile_end);
    tile_scores(first, head, tile, tile_behind, thread);
    for (var at = thread; at < TILE * TILE; at += THREADS) {
      let r = at / TILE;
      let k = tile + at % TILE;
      let place = r * STRIDE + at % TILE;
      var d = 0.0;
      if (k >= seen_begin[r] && k < min(seen_end[r], tile_behind)) {
        let score = scored(scores[place]);
        let share = exact_exp(score.score - largest[r]) / sums[r];
        d = share * (d_shares[place] - mixed[r] / sums[r]) * score.slope;
      }
      scores[place] = d;
    }
    workgroupBarrier();
${add_keys}    tile = tile_behind;
  }
  for (var part = 0u; part < THREAD_KEYS; part++) {
    let element = thread + part * THREADS;
    for (var r = 0u; r < TILE; r++) {
      if (element < KEY_WIDTH && first + r < rows()) {
        store(p.d_q + ((first + r) * HEADS + head) * KEY_WIDTH + element, out[part][r]);
      }
    }
  }
}
)";

constexpr const char* kKeys = R"(
// The first row of the queries whose row of the step is at least `least`.
fn first_query(least: u32) -> u32 {
  var low = 0u;
  var high = query_rows();
  while (low < high) {
    let middle = (low + high) / 2u;
    if (step_row(middle) < least) { low = middle + 1u; } else { high = middle; }
  }
  return low;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let first = i / HEADS * TILE;
  let head = i % HEADS;
  if (first >= counts.rows) { return; }
  if (thread == 0u) {
    let last = min(first + TILE, counts.rows) - 1u;
    tile_range = vec2u(first_query(select(first, sequence_begin(first), SEES_AHEAD == 1u)), first_query(sequence_end(last)));
  }
  let range = workgroupUniformLoad(&tile_range);
  var d_key: array<array<f32, TILE>, THREAD_KEYS>;
  var d_value: array<array<f32, TILE>, THREAD_VALUES>;
  for (var tile = range.x; tile < range.y; tile += TILE) {
    tile_scores(tile, head, first, counts.rows, thread);
    for (var at = thread; at < TILE * TILE; at += THREADS) {
      let own = tile + at / TILE;
      let k = first + at % TILE;
      let place = at / TILE * STRIDE + at % TILE;
      var share = 0.0;
      var d = 0.0;
      if (own < range.y && k < counts.rows) {
        let of_row = p.stats + (own * HEADS + head) * STATS;
        if (k >= word(of_row + 3u) && k < word(of_row + 4u)) {
          let score = scored(scores[place]);
          share = exact_exp(score.score - load(of_row)) / load(of_row + 1u);
          d = share * (d_shares[place] - load(of_row + 2u)) * score.slope;
        }
      }
      scores[place] = d;
      d_shares[place] = select(share, d, is_nan(d));
    }
    workgroupBarrier();
${add_queries}${add_gradients}  }
  for (var k = 0u; k < TILE; k++) {
    if (first + k < counts.rows) {
      let to = ((first + k) * HEADS + head);
      for (var part = 0u; part < THREAD_KEYS; part++) {
        let element = thread + part * THREADS;
        if (element < KEY_WIDTH) { store(p.of_keys + to * KEY_WIDTH + element, d_key[part][k]); }
      }
      for (var part = 0u; part < THREAD_VALUES; part++) {
        let element = thread + part * THREADS;
        if (element < VALUE_WIDTH) { store(p.of_values + to * VALUE_WIDTH + element, d_value[part][k]); }
      }
    }
  }
}
)";

constexpr const char* kAddHeads = R"(
fn element(i: u32) -> f32 {
  var sum = 0.0;
  for (var own = 0u; own < GROUP; own++) { sum += load(p.parts + (i / WIDTH * GROUP + own) * WIDTH + i % WIDTH); }
  return sum;
}
)";

// A row's sums are made again for each of the rows that they reach: at most TAPS times.
constexpr const char* kConvBackward = R"(
fn is_of(row: u32, sequence_of: u32) -> bool { return row < counts.rows && sequence(min(row, counts.rows - 1u)) == sequence_of; }
fn d_sum(row: u32, channel: u32) -> f32 {
  var sum = 0.0;
  for (var tap = 0u; tap < TAPS; tap++) {
    let back = TAPS - 1u - tap;
    if (back <= row && is_of(row - back, sequence(row))) {
      sum += factors[p.weight + channel * TAPS + tap] * load(p.x + (row - back) * COLUMNS + channel);
    }
  }
  let s = sigmoid(sum);
  return load(p.d_out + row * COLUMNS + channel) * s * (1.0 + sum * (1.0 - s));
}
fn element(i: u32) -> f32 {
  let row = i / COLUMNS;
  let channel = i % COLUMNS;
  var sum = 0.0;
  for (var tap = 0u; tap < TAPS; tap++) {
    let later = row + TAPS - 1u - tap;
    if (is_of(later, sequence(row))) { sum += factors[p.weight + channel * TAPS + tap] * d_sum(later, channel); }
  }
  return sum;
}
)";

}  // namespace

void Emitter::emit(const AttentionBackward& op) {
  constexpr uint32_t kStats = 5;  // words of a row's head
  const ValueType &q = type(op.q), &k = type(op.k), &v = type(op.v);
  const Attention forward = op.forward();
  // Processors compile long texts slowly.
  const uint32_t side = adapter_.is_software ? 8 : 16, threads = side * side, tile = 2 * side;
  const uint32_t group = q.heads / k.heads;
  const uint64_t keys = most_rows(k.extent);
  const uint32_t stats = scratch(most_rows(q.extent) * q.heads * kStats);
  const uint32_t of_keys = scratch(keys * q.heads * k.width), of_values = scratch(keys * q.heads * v.width);
  const auto made = [&](const char* name, std::string body) {
    Kernel kernel{.name = name, .body = std::move(body), .extent = q.extent, .threads = threads};
    kernel.constants = {{"HEADS", q.heads},
                        {"KEY_HEADS", k.heads},
                        {"GROUP", group},
                        {"KEY_WIDTH", k.width},
                        {"VALUE_WIDTH", v.width},
                        {"THREAD_KEYS", (k.width + threads - 1) / threads},
                        {"THREAD_VALUES", (v.width + threads - 1) / threads},
                        {"SIDE", side},
                        {"STATS", kStats},
                        {"SEES_AHEAD", op.last == kNone ? 0u : 1u}};
    kernel.params = {{"q", at(op.q)},         {"k", at(op.k)},    {"v", at(op.v)},      {"d_out", at(op.d_out)},
                     {"d_q", at(op.d_q)},     {"stats", stats},   {"of_keys", of_keys}, {"of_values", of_values},
                     {"softcap", op.softcap}, {"scale", op.scale}};
    kernel.bindings = {memory()};
    kernel.snippets = {kMath, kTile};
    use_step_rows(kernel);
    use_sequence_rows(kernel);
    use_seen(kernel, forward);
    kernel.snippets.insert(kernel.snippets.end(), {kSequences, rows_function("query_rows", q.extent)});
    return kernel;
  };
  const auto added = [](const char* rows, const char* width, const char* parts, const char* sums, const char* factors,
                        const char* place) {
    return fill(
        kAddRows,
        {{"added", rows}, {"width", width}, {"parts", parts}, {"sums", sums}, {"factors", factors}, {"place", place}});
  };
  const std::string add_keys =
      added("keys_of(tile, tile_behind, head / GROUP)", "KEY_WIDTH", "THREAD_KEYS", "out", "scores", "j * STRIDE + i");
  Kernel queries = made("attention_backward_queries", fill(kQueries, {{"add_keys", add_keys}}));
  queries.grid = {.per = tile, .times = q.heads};
  add(queries);
  // The workgroups are those of keys, and the functions of rows those of queries.
  const char* const kPlace = "i * STRIDE + j";
  const std::string add_queries =
      added("queries_of(tile, head)", "KEY_WIDTH", "THREAD_KEYS", "d_key", "scores", kPlace);
  const std::string add_gradients =
      added("gradients_of(tile, head)", "VALUE_WIDTH", "THREAD_VALUES", "d_value", "d_shares", kPlace);
  Dispatch& dispatch = add(
      made("attention_backward_keys", fill(kKeys, {{"add_queries", add_queries}, {"add_gradients", add_gradients}})));
  dispatch.extent = k.extent;
  dispatch.grid = {.per = tile, .times = q.heads};
  const auto add_heads = [&](ValueId out, uint32_t parts) {
    Kernel sums = elementwise("attention_backward_heads", kAddHeads, out);
    sums.constants.insert(sums.constants.end(), {{"GROUP", group}, {"WIDTH", type(out).width}});
    sums.params.push_back({"parts", parts});
    add(sums);
  };
  add_heads(op.d_k, of_keys);
  add_heads(op.d_v, of_values);
}

void Emitter::emit(const ShortConvBackward& op) {
  Kernel kernel = elementwise("short_conv_backward", kConvBackward, op.d_x);
  kernel.constants.push_back({"TAPS", program_.weights[op.weight].shape.columns});
  kernel.params.insert(kernel.params.end(),
                       {{"x", at(op.x)}, {"d_out", at(op.d_out)}, {"weight", layout_.factor(op.weight)}});
  kernel.bindings.push_back(factors());
  kernel.snippets = {kMath};
  use_step_rows(kernel);
  add(kernel);
}

void Emitter::emit(const DeltaGatesBackward& op) {
  Kernel a = elementwise("delta_gates_backward_a", R"(
fn element(i: u32) -> f32 {
  let head = i % COLUMNS;
  return load(p.d_decay + i) * factors[p.rate + head] * sigmoid(load(p.a + i) + factors[p.rate_bias + head]);
}
)",
                         op.d_a);
  a.params.insert(a.params.end(), {{"a", at(op.a)},
                                   {"d_decay", at(op.d_decay)},
                                   {"rate", layout_.factor(op.rate)},
                                   {"rate_bias", layout_.factor(op.bias)}});
  a.bindings.push_back(factors());
  a.snippets = {kMath};
  add(a);
  Kernel b = elementwise("delta_gates_backward_b", R"(
fn element(i: u32) -> f32 {
  let beta = sigmoid(load(p.b + i));
  return load(p.d_beta + i) * beta * (1.0 - beta);
}
)",
                         op.d_b);
  b.params.insert(b.params.end(), {{"b", at(op.b)}, {"d_beta", at(op.d_beta)}});
  b.snippets = {kMath};
  add(b);
}

}  // namespace sluice::webgpu
