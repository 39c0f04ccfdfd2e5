// attention_backward, short_conv_backward, delta_gates_backward.
//
// attention_backward has two kernels, as in FlashAttention (Dao et al. 2022, arXiv:2205.14135):
//
//   queries   a workgroup for each head of a row makes the softmax's largest score and sums over tiles of 64 keys, and
//             then d_q from the same tiles
//   keys      a workgroup for each key of a kv head makes d_k and d_v from the queries that see it, 64 at a time and
//             head by head
#include "base/text.h"
#include "device/webgpu/emitter.h"

namespace sluice::webgpu {
namespace {

// The rows of a sequence, and which of them a row of the queries sees: rows begin to end - 1 of the step.
constexpr const char* kSeen = R"(
const LOWEST = -3.0e38;
struct Seen { begin: u32, end: u32 }

// The first row of the step in the sequence of that row.
fn sequence_begin(row: u32) -> u32 {
  var low = 0u;
  var high = row;
  while (low < high) {
    let middle = (low + high) / 2u;
    if (sequence(middle) < sequence(row)) { low = middle + 1u; } else { high = middle; }
  }
  return low;
}
fn seen_by(row: u32) -> Seen {
  let own = sequence_begin(step_row(row));
  let first_position = position(own);
  return Seen(own + max(first_seen(row), first_position) - first_position, own + last_seen(row) - first_position + 1u);
}

struct Score { score: f32, slope: f32 }
// The slope is that of the soft cap, with the scale.
fn scored(product: f32) -> Score {
  let score = product * p.scale;
  if (p.softcap <= 0.0) { return Score(score, p.scale); }
  let capped = exact_tanh(score / p.softcap);
  return Score(p.softcap * capped, p.scale * (1.0 - capped * capped));
}
)";

constexpr const char* kQueries = R"(
var<workgroup> query: array<f32, KEY_WIDTH>;
var<workgroup> gradient: array<f32, VALUE_WIDTH>;
var<workgroup> d_scores: array<f32, 64>;
var<workgroup> seen: Seen;

fn score_of(key: u32) -> Score {
  var product = 0.0;
  for (var i = 0u; i < KEY_WIDTH; i++) { product = fma(query[i], load(key + i), product); }
  return scored(product);
}
fn d_share_of(value: u32) -> f32 {
  var product = 0.0;
  for (var i = 0u; i < VALUE_WIDTH; i++) { product = fma(gradient[i], load(value + i), product); }
  return product;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  if (i >= rows() * HEADS) { return; }
  let key_head = i % HEADS / (HEADS / KEY_HEADS);
  for (var at = thread; at < KEY_WIDTH; at += THREADS) { query[at] = load(p.q + i * KEY_WIDTH + at); }
  for (var at = thread; at < VALUE_WIDTH; at += THREADS) { gradient[at] = load(p.d_out + i * VALUE_WIDTH + at); }
  if (thread == 0u) { seen = seen_by(i / HEADS); }
  let range = workgroupUniformLoad(&seen);
  var largest = LOWEST;
  var sum = 0.0;
  var mixed = 0.0;
  for (var tile = range.begin; tile < range.end; tile += 64u) {
    let key_row = tile + thread;
    var score = LOWEST;
    if (key_row < range.end) { score = score_of(p.k + (key_row * KEY_HEADS + key_head) * KEY_WIDTH).score; }
    let new_largest = max(largest, max_all(score, thread));
    var share = 0.0;
    var d_share = 0.0;
    if (key_row < range.end) {
      share = exact_exp(score - new_largest);
      d_share = d_share_of(p.v + (key_row * KEY_HEADS + key_head) * VALUE_WIDTH);
    }
    let factor = exact_exp(largest - new_largest);
    sum = sum * factor + sum_all(share, thread);
    mixed = mixed * factor + sum_all(share * d_share, thread);
    largest = new_largest;
  }
  let mean = mixed / sum;
  if (thread == 0u) {
    store(p.stats + i * 3u, largest);
    store(p.stats + i * 3u + 1u, sum);
    store(p.stats + i * 3u + 2u, mean);
  }
  var out: array<f32, THREAD_KEYS>;
  for (var tile = range.begin; tile < range.end; tile += 64u) {
    let key_row = tile + thread;
    var d_score = 0.0;
    if (key_row < range.end) {
      let score = score_of(p.k + (key_row * KEY_HEADS + key_head) * KEY_WIDTH);
      let d_share = d_share_of(p.v + (key_row * KEY_HEADS + key_head) * VALUE_WIDTH);
      d_score = exact_exp(score.score - largest) / sum * (d_share - mean) * score.slope;
    }
    workgroupBarrier();
    d_scores[thread] = d_score;
    workgroupBarrier();
    let count = min(range.end - tile, 64u);
    for (var k = 0u; k < THREAD_KEYS; k++) {
      let element = thread + k * 64u;
      if (element >= KEY_WIDTH) { break; }
      var x = out[k];
      for (var j = 0u; j < count; j++) {
        x = fma(d_scores[j], load(p.k + ((tile + j) * KEY_HEADS + key_head) * KEY_WIDTH + element), x);
      }
      out[k] = x;
    }
  }
  for (var k = 0u; k < THREAD_KEYS; k++) {
    let element = thread + k * 64u;
    if (element < KEY_WIDTH) { store(p.d_q + i * KEY_WIDTH + element, out[k]); }
  }
}
)";

