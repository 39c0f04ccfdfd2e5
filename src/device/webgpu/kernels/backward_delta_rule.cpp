// delta_rule_backward. Columns of a state and of its gradient do not need one another, so a workgroup has some columns
// of a value head of a sequence. A thread has in its registers a part of them: every K_LANES-th row of every C_LANES-th
// column. The states that the gradients need are kept for every BLOCK rows of the step; those between are made again,
// block by block from the last one.
//
// d_q, d_k, d_beta and d_decay are sums over columns: those of a workgroup's columns, then of all of them. Heads of
// keys that several value heads share have the sum of theirs, in ascending order.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "device/webgpu/emitter.h"

namespace sluice::webgpu {
namespace {

constexpr const char* kDeltaBackward = R"(
const COLUMNS_HERE = C_LANES * COLUMNS_EACH;
const KEYS_EACH = (KEY_WIDTH + K_LANES - 1u) / K_LANES;
const TABLE = KEYS_EACH * COLUMNS_EACH * THREADS;
const STRIDE = C_LANES + 1u;
alias Keys = array<f32, KEYS_EACH>;
alias Columns = array<f32, COLUMNS_EACH>;
alias Part = array<Columns, KEYS_EACH>;
var<workgroup> sequence_rows: vec2u;
var<workgroup> column_parts: array<f32, 2u * K_LANES * COLUMNS_HERE>;
var<workgroup> query_parts: array<f32, K_LANES * KEYS_EACH * STRIDE>;
var<workgroup> key_parts: array<f32, K_LANES * KEYS_EACH * STRIDE>;
var<workgroup> beta_parts: array<f32, THREADS>;
var<workgroup> decay_parts: array<f32, THREADS>;
var<private> state: Part;
var<private> before: Part;  // the state in front of a row
var<private> gradient: Part;
var<private> head: u32;
var<private> first_column: u32;  // of the thread's
var<private> k_lane: u32;
var<private> c_lane: u32;
var<private> turn: u32;

// A thread's numbers of a row; zeros beyond the widths.
fn keys_of(table: u32, row: u32) -> Keys {
  var x: Keys;
  for (var i = 0u; i < KEYS_EACH; i++) {
    let k = k_lane + i * K_LANES;
    if (k < KEY_WIDTH) { x[i] = load(table + (row * KEY_HEADS + head / HEADS_OF_KEY % KEY_HEADS) * KEY_WIDTH + k); }
  }
  return x;
}
fn columns_of(table: u32, row: u32) -> Columns {
  var x: Columns;
  for (var c = 0u; c < COLUMNS_EACH; c++) {
    let j = first_column + c * C_LANES;
    if (j < VALUE_WIDTH) { x[c] = load(table + (row * HEADS + head) * VALUE_WIDTH + j); }
  }
  return x;
}

// Sums over the threads with the same columns. Two places take turns, so that one barrier is enough.
fn column_sums(own: Columns) -> Columns {
  turn = 1u - turn;
  let at = turn * K_LANES * COLUMNS_HERE + c_lane;
  var x = own;
  for (var c = 0u; c < COLUMNS_EACH; c++) { column_parts[at + k_lane * COLUMNS_HERE + c * C_LANES] = x[c]; }
  workgroupBarrier();
  for (var c = 0u; c < COLUMNS_EACH; c++) {
    x[c] = 0.0;
    for (var l = 0u; l < K_LANES; l++) { x[c] += column_parts[at + l * COLUMNS_HERE + c * C_LANES]; }
  }
  return x;
}

fn keep_state(at: u32, thread: u32) {
  for (var i = 0u; i < KEYS_EACH; i++) {
    for (var c = 0u; c < COLUMNS_EACH; c++) { store(at + (i * COLUMNS_EACH + c) * THREADS + thread, state[i][c]); }
  }
}
fn kept_state(at: u32, thread: u32) -> Part {
  var x: Part;
  for (var i = 0u; i < KEYS_EACH; i++) {
    for (var c = 0u; c < COLUMNS_EACH; c++) { x[i][c] = load(at + (i * COLUMNS_EACH + c) * THREADS + thread); }
  }
  return x;
}

// The state behind a row; writes v - p.
fn make_state(row: u32, errors: u32) {
  var keys = keys_of(p.k, row);
  let values = columns_of(p.v, row);
  let factor = exact_exp(load(p.decay + row * HEADS + head));
  let beta = load(p.beta + row * HEADS + head);
  var found: Columns;
  for (var i = 0u; i < KEYS_EACH; i++) {
    for (var c = 0u; c < COLUMNS_EACH; c++) {
      state[i][c] *= factor;
      found[c] = fma(state[i][c], keys[i], found[c]);
    }
  }
  found = column_sums(found);
  for (var c = 0u; c < COLUMNS_EACH; c++) {
    let error = values[c] - found[c];
    if (k_lane == 0u) { store(errors + c * C_LANES + c_lane, error); }
    for (var i = 0u; i < KEYS_EACH; i++) { state[i][c] = fma(keys[i], error * beta, state[i][c]); }
  }
}

// From the state and its gradient behind a row to the gradient in front of it.
fn back(row: u32, errors: u32, group: u32, thread: u32) {
  var queries = keys_of(p.q, row);
  var keys = keys_of(p.k, row);
  var d_out = columns_of(p.d_out, row);
  let factor = exact_exp(load(p.decay + row * HEADS + head));
  let beta = load(p.beta + row * HEADS + head);
  var d_error: Columns;
  for (var i = 0u; i < KEYS_EACH; i++) {
    for (var c = 0u; c < COLUMNS_EACH; c++) {
      gradient[i][c] = fma(queries[i], p.scale * d_out[c], gradient[i][c]);
      d_error[c] = fma(gradient[i][c], keys[i], d_error[c]);
    }
  }
  d_error = column_sums(d_error);
  var error: Columns;
  var d_value: Columns;
  var d_beta = 0.0;
  for (var c = 0u; c < COLUMNS_EACH; c++) {
    error[c] = load(errors + c * C_LANES + c_lane);
    d_value[c] = beta * d_error[c];
    if (k_lane == 0u) {
      d_beta = fma(d_error[c], error[c], d_beta);
      let j = first_column + c * C_LANES;
      if (j < VALUE_WIDTH) { store(p.d_v + (row * HEADS + head) * VALUE_WIDTH + j, d_value[c]); }
    }
  }
  var d_decay = 0.0;
  for (var i = 0u; i < KEYS_EACH; i++) {
    var d_query = 0.0;
    var d_key = 0.0;
    var d_decayed = 0.0;
    for (var c = 0u; c < COLUMNS_EACH; c++) {
      d_query = fma(state[i][c], d_out[c], d_query);
      d_key = fma(gradient[i][c], error[c], d_key);
      d_decayed = fma(before[i][c], d_value[c], d_decayed);
      let d = fma(-keys[i], d_value[c], gradient[i][c]);
      d_decay = fma(d, factor * before[i][c], d_decay);
      gradient[i][c] = d * factor;
    }
    let at = (k_lane + i * K_LANES) * STRIDE + c_lane;
    query_parts[at] = p.scale * d_query;
    key_parts[at] = beta * d_key - factor * d_decayed;
  }
  beta_parts[thread] = d_beta;
  decay_parts[thread] = d_decay;
  workgroupBarrier();
  let of_row = (row * HEADS + head) * GROUPS + group;
  for (var x = thread; x < 2u * KEY_WIDTH; x += THREADS) {
    let at = x % KEY_WIDTH * STRIDE;
    var sum = 0.0;
    for (var c = 0u; c < C_LANES; c++) { sum += select(key_parts[at + c], query_parts[at + c], x < KEY_WIDTH); }
    store(p.parts + of_row * 2u * KEY_WIDTH + x, sum);
  }
  for (var x = thread; x < 2u * K_LANES; x += THREADS) {
    let at = x % K_LANES * C_LANES;
    var sum = 0.0;
    for (var c = 0u; c < C_LANES; c++) { sum += select(decay_parts[at + c], beta_parts[at + c], x < K_LANES); }
    store(p.row_parts + of_row * 2u * K_LANES + x, sum);
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group_id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group_id, groups);
  if (i >= sequences() * HEADS * GROUPS) { return; }
  let index = i / GROUPS / HEADS;
  let group = i % GROUPS;
  head = i / GROUPS % HEADS;
  k_lane = thread / C_LANES;
  c_lane = thread % C_LANES;
  first_column = group * COLUMNS_HERE + c_lane;
  if (thread == 0u) { sequence_rows = vec2u(first_row(index), first_row(index + 1u)); }
  let range = workgroupUniformLoad(&sequence_rows);
  let blocks = (range.y - range.x + BLOCK - 1u) / BLOCK;
  // Sequences have places of their own, because their numbers and first rows grow.
  let kept = p.kept + (((range.x / BLOCK + index) * HEADS + head) * GROUPS + group) * TABLE;
  const OF_BLOCK = HEADS * GROUPS * TABLE;
  let own = p.own + i * BLOCK * TABLE;
  let errors = p.errors + i * BLOCK * COLUMNS_HERE;
  for (var block = 0u; block < blocks; block++) {
    keep_state(kept + block * OF_BLOCK, thread);
    if (block + 1u == blocks) { break; }
    for (var row = block * BLOCK; row < (block + 1u) * BLOCK; row++) { make_state(range.x + row, errors); }
  }
  for (var b = 0u; b < blocks; b++) {
    let block = blocks - 1u - b;
    let first = range.x + block * BLOCK;
    let count = min(BLOCK, range.y - first);
    state = kept_state(kept + block * OF_BLOCK, thread);
    for (var r = 0u; r < count; r++) {
      keep_state(own + r * TABLE, thread);
      make_state(first + r, errors + r * COLUMNS_HERE);
    }
    storageBarrier();
    workgroupBarrier();
    for (var r = count; r > 0u; r--) {
      before = kept_state(own + (r - 1u) * TABLE, thread);
      back(first + r - 1u, errors + (r - 1u) * COLUMNS_HERE, group, thread);
      state = before;
    }
    storageBarrier();
    workgroupBarrier();
  }
}
)";

constexpr const char* kAddValueHeads = R"(
fn element(i: u32) -> f32 {
  let row = i / COLUMNS;
  let head = i % COLUMNS / KEY_WIDTH;
  var sum = 0.0;
  for (var own = 0u; own < HEADS; own++) {
    if (own / HEADS_OF_KEY % KEY_HEADS != head) { continue; }
    for (var group = 0u; group < GROUPS; group++) {
      sum += load(p.parts + ((row * HEADS + own) * GROUPS + group) * 2u * KEY_WIDTH + p.part + i % KEY_WIDTH);
    }
  }
  return sum;
}
)";
constexpr const char* kAddRowParts = R"(
fn element(i: u32) -> f32 {
  var sum = 0.0;
  for (var group = 0u; group < GROUPS; group++) {
    for (var l = 0u; l < K_LANES; l++) { sum += load(p.row_parts + (i * GROUPS + group) * 2u * K_LANES + p.part + l); }
  }
  return sum;
}
)";

