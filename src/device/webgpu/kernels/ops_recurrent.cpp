// short_conv and delta_gates. A workgroup takes WIDTH channels of a row. In a run (graph/fusion.h) these are a head,
// which it may norm, and the row's last workgroup computes the gates. A row's taps are earlier rows of its sequence in
// the step, then rows of the state.
#include "base/text.h"
#include "device/webgpu/emitter.h"

namespace sluice::webgpu {
namespace {

// The number of rows of the same sequence before a row in this step, at most `most`.
constexpr const char* kRowsBefore = R"(
fn rows_before(row: u32, most: u32) -> u32 {
  var count = 0u;
  while (count < most && count < row && sequence(row - count - 1u) == sequence(row)) { count++; }
  return count;
}
fn is_last(row: u32) -> bool { return row + 1u == rows() || sequence(row + 1u) != sequence(row); }
)";

constexpr const char* kShortConv = R"(
const EACH = (WIDTH + THREADS - 1u) / THREADS;
const CONV_BLOCKS = (CHANNELS + WIDTH - 1u) / WIDTH;
// For a row: the number of rows of its sequence before it in this step, and the slots of the state.
struct Span { before: u32, read: u32, written: u32, kept: u32 }
var<workgroup> shared_span: Span;

fn span_of(row: u32) -> Span {
  var span = Span(rows_before(row, max(TAPS - 1u, p.page_entries)), page_entry(sequence(row), SLOT_READ), NO_SLOT, NO_SLOT);
  if (is_last(row)) { span.written = page_entry(sequence(row), SLOT_WRITTEN); }
  if (span.before + SLOT_ENTRIES < p.page_entries) {
    span.kept = page_entry(sequence(row), SLOT_ENTRIES + span.before);
  }
  return span;
}

// x of the row that is `back` rows before `row`, from this step or from the state.
fn x_of(row: u32, back: u32, channel: u32, span: Span) -> f32 {
  if (back <= span.before) { return load(p.x + (row - back) * CHANNELS + channel); }
  if (span.read == NO_SLOT) { return 0.0; }
  return bitcast<f32>(states[span.read * PAGE_WORDS + (TAPS - 1u + span.before - back) * CHANNELS + channel]);
}

fn keep(slot: u32, row: u32, channel: u32, span: Span) {
  if (slot == NO_SLOT) { return; }
  for (var tap = 0u; tap + 1u < TAPS; tap++) {
    states[slot * PAGE_WORDS + tap * CHANNELS + channel] = bitcast<u32>(x_of(row, TAPS - 2u - tap, channel, span));
  }
}

// The output of a block's channels: a value at `out` with `columns` a row, whose column 0 is channel `first`. The
// result is normed unless eps is negative.
struct ConvPart { out: u32, first: u32, columns: u32, eps: f32 }

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let row = i / BLOCKS;
  let block = i % BLOCKS;
  if (row >= rows()) { return; }
  if (block == CONV_BLOCKS) {
    write_gates(row, thread);
    return;
  }
  if (thread == 0u) { shared_span = span_of(row); }
  let span = workgroupUniformLoad(&shared_span);
  var x = array<f32, EACH>();
  var squares = 0.0;
  for (var k = 0u; k < EACH; k++) {
    let own = thread + k * THREADS;
    let channel = block * WIDTH + own;
    if (own >= WIDTH || channel >= CHANNELS) { continue; }
    var sum = 0.0;
    for (var tap = 0u; tap < TAPS; tap++) {
      sum += factors[p.weight + channel * TAPS + tap] * x_of(row, TAPS - 1u - tap, channel, span);
    }
    x[k] = sum / (1.0 + exact_exp(-sum));
    squares += x[k] * x[k];
    keep(span.written, row, channel, span);
    keep(span.kept, row, channel, span);
  }
  let part = part_of(block * WIDTH);
  var root = 1.0;
  if (part.eps >= 0.0) { root = sqrt(sum_all(squares, thread) + part.eps); }
  for (var k = 0u; k < EACH; k++) {
    let own = thread + k * THREADS;
    let channel = block * WIDTH + own;
    if (own >= WIDTH || channel >= CHANNELS) { continue; }
    store(part.out + row * part.columns + channel - part.first, x[k] / root);
  }
}
)";