constexpr const char* kKeys = R"(
var<workgroup> key: array<f32, KEY_WIDTH>;
var<workgroup> value: array<f32, VALUE_WIDTH>;
var<workgroup> shares: array<f32, 64>;
var<workgroup> d_scores: array<f32, 64>;
var<workgroup> sees: array<u32, 64>;
var<workgroup> shared_queries: vec2u;

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
// The end of the sequence of that row of the step.
fn sequence_end(row: u32) -> u32 {
  var low = row;
  var high = counts.rows;
  while (low < high) {
    let middle = (low + high) / 2u;
    if (sequence(middle) <= sequence(row)) { low = middle + 1u; } else { high = middle; }
  }
  return low;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let row = i / KEY_HEADS;
  let key_head = i % KEY_HEADS;
  if (row >= counts.rows) { return; }
  for (var at = thread; at < KEY_WIDTH; at += THREADS) { key[at] = load(p.k + i * KEY_WIDTH + at); }
  for (var at = thread; at < VALUE_WIDTH; at += THREADS) { value[at] = load(p.v + i * VALUE_WIDTH + at); }
  if (thread == 0u) {
    shared_queries = vec2u(first_query(select(row, sequence_begin(row), SEES_AHEAD == 1u)), first_query(sequence_end(row)));
  }
  let range = workgroupUniformLoad(&shared_queries);
  var d_key: array<f32, THREAD_KEYS>;
  var d_value: array<f32, THREAD_VALUES>;
  for (var tile = range.x; tile < range.y; tile += 64u) {
    let own = tile + thread;
    var is_seen = false;
    if (own < range.y) {
      let seen = seen_by(own);
      is_seen = row >= seen.begin && row < seen.end;
    }
    sees[thread] = u32(is_seen);
    for (var head = key_head * GROUP; head < (key_head + 1u) * GROUP; head++) {
      var share = 0.0;
      var d_score = 0.0;
      if (is_seen) {
        let q = own * HEADS + head;
        var product = 0.0;
        for (var e = 0u; e < KEY_WIDTH; e++) { product = fma(load(p.q + q * KEY_WIDTH + e), key[e], product); }
        let score = scored(product);
        share = exact_exp(score.score - load(p.stats + q * 3u)) / load(p.stats + q * 3u + 1u);
        var d_share = 0.0;
        for (var e = 0u; e < VALUE_WIDTH; e++) { d_share = fma(load(p.d_out + q * VALUE_WIDTH + e), value[e], d_share); }
        d_score = share * (d_share - load(p.stats + q * 3u + 2u)) * score.slope;
      }
      workgroupBarrier();
      shares[thread] = share;
      d_scores[thread] = d_score;
      workgroupBarrier();
      let count = min(range.y - tile, 64u);
      for (var k = 0u; k < THREAD_KEYS; k++) {
        let element = thread + k * 64u;
        if (element >= KEY_WIDTH) { break; }
        var x = d_key[k];
        for (var j = 0u; j < count; j++) {
          if (sees[j] == 1u) { x = fma(d_scores[j], load(p.q + ((tile + j) * HEADS + head) * KEY_WIDTH + element), x); }
        }
        d_key[k] = x;
      }
      for (var k = 0u; k < THREAD_VALUES; k++) {
        let element = thread + k * 64u;
        if (element >= VALUE_WIDTH) { break; }
        var x = d_value[k];
        for (var j = 0u; j < count; j++) {
          if (sees[j] == 1u) {
            x = fma(shares[j], load(p.d_out + ((tile + j) * HEADS + head) * VALUE_WIDTH + element), x);
          }
        }
        d_value[k] = x;
      }
    }
    workgroupBarrier();
  }
  for (var k = 0u; k < THREAD_KEYS; k++) {
    let element = thread + k * 64u;
    if (element < KEY_WIDTH) { store(p.d_k + i * KEY_WIDTH + element, d_key[k]); }
  }
  for (var k = 0u; k < THREAD_VALUES; k++) {
    let element = thread + k * 64u;
    if (element < VALUE_WIDTH) { store(p.d_v + i * VALUE_WIDTH + element, d_value[k]); }
  }
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
  const ValueType &q = type(op.q), &k = type(op.k), &v = type(op.v);
  const Attention forward = op.forward();
  const uint32_t stats = scratch(most_rows(q.extent) * q.heads * 3);
  const auto made = [&](const char* name, const char* body) {
    Kernel kernel{.name = name, .extent = q.extent};
    kernel.constants = {{"HEADS", q.heads},
                        {"KEY_HEADS", k.heads},
                        {"GROUP", q.heads / k.heads},
                        {"KEY_WIDTH", k.width},
                        {"VALUE_WIDTH", v.width},
                        {"THREAD_KEYS", (k.width + kThreads - 1) / kThreads},
                        {"THREAD_VALUES", (v.width + kThreads - 1) / kThreads},
                        {"SEES_AHEAD", op.last == kNone ? 0u : 1u}};
    kernel.params = {{"q", at(op.q)},         {"k", at(op.k)},     {"v", at(op.v)},     {"d_out", at(op.d_out)},
                     {"d_q", at(op.d_q)},     {"d_k", at(op.d_k)}, {"d_v", at(op.d_v)}, {"stats", stats},
                     {"softcap", op.softcap}, {"scale", op.scale}};
    kernel.bindings = {memory()};
    kernel.snippets = {kMath};
    use_reduce(kernel, adapter_);
    use_step_rows(kernel);
    use_seen(kernel, forward);
    kernel.snippets.emplace_back(kSeen);
    kernel.snippets.push_back(
        cat("fn query_rows() -> u32 { return counts.", symbol_name(q.extent.symbol), " * ", q.extent.ratio, "u; }\n"));
    kernel.body = body;
    return kernel;
  };
  Kernel queries = made("attention_backward_queries", kQueries);
  queries.grid = {.items = q.heads};
  add(queries);
  Kernel keys = made("attention_backward_keys", kKeys);
  // The workgroups are those of keys, and the functions of rows those of queries.
  Dispatch& dispatch = add(keys);
  dispatch.extent = k.extent;
  dispatch.grid = {.items = k.heads};
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
