// delta_rule: a workgroup runs kColumns columns of a head's state through all rows of a sequence in the step, in order.
// kLanes threads share a column; each holds every kLanes-th number of it in registers. A sum along the column adds each
// thread's numbers, then the threads' sums, in ascending order.
#include "device/webgpu/emitter.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kColumns = 16, kLanes = 8;

// Elements of S, k and q beyond KEY_WIDTH are 0 and change no sum.
constexpr const char* kDeltaRule = R"(
const SHARE = (KEY_WIDTH + LANES - 1u) / LANES;
const BLOCKS = (VALUE_WIDTH + COLUMNS - 1u) / COLUMNS;
var<workgroup> key: array<f32, SHARE * LANES>;
var<workgroup> query: array<f32, SHARE * LANES>;
var<workgroup> found: array<f32, THREADS>;
var<workgroup> asked: array<f32, THREADS>;
var<workgroup> sequence_rows: vec2u;

// The slot for the state behind row `i` of `count`; NO_SLOT: that state is not kept.
fn kept_slot(index: u32, i: u32, count: u32) -> u32 {
  if (i + 1u == count) { return page_entry(index, SLOT_WRITTEN); }
  if (i + SLOT_ENTRIES < p.page_entries) { return page_entry(index, SLOT_ENTRIES + i); }
  return NO_SLOT;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  if (i >= sequences() * HEADS * BLOCKS) { return; }
  let index = i / BLOCKS / HEADS;
  let head = i / BLOCKS % HEADS;
  let column = i % BLOCKS * COLUMNS + thread % COLUMNS;
  let lane = thread / COLUMNS;
  if (thread == 0u) { sequence_rows = vec2u(first_row(index), first_row(index + 1u)); }
  let range = workgroupUniformLoad(&sequence_rows);

  var s: array<f32, SHARE>;
  let read = page_entry(index, SLOT_READ);
  for (var j = 0u; j < SHARE; j++) {
    s[j] = 0.0;
    if (read != NO_SLOT && is_held(j, lane, column)) {
      s[j] = bitcast<f32>(states[read * PAGE_WORDS + place(head, j, lane, column)]);
    }
  }
  for (var row = range.x; row < range.y; row++) {
    let key_at = (row * KEY_HEADS + head / HEADS_OF_KEY % KEY_HEADS) * KEY_WIDTH;
    for (var j = thread; j < SHARE * LANES; j += THREADS) {
      key[j] = 0.0;
      query[j] = 0.0;
      if (j < KEY_WIDTH) {
        key[j] = load(p.k + key_at + j);
        query[j] = load(p.q + key_at + j);
      }
    }
    let value_at = (row * HEADS + head) * VALUE_WIDTH + column;
    var value = 0.0;
    if (column < VALUE_WIDTH) { value = load(p.v + value_at); }
    let factor = exact_exp(load(p.decay + row * HEADS + head));
    let beta = load(p.beta + row * HEADS + head);
    workgroupBarrier();

    var sum = 0.0;
    for (var j = 0u; j < SHARE; j++) {
      s[j] *= factor;
      sum += s[j] * key[j * LANES + lane];
    }
    found[thread] = sum;
    workgroupBarrier();
    sum = 0.0;
    for (var j = 0u; j < LANES; j++) { sum += found[j * COLUMNS + thread % COLUMNS]; }
    let change = beta * (value - sum);
    sum = 0.0;
    for (var j = 0u; j < SHARE; j++) {
      s[j] += change * key[j * LANES + lane];
      sum += s[j] * query[j * LANES + lane];
    }
    asked[thread] = sum;
    workgroupBarrier();
    if (lane == 0u && column < VALUE_WIDTH) {
      sum = 0.0;
      for (var j = 0u; j < LANES; j++) { sum += asked[j * COLUMNS + thread % COLUMNS]; }
      store(p.out + value_at, p.scale * sum);
    }

    let kept = kept_slot(index, row - range.x, range.y - range.x);
    for (var j = 0u; j < SHARE && kept != NO_SLOT; j++) {
      if (is_held(j, lane, column)) {
        states[kept * PAGE_WORDS + place(head, j, lane, column)] = bitcast<u32>(s[j]);
      }
    }
  }
}

// A thread's j-th element of the state: whether it exists, and its place in a slot.
fn is_held(j: u32, lane: u32, column: u32) -> bool { return j * LANES + lane < KEY_WIDTH && column < VALUE_WIDTH; }
fn place(head: u32, j: u32, lane: u32, column: u32) -> u32 {
  return (head * KEY_WIDTH + j * LANES + lane) * VALUE_WIDTH + column;
}
)";

}  // namespace

void Emitter::emit(const DeltaRule& op) {
  const StateDecl& decl = program_.states[op.state.state];
  const uint32_t heads = decl.heads, key_heads = type(op.k).heads;
  Kernel kernel{.name = "delta_rule", .body = kDeltaRule, .extent = type(op.v).extent, .threads = kColumns * kLanes};
  kernel.constants = {{"HEADS", heads},
                      {"KEY_HEADS", key_heads},
                      {"HEADS_OF_KEY", op.key_heads == KeyHeads::block ? heads / key_heads : 1},
                      {"KEY_WIDTH", decl.key_width},
                      {"VALUE_WIDTH", decl.value_width},
                      {"COLUMNS", kColumns},
                      {"LANES", kLanes}};
  kernel.params = {{"q", at(op.q)},       {"k", at(op.k)},     {"v", at(op.v)},    {"decay", at(op.decay)},
                   {"beta", at(op.beta)}, {"out", at(op.out)}, {"scale", op.scale}};
  kernel.snippets = {kMath};
  use_slots(kernel, op.state.state);
  use_sequence_rows(kernel);
  kernel.grid = {.items = uint64_t{heads} * ((decl.value_width + kColumns - 1) / kColumns), .of_sequences = true};
  add(kernel);
}

}  // namespace sluice::webgpu