// softplus(x) = log(1 + exp(x)) = max(x, 0) + log(1 + e) with e = exp(-|x|), which is 2 atanh(e / (2 + e)) where e is
// small.
constexpr const char* kDeltaGates = R"(
fn log_1_plus(e: f32) -> f32 {
  if (e > 0.25) { return exact_log(1.0 + e); }
  let s = e / (2.0 + e);
  let z = s * s;
  return 2.0 * s * fma(z, fma(z, fma(z, fma(z, 1.0 / 9.0, 1.0 / 7.0), 1.0 / 5.0), 1.0 / 3.0), 1.0);
}
fn write_gate(i: u32) {
  let head = i % GATE_HEADS;
  store(p.beta + i, sigmoid(load(p.b + i)));
  let x = load(p.a + i) + factors[p.rate_bias + head];
  let softplus = select(max(x, 0.0) + log_1_plus(exact_exp(-abs(x))), x, x > 20.0 || is_nan(x));
  store(p.decay + i, factors[p.rate + head] * softplus);
}
)";
constexpr const char* kGatesOfRow = R"(
fn write_gates(row: u32, thread: u32) {
  for (var head = thread; head < GATE_HEADS; head += THREADS) { write_gate(row * GATE_HEADS + head); }
}
)";
constexpr const char* kNoGates = R"(
fn write_gates(row: u32, thread: u32) {}
)";
constexpr const char* kGatesAlone = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups) * THREADS + thread;
  if (i < rows() * GATE_HEADS) { write_gate(i); }
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

void Emitter::emit(const ShortConv& op) { emit_conv({.conv = &op, .parts = {{.result = op.out}}, .width = kThreads}); }

void Emitter::emit_conv(const ConvRun& run) {
  const ShortConv& op = *run.conv;
  const uint32_t channels = columns(op.x), blocks = (channels + run.width - 1) / run.width;
  const uint32_t all_blocks = blocks + (run.gates == nullptr ? 0 : 1);
  Kernel kernel{.name = "short_conv", .body = kShortConv, .extent = type(op.x).extent};
  kernel.constants = {{"CHANNELS", channels},
                      {"TAPS", program_.weights[op.weight].shape.columns},
                      {"WIDTH", run.width},
                      {"BLOCKS", all_blocks}};
  kernel.params = {{"x", at(op.x)}, {"weight", layout_.factor(op.weight)}};
  kernel.snippets = {kMath};
  use_reduce(kernel, adapter_);
  use_slots(kernel, op.state.state);
  kernel.bindings.push_back(factors());
  if (run.gates == nullptr)
    kernel.snippets.emplace_back(kNoGates);
  else
    use_gates(kernel, *run.gates);
  std::string parts = "fn part_of(channel: u32) -> ConvPart {\n";
  uint32_t first = 0;
  for (uint32_t i = 0; i < run.parts.size(); ++i) {
    const ConvPart& part = run.parts[i];
    const uint32_t own = columns(part.result);
    kernel.params.insert(kernel.params.end(), {{cat("out_", i), at(part.result)},
                                               {cat("eps_", i), part.norm == nullptr ? -1.0f : part.norm->eps}});
    const std::string value = cat("ConvPart(p.out_", i, ", ", first, "u, ", own, "u, p.eps_", i, ");\n");
    first += own;
    parts += i + 1 == run.parts.size()
                 ? cat("  return ", value, "}\n")
                 : cat("  if (channel < ", first, "u) { return ", value.substr(0, value.size() - 1), " }\n");
  }
  kernel.body += parts;
  if (run.gates != nullptr) kernel.snippets.emplace_back(kGatesOfRow);
  kernel.grid = {.items = all_blocks};
  add(kernel);
}

void Emitter::use_gates(Kernel& kernel, const DeltaGates& op) const {
  kernel.constants.push_back({"GATE_HEADS", columns(op.decay)});
  kernel.params.insert(kernel.params.end(), {{"a", at(op.a)},
                                             {"b", at(op.b)},
                                             {"decay", at(op.decay)},
                                             {"beta", at(op.beta)},
                                             {"rate", layout_.factor(op.rate)},
                                             {"rate_bias", layout_.factor(op.bias)}});
  kernel.snippets.emplace_back(kDeltaGates);
}

void Emitter::emit(const DeltaGates& op) {
  Kernel kernel{.name = "delta_gates", .body = kGatesAlone, .extent = type(op.decay).extent};
  kernel.bindings = {memory(), factors()};
  kernel.snippets = {kMath};
  use_gates(kernel, op);
  kernel.grid = {.items = columns(op.decay), .per = kThreads};
  add(kernel);
}

}  // namespace sluice::webgpu
