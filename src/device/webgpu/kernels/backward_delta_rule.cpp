// delta_rule_backward: a workgroup for each value head of a sequence. The states that the gradients need are kept for
// every BLOCK rows; those between are made again, block by block from the last one. A thread owns columns of the state
// and of its gradient, so the rows' steps need no other thread. d_q and d_k are sums along the state's rows: for these
// a thread owns rows.
//
// Heads of keys that several value heads share have the sum of theirs, in ascending order.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "device/webgpu/emitter.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kDeltaThreads = 128;

constexpr const char* kDeltaBackward = R"(
const TABLE = KEY_WIDTH * VALUE_WIDTH;
var<workgroup> sequence_rows: vec2u;
var<workgroup> value_gradient: array<f32, VALUE_WIDTH>;

fn key_at(row: u32, head: u32) -> u32 { return (row * KEY_HEADS + head / HEADS_OF_KEY % KEY_HEADS) * KEY_WIDTH; }

// One row: the state in front of it is at `before`; writes the one behind it and v - p.
fn make_state(row: u32, head: u32, before: u32, errors: u32, thread: u32) {
  let key = p.k + key_at(row, head);
  let factor = exact_exp(load(p.decay + row * HEADS + head));
  let beta = load(p.beta + row * HEADS + head);
  for (var j = thread; j < VALUE_WIDTH; j += THREADS) {
    var found = 0.0;
    for (var i = 0u; i < KEY_WIDTH; i++) { found = fma(load(before + i * VALUE_WIDTH + j) * factor, load(key + i), found); }
    let error = load(p.v + (row * HEADS + head) * VALUE_WIDTH + j) - found;
    store(errors + j, error);
    for (var i = 0u; i < KEY_WIDTH; i++) {
      let at = before + i * VALUE_WIDTH + j;
      store(at + TABLE, fma(load(key + i), error * beta, load(at) * factor));
    }
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  if (i >= sequences() * HEADS) { return; }
  let index = i / HEADS;
  let head = i % HEADS;
  if (thread == 0u) { sequence_rows = vec2u(first_row(index), first_row(index + 1u)); }
  let range = workgroupUniformLoad(&sequence_rows);
  let blocks = (range.y - range.x + BLOCK - 1u) / BLOCK;
  // Sequences have places of their own, because their numbers and first rows grow.
  let kept = p.kept + ((range.x / BLOCK + index) * HEADS + head) * TABLE;
  let own = p.own + i * (BLOCK + 2u) * TABLE;
  let d_state = own + (BLOCK + 1u) * TABLE;
  let errors = p.errors + i * BLOCK * VALUE_WIDTH;
  for (var j = thread; j < VALUE_WIDTH; j += THREADS) {
    for (var k = 0u; k < KEY_WIDTH; k++) {
      store(kept + k * VALUE_WIDTH + j, 0.0);
      store(d_state + k * VALUE_WIDTH + j, 0.0);
    }
  }
  // Forward, and then backward: round b of the first half makes the states of block b, and of the second half those of
  // the block that is differentiated.
  for (var b = 0u; b < 2u * blocks; b++) {
    let is_backward = b >= blocks;
    let block = select(b, 2u * blocks - 1u - b, is_backward);
    let first = range.x + block * BLOCK;
    let end = min(first + BLOCK, range.y);
    for (var j = thread; j < VALUE_WIDTH; j += THREADS) {
      for (var k = 0u; k < KEY_WIDTH; k++) {
        let at = k * VALUE_WIDTH + j;
        store(own + at, load(kept + block * HEADS * TABLE + at));
      }
    }
    for (var row = first; row < end; row++) {
      make_state(row, head, own + (row - first) * TABLE, errors + (row - first) * VALUE_WIDTH, thread);
    }
    if (!is_backward) {
      for (var j = thread; j < VALUE_WIDTH && block + 1u < blocks; j += THREADS) {
        for (var k = 0u; k < KEY_WIDTH; k++) {
          let at = k * VALUE_WIDTH + j;
          store(kept + (block + 1u) * HEADS * TABLE + at, load(own + BLOCK * TABLE + at));
        }
      }
      continue;
    }
    for (var back = 0u; back < end - first; back++) {
      let row = end - 1u - back;
      let before = own + (row - first) * TABLE;
      let row_errors = errors + (row - first) * VALUE_WIDTH;
      let d_out = p.d_out + (row * HEADS + head) * VALUE_WIDTH;
      let key = key_at(row, head);
      let factor = exact_exp(load(p.decay + row * HEADS + head));
      let beta = load(p.beta + row * HEADS + head);
      var d_beta = 0.0;
      for (var j = thread; j < VALUE_WIDTH; j += THREADS) {
        var d_error = 0.0;
        let asked = p.scale * load(d_out + j);
        for (var k = 0u; k < KEY_WIDTH; k++) {
          let at = d_state + k * VALUE_WIDTH + j;
          let d = fma(load(p.q + key + k), asked, load(at));
          store(at, d);
          d_error = fma(d, load(p.k + key + k), d_error);
        }
        value_gradient[j] = beta * d_error;
        store(p.d_v + (row * HEADS + head) * VALUE_WIDTH + j, beta * d_error);
        d_beta += d_error * load(row_errors + j);
      }
      storageBarrier();
      workgroupBarrier();
      for (var k = thread; k < KEY_WIDTH; k += THREADS) {
        var d_query = 0.0;
        var d_key = 0.0;
        var d_decayed = 0.0;
        for (var j = 0u; j < VALUE_WIDTH; j++) {
          let at = k * VALUE_WIDTH + j;
          d_query = fma(load(before + TABLE + at), load(d_out + j), d_query);
          d_key = fma(load(d_state + at), load(row_errors + j), d_key);
          d_decayed = fma(load(before + at), value_gradient[j], d_decayed);
        }
        let to = p.parts + (row * HEADS + head) * 2u * KEY_WIDTH + k;
        store(to, p.scale * d_query);
        store(to + KEY_WIDTH, beta * d_key - factor * d_decayed);
      }
      storageBarrier();
      workgroupBarrier();
      var d_decay = 0.0;
      for (var j = thread; j < VALUE_WIDTH; j += THREADS) {
        for (var k = 0u; k < KEY_WIDTH; k++) {
          let at = k * VALUE_WIDTH + j;
          let d = fma(-load(p.k + key + k), value_gradient[j], load(d_state + at));
          d_decay = fma(d, factor * load(before + at), d_decay);
          store(d_state + at, d * factor);
        }
      }
      let all_beta = sum_all(d_beta, thread);
      let all_decay = sum_all(d_decay, thread);
      if (thread == 0u) {
        store(p.d_beta + row * HEADS + head, all_beta);
        store(p.d_decay + row * HEADS + head, all_decay);
      }
    }
  }
}
)";