// Threads along rows and columns of a state, and the columns of each thread.
struct DeltaShape {
  uint32_t k_lanes = 16, c_lanes = 16, columns_each = 4;
  uint32_t columns() const { return c_lanes * columns_each; }
  uint64_t keys_each(uint32_t width) const { return divide_up(width, k_lanes); }
  // Of workgroup memory.
  uint64_t bytes(uint32_t key_width) const {
    return 4 * (2 * k_lanes * columns() + 2 * k_lanes * keys_each(key_width) * (c_lanes + 1) + 2 * k_lanes * c_lanes);
  }
};

DeltaShape delta_shape(const Adapter& adapter, uint32_t key_width) {
  constexpr uint64_t kOtherBytes = 64;
  const DeltaShape wide, narrow{.c_lanes = 4};
  if (adapter.is_software) return {.k_lanes = 8, .c_lanes = 8, .columns_each = 2};
  return wide.bytes(key_width) + kOtherBytes <= adapter.workgroup_bytes ? wide : narrow;
}

}  // namespace

void Emitter::emit(const DeltaRuleBackward& op) {
  const ValueType &k = type(op.k), &v = type(op.v);
  const uint64_t rows = most_rows(k.extent), sequences = request_.maxima.sequences;
  const DeltaShape shape = delta_shape(adapter_, k.width);
  const auto groups = static_cast<uint32_t>(divide_up(v.width, shape.columns()));
  const uint64_t table = shape.keys_each(k.width) * shape.k_lanes * shape.columns() * groups;  // of a head
  // The states within blocks and those between them take about as much memory.
  const double mean_rows = static_cast<double>(rows) / static_cast<double>(std::max<uint64_t>(sequences, 1));
  const auto block = std::max(static_cast<uint32_t>(std::lround(std::sqrt(mean_rows))), 2u);
  const uint32_t kept = scratch((rows / block + sequences + 1) * v.heads * table);
  const uint32_t own = scratch(sequences * v.heads * block * table);
  const uint32_t errors = scratch(sequences * v.heads * groups * block * shape.columns());
  const uint32_t parts = scratch(rows * v.heads * groups * 2 * k.width);
  const uint32_t row_parts = scratch(rows * v.heads * groups * 2 * shape.k_lanes);
  const std::vector<Number> constants = {{"HEADS", v.heads},
                                         {"KEY_HEADS", k.heads},
                                         {"HEADS_OF_KEY", op.key_heads == KeyHeads::block ? v.heads / k.heads : 1},
                                         {"KEY_WIDTH", k.width},
                                         {"GROUPS", groups},
                                         {"K_LANES", shape.k_lanes}};
  Kernel kernel{.name = "delta_rule_backward",
                .body = kDeltaBackward,
                .extent = v.extent,
                .threads = shape.k_lanes * shape.c_lanes};
  kernel.constants = constants;
  kernel.constants.insert(
      kernel.constants.end(),
      {{"VALUE_WIDTH", v.width}, {"C_LANES", shape.c_lanes}, {"COLUMNS_EACH", shape.columns_each}, {"BLOCK", block}});
  kernel.params = {{"q", at(op.q)},       {"k", at(op.k)},         {"v", at(op.v)},     {"decay", at(op.decay)},
                   {"beta", at(op.beta)}, {"d_out", at(op.d_out)}, {"d_v", at(op.d_v)}, {"kept", kept},
                   {"own", own},          {"errors", errors},      {"parts", parts},    {"row_parts", row_parts},
                   {"scale", op.scale}};
  kernel.bindings = {memory()};
  kernel.snippets = {kMath};
  use_step_rows(kernel);
  use_sequence_rows(kernel);
  kernel.grid = {.items = v.heads * groups, .of_sequences = true};
  add(kernel);
  const auto add_parts = [&](const char* element, ValueId out, uint32_t part) {
    Kernel sums = elementwise("delta_rule_backward_parts", element, out);
    sums.constants.insert(sums.constants.end(), constants.begin(), constants.end());
    sums.params.insert(sums.params.end(), {{"parts", parts}, {"row_parts", row_parts}, {"part", part}});
    add(sums);
  };
  add_parts(kAddValueHeads, op.d_q, 0);
  add_parts(kAddValueHeads, op.d_k, k.width);
  add_parts(kAddRowParts, op.d_beta, 0);
  add_parts(kAddRowParts, op.d_decay, shape.k_lanes);
}

}  // namespace sluice::webgpu
