// short_conv: a thread a channel of a row. A row's taps are rows of the step as far back as its sequence goes there,
// then the state.
#include "device/webgpu/emitter.h"

namespace sluice::webgpu {
namespace {

// Of a row: how many rows of its sequence come before it in the step, at most `most`.
constexpr const char* kRowsBefore = R"(
fn rows_before(row: u32, most: u32) -> u32 {
  var count = 0u;
  while (count < most && count < row && sequence(row - count - 1u) == sequence(row)) { count++; }
  return count;
}
fn is_last(row: u32) -> bool { return row + 1u == rows() || sequence(row + 1u) != sequence(row); }
)";

constexpr const char* kShortConv = R"(
// x of `back` rows before `row`; `before` of the sequence's rows are in the step.
fn x_of(row: u32, back: u32, before: u32, channel: u32, slot: u32) -> f32 {
  if (back <= before) { return load(p.x + (row - back) * CHANNELS + channel); }
  if (slot == NO_SLOT) { return 0.0; }
  return bitcast<f32>(states[slot * PAGE_WORDS + (TAPS - 1u + before - back) * CHANNELS + channel]);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups) * THREADS + thread;
  if (i >= rows() * CHANNELS) { return; }
  let row = i / CHANNELS;
  let channel = i % CHANNELS;
  let before = rows_before(row, max(TAPS - 1u, p.page_entries));
  let read = page_entry(sequence(row), SLOT_READ);
  var sum = 0.0;
  for (var tap = 0u; tap < TAPS; tap++) {
    sum += factors[p.weight + channel * TAPS + tap] * x_of(row, TAPS - 1u - tap, before, channel, read);
  }
  store(p.out + i, sum / (1.0 + exact_exp(-sum)));
  if (is_last(row)) { keep(page_entry(sequence(row), SLOT_WRITTEN), row, before, channel, read); }
  if (before + SLOT_ENTRIES < p.page_entries) {
    keep(page_entry(sequence(row), SLOT_ENTRIES + before), row, before, channel, read);
  }
}

fn keep(slot: u32, row: u32, before: u32, channel: u32, read: u32) {
  if (slot == NO_SLOT) { return; }
  for (var tap = 0u; tap + 1u < TAPS; tap++) {
    let x = x_of(row, TAPS - 2u - tap, before, channel, read);
    states[slot * PAGE_WORDS + tap * CHANNELS + channel] = bitcast<u32>(x);
  }
}
)";

}  // namespace

void Emitter::use_slots(Kernel& kernel, uint32_t state_id) const {
  kernel.constants.insert(kernel.constants.end(),
                          {{"PAGE_WORDS", static_cast<uint32_t>(layout_.state(state_id).page_words)},
                           {"NO_SLOT", ~uint32_t{0}},
                           {"SLOT_READ", kSlotRead},
                           {"SLOT_WRITTEN", kSlotWritten},
                           {"SLOT_ENTRIES", kSlotEntries}});
  kernel.bindings = {memory(), state("states", state_id, Access::read_write)};
  use_step_rows(kernel);
  use_pages(kernel, program_.states[state_id].group);
  kernel.snippets.emplace_back(kRowsBefore);
}

void Emitter::emit(const ShortConv& op) {
  Kernel kernel{.name = "short_conv", .body = kShortConv, .extent = type(op.x).extent};
  kernel.constants = {{"CHANNELS", columns(op.x)}, {"TAPS", program_.weights[op.weight].shape.columns}};
  kernel.params = {{"x", at(op.x)}, {"out", at(op.out)}, {"weight", layout_.factor(op.weight)}};
  kernel.snippets = {kMath};
  use_slots(kernel, op.state.state);
  kernel.bindings.push_back(factors());
  kernel.grid = {.items = columns(op.x), .per = kThreads};
  add(kernel);
}

}  // namespace sluice::webgpu