constexpr const char* kAddValueHeads = R"(
fn element(i: u32) -> f32 {
  let row = i / COLUMNS;
  let head = i % COLUMNS / KEY_WIDTH;
  var sum = 0.0;
  for (var own = 0u; own < HEADS; own++) {
    if (own / HEADS_OF_KEY % KEY_HEADS == head) {
      sum += load(p.parts + (row * HEADS + own) * 2u * KEY_WIDTH + p.part + i % KEY_WIDTH);
    }
  }
  return sum;
}
)";

}  // namespace

void Emitter::emit(const DeltaRuleBackward& op) {
  const ValueType &k = type(op.k), &v = type(op.v);
  const uint64_t rows = most_rows(k.extent), sequences = request_.maxima.sequences;
  const uint64_t table = uint64_t{k.width} * v.width;
  // The states within blocks and those between them take about as much memory.
  const double mean_rows = static_cast<double>(rows) / static_cast<double>(std::max<uint64_t>(sequences, 1));
  const auto block = std::max(static_cast<uint32_t>(std::lround(std::sqrt(mean_rows))), 2u);
  const uint32_t kept = scratch((rows / block + sequences + 1) * v.heads * table);
  const uint32_t own = scratch(sequences * v.heads * (block + 2) * table);
  const uint32_t errors = scratch(sequences * v.heads * block * v.width);
  const uint32_t parts = scratch(rows * v.heads * 2 * k.width);
  const std::vector<Number> shape = {{"HEADS", v.heads},
                                     {"KEY_HEADS", k.heads},
                                     {"HEADS_OF_KEY", op.key_heads == KeyHeads::block ? v.heads / k.heads : 1},
                                     {"KEY_WIDTH", k.width}};
  Kernel kernel{.name = "delta_rule_backward", .body = kDeltaBackward, .extent = v.extent, .threads = kDeltaThreads};
  kernel.constants = shape;
  kernel.constants.insert(kernel.constants.end(), {{"VALUE_WIDTH", v.width}, {"BLOCK", block}});
  kernel.params = {{"q", at(op.q)},           {"k", at(op.k)},         {"v", at(op.v)},     {"decay", at(op.decay)},
                   {"beta", at(op.beta)},     {"d_out", at(op.d_out)}, {"d_v", at(op.d_v)}, {"d_decay", at(op.d_decay)},
                   {"d_beta", at(op.d_beta)}, {"kept", kept},          {"own", own},        {"errors", errors},
                   {"parts", parts},          {"scale", op.scale}};
  kernel.bindings = {memory()};
  kernel.snippets = {kMath};
  use_reduce(kernel, adapter_);
  use_step_rows(kernel);
  use_sequence_rows(kernel);
  kernel.grid = {.items = v.heads, .of_sequences = true};
  add(kernel);
  const auto add_heads = [&](ValueId out, uint32_t part) {
    Kernel sums = elementwise("delta_rule_backward_keys", kAddValueHeads, out);
    sums.constants.insert(sums.constants.end(), shape.begin(), shape.end());
    sums.params.insert(sums.params.end(), {{"parts", parts}, {"part", part}});
    add(sums);
  };
  add_heads(op.d_q, 0);
  add_heads(op.d_k, k.width);
}

}  // namespace sluice::webgpu
