// attention to the step's own rows: keys and values are read where they lie in memory, as f32. They are usually
// computed by tiles of queries (ops_attention_tiles.cpp). The kernel here, which also knows what is added to keys by
// their distance, has a workgroup for each head of a row: a thread for each key of the tile computes scores, then a
// thread for each element sums values. Tiles of 64 keys are merged in ascending order. The row's sequence, or the first
// row that it sees, says where they begin (graph/seen.h).
#include "device/webgpu/emitter.h"
#include "graph/op_check.h"

namespace sluice::webgpu {
namespace {

constexpr const char* kOwnAttention = R"(
const LOWEST = -3.0e38;
// Key j is row own_row + (j - own_begin) of k.
struct Seen { first: u32, last: u32, own_begin: u32, own_row: u32 }
var<workgroup> query: array<f32, KEY_WIDTH>;
var<workgroup> shares: array<f32, 64>;
var<workgroup> seen: Seen;

fn score_of(key: u32, distance: u32, head: u32) -> f32 {
  var score = 0.0;
  for (var i = 0u; i < KEY_WIDTH; i++) { score += query[i] * key_element(key + i, distance, head * KEY_WIDTH + i); }
  score *= p.scale;
  if (p.softcap > 0.0) { score = p.softcap * exact_tanh(score / p.softcap); }
  return score;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  if (i >= rows() * HEADS) { return; }
  let row = i / HEADS;
  let key_head = i % HEADS / (HEADS / KEY_HEADS);
  for (var at = thread; at < KEY_WIDTH; at += THREADS) { query[at] = load(p.q + i * KEY_WIDTH + at); }
  if (thread == 0u) { seen = seen_by(row); }
  let range = workgroupUniformLoad(&seen);
  var largest = LOWEST;
  var sum = 0.0;
  var out: array<f32, THREAD_VALUES>;
  for (var tile = range.first / 64u; tile <= range.last / 64u; tile++) {
    let tile_row = range.own_row + tile * 64u - range.own_begin;
    let at = tile * 64u + thread;
    let is_seen = at >= range.first && at <= range.last;
    var score = LOWEST;
    if (is_seen) {
      let key_row = tile_row + thread;
      score = score_of(p.k + (key_row * KEY_HEADS + key_head) * KEY_WIDTH, row - key_row, key_head);
    }
    let new_largest = max(largest, max_all(score, thread));
    var share = 0.0;
    if (is_seen) { share = exact_exp(score - new_largest); }
    shares[thread] = share;
    let factor = exact_exp(largest - new_largest);
    sum = sum * factor + sum_all(share, thread);
    largest = new_largest;
    let begin = max(range.first, tile * 64u) - tile * 64u;
    let end = min(range.last - tile * 64u, 63u);
    for (var k = 0u; k < THREAD_VALUES; k++) {
      let element = thread + k * 64u;
      if (element >= VALUE_WIDTH) { break; }
      var x = out[k] * factor;
      for (var j = begin; j <= end; j++) {
        x += shares[j] * load(p.v + ((tile_row + j) * KEY_HEADS + key_head) * VALUE_WIDTH + element);
      }
      out[k] = x;
    }
  }
  for (var k = 0u; k < THREAD_VALUES; k++) {
    let element = thread + k * 64u;
    if (element < VALUE_WIDTH) { store(p.out + i * VALUE_WIDTH + element, out[k] / sum); }
  }
}
)";

// By position; own rows begin with the sequence's first row in the step.
constexpr const char* kSeenByPosition = R"(
fn seen_by(row: u32) -> Seen {
  let first = first_row(sequence(step_row(row)));
  let begin = position(first);
  return Seen(max(first_seen(row), begin), last_seen(row), begin, first);
}
)";
constexpr const char* kSeenByRow = R"(
fn seen_by(row: u32) -> Seen {
  let first = memory[p.first + row];
  return Seen(0u, memory[p.last + row] - first, 0u, first);
}
)";

constexpr const char* kFirstOfInput = R"(
fn first_seen(row: u32) -> u32 { return memory[p.first + row]; }
)";
constexpr const char* kFirstOfWindow = R"(
fn first_seen(row: u32) -> u32 {
  let at = position(step_row(row));
  return select(at + 1u - p.window, 0u, p.window == 0u || at < p.window);
}
)";
constexpr const char* kLastOfInput = R"(
fn last_seen(row: u32) -> u32 { return memory[p.last + row]; }
)";
constexpr const char* kLastIsOwn = R"(
fn last_seen(row: u32) -> u32 { return position(step_row(row)); }
)";

// Element `element` of all key heads, `distance` rows before the query's; keys behind the query's row have large ones.
constexpr const char* kKeyAlone = R"(
fn key_element(at: u32, distance: u32, element: u32) -> f32 { return load(at); }
)";
constexpr const char* kKeyByDistance = R"(
fn key_element(at: u32, distance: u32, element: u32) -> f32 {
  if (distance >= DISTANCES) { return load(at); }
  return load(at) + factors[p.relative + distance * KEY_HEADS * KEY_WIDTH + element];
}
)";

}  // namespace

void Emitter::use_seen(Kernel& kernel, const Attention& op) const {
  kernel.params.push_back({"window", op.window});
  if (op.first != kNone) kernel.params.push_back({"first", at(op.first)});
  kernel.snippets.emplace_back(op.first != kNone ? kFirstOfInput : kFirstOfWindow);
  use_last_seen(kernel, op);
}

void Emitter::use_last_seen(Kernel& kernel, const Attention& op) const {
  if (op.last != kNone) kernel.params.push_back({"last", at(op.last)});
  kernel.snippets.emplace_back(op.last != kNone ? kLastOfInput : kLastIsOwn);
}

void Emitter::emit_attention_own(const Attention& op) {
  if (op.relative == kNone && (emit_own_attention_matrices(op) || emit_own_attention_tiles(op))) return;
  const KeyShape keys = op.keys(program_);
  const uint32_t heads = type(op.q).heads;
  Kernel kernel{.name = "attention_own", .body = kOwnAttention, .extent = type(op.q).extent};
  kernel.constants = {{"HEADS", heads},
                      {"KEY_HEADS", keys.heads},
                      {"KEY_WIDTH", keys.key_width},
                      {"VALUE_WIDTH", keys.value_width},
                      {"THREAD_VALUES", (keys.value_width + kThreads - 1) / kThreads}};
  kernel.params = {{"q", at(op.q)},     {"k", at(op.k)},     {"v", at(op.v)},
                   {"out", at(op.out)}, {"scale", op.scale}, {"softcap", op.softcap}};
  kernel.bindings = {memory()};
  kernel.snippets = {kMath};
  use_reduce(kernel, adapter_);
  if (has_positions(type(op.q).extent)) {
    use_step_rows(kernel);
    use_sequence_rows(kernel);
    use_seen(kernel, op);
    kernel.snippets.emplace_back(kSeenByPosition);
  } else {
    kernel.params.insert(kernel.params.end(), {{"first", at(op.first)}, {"last", at(op.last)}});
    kernel.snippets.emplace_back(kSeenByRow);
  }
  if (op.relative != kNone) {
    kernel.constants.push_back({"DISTANCES", program_.weights[op.relative].shape.rows});
    kernel.params.push_back({"relative", layout_.factor(op.relative)});
    kernel.bindings.push_back(factors());
  }
  kernel.snippets.emplace_back(op.relative != kNone ? kKeyByDistance : kKeyAlone);
  kernel.grid = {.items = heads};
  add(kernel);
}

}  // namespace sluice::webgpu
