#include "device/webgpu/emitter.h"

#include <algorithm>

#include "graph/operands.h"

namespace sluice::webgpu {
namespace {

// One thread for each element. The op's flag becomes the first result and its lowest row with a value that is not
// finite (LookedAt).
constexpr const char* kFind = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups) * THREADS + thread;
  if (i >= rows() * COLUMNS || is_finite(load(p.x + i))) { return; }
  atomicMin(&flags[p.op], p.result + i / COLUMNS);
}
)";

constexpr const char* kElement = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups) * THREADS + thread;
  if (i >= rows() * COLUMNS) { return; }
  store(p.out + i, element(i));
}
)";

constexpr const char* kSinglePart = R"(
alias Part = f32;
fn load_part(at: u32) -> Part { return load(at); }
fn element(i: u32) -> f32 { return part(i); }
)";
constexpr const char* kPartOfFour = R"(
alias Part = vec4f;
fn load_part(at: u32) -> Part { return load4(at); }

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = (group_index(group, groups) * THREADS + thread) * 4u;
  if (i >= rows() * COLUMNS) { return; }
  store4(p.out + i, part(i));
}
)";
std::string function_of_part(const char* function, bool in_fours) {
  std::string of_each;
  for (const char* component : {"x.x", "x.y", "x.z", "x.w"})
    of_each += cat(of_each.empty() ? "" : ", ", function, "(", component, ")");
  return cat("fn ", function, "_part(x: Part) -> Part { return ",
             in_fours ? cat("vec4f(", of_each, ")") : cat(function, "(x)"), "; }\n");
}

}  // namespace

Dispatches Emitter::emit_all(bool looking) {
  if (looking) runs_ = {};
  deferred_words_ = deferred_words();
  std::span<const FusedRun> runs = runs_;
  for (op_ = 0; op_ < program_.ops.size();) {
    // This device does not compute guesses.
    const auto guess = std::ranges::find(program_.guesses, op_, &ExpertGuess::first_op);
    if (guess != program_.guesses.end()) {
      op_ = guess->end_op;
      continue;
    }
    scratch_taken_ = 2 * deferred_words_;
    while (!runs.empty() && runs.front().first_op < op_) runs = runs.subspan(1);
    if (!runs.empty() && runs.front().first_op == op_) {
      op_ = emit_run(runs.front());
      if (op_ > runs.front().first_op) continue;
    }
    std::visit([&](const auto& op) { emit(op); }, program_.ops[op_]);
    if (looking && !layout_.has_host_scatter(program_.ops[op_]))
      for_each_output(program_.ops[op_], [&, result = 0u](ValueId id) mutable { emit_check(id, result++); });
    ++op_;
  }
  return std::move(dispatches_);
}

uint32_t Emitter::emit_run(const FusedRun& run) {
  const bool has_rows = run.rows_end > run.first_op;
  if (run.kind == RunKind::rows) {
    emit_rows(run.first_op, run.end_op);
  } else if (run.kind == RunKind::short_conv) {
    emit_conv(*run.conv);
  } else if (run.kind == RunKind::finished) {
    return emit_finished(run) ? run.end_op : run.first_op;
  } else if (run.kind == RunKind::joined) {
    return emit_joined(*run.joined) ? run.end_op : run.first_op;
  } else if (run.kind == RunKind::heads && !has_rows) {
    emit_heads(run);
  } else if (run.kind == RunKind::heads && class_ == TokenClass::decode) {
    emit_attention_in_parts(std::get<Attention>(program_.ops[run.rows_end]), run.heads);
  } else if (run.kind == RunKind::heads) {
    FusedRun queries = run;
    queries.end_op = run.rows_end;
    emit_heads(queries);
    return run.rows_end;
  } else if (!emit_products_of(run)) {
    if (!has_rows) return run.first_op;
    emit_rows(run.first_op, run.rows_end);
    FusedRun rest = run;
    rest.first_op = run.rows_end;
    return emit_products_of(rest) ? run.end_op : run.rows_end;
  }
  return run.end_op;
}

bool Emitter::emit_products_of(const FusedRun& run) {
  return run.kind == RunKind::linears ? emit_linears(run) : emit_gated(run);
}

void Emitter::emit_check(ValueId id, uint32_t result) {
  if (type(id).element != Element::f32) return;
  Kernel kernel{.name = "find_non_finite", .body = kFind, .extent = type(id).extent};
  kernel.constants = {{"COLUMNS", columns(id)}};
  kernel.params = {{"x", at(id)}, {"op", op_}, {"result", LookedAt{.result = result}.word()}};
  kernel.bindings = {
      memory(), {.name = "flags", .slot = {SlotKind::flags}, .access = Access::read_write, .element = "atomic<u32>"}};
  kernel.snippets = {kMath};
  kernel.grid = {.items = columns(id), .per = kThreads};
  add(kernel);
}

Dispatch& Emitter::add(const Kernel& kernel) {
  PipelineText text = pipeline_text(kernel);
  if (adapter_.is_software) text.wgsl = with_loops_kept(text.wgsl);
  Dispatch dispatch{.extent = kernel.extent, .grid = kernel.grid, .op = op_};
  const auto [found, is_new] = by_text_.try_emplace(text.wgsl, static_cast<uint32_t>(dispatches_.texts.size()));
  if (is_new) dispatches_.texts.push_back(std::move(text));
  dispatch.text = found->second;
  dispatch.slots.reserve(kernel.bindings.size());
  for (const Binding& binding : kernel.bindings) dispatch.slots.push_back(binding.slot);
  dispatch.params.reserve(kernel.params.size());
  for (const Number& param : kernel.params) dispatch.params.push_back(param.word());
  return dispatches_.list.emplace_back(std::move(dispatch));
}

Kernel Emitter::elementwise(const char* name, std::string element, ValueId out) const {
  Kernel kernel{.name = name, .body = std::move(element) + kElement, .extent = type(out).extent};
  kernel.constants = {{"COLUMNS", columns(out)}};
  kernel.params = {{"out", at(out)}};
  kernel.bindings = {memory()};
  kernel.grid = {.items = columns(out), .per = kThreads};
  return kernel;
}

Kernel Emitter::elementwise_by_parts(const char* name, const char* part, ValueId out,
                                     std::initializer_list<Operand> operands, const char* function) const {
  bool in_fours = columns(out) % 4 == 0 && at(out) % 4 == 0;
  for (const Operand& operand : operands) in_fours = in_fours && at(operand.value) % 4 == 0;
  const std::string text = cat(part, "\n", function == nullptr ? "" : function_of_part(function, in_fours));
  Kernel kernel = elementwise(name, text, out);
  for (const Operand& operand : operands) kernel.params.push_back({operand.name, at(operand.value)});
  if (in_fours) {
    kernel.body = text + kPartOfFour;
    kernel.bindings.front().element = kFours;
    kernel.grid = {.items = columns(out) / 4, .per = kThreads};
  } else {
    kernel.snippets.emplace_back(kSinglePart);
  }
  return kernel;
}

void Emitter::use_step_rows(Kernel& kernel) const {
  if (!has_positions(kernel.extent)) {
    kernel.snippets.emplace_back("fn step_row(row: u32) -> u32 { return row; }\n");
    return;
  }
  const bool all = kernel.extent.symbol == Symbol::rows;
  const int wanted = wanted_input(program_);
  const StepLayout& step = layout_.step();
  kernel.params.insert(kernel.params.end(), {{"wanted", all ? 0u : step.inputs[static_cast<size_t>(wanted)]},
                                             {"positions", step.positions},
                                             {"row_sequences", step.row_sequences}});
  kernel.snippets.emplace_back(all ? R"(
fn step_row(row: u32) -> u32 { return row / EXTENT_RATIO; }
)"
                                   : R"(
fn step_row(row: u32) -> u32 { return word(p.wanted + row / EXTENT_RATIO); }
)");
  kernel.snippets.emplace_back(R"(
fn position(step_row: u32) -> u32 { return word(p.positions + step_row); }
fn sequence(step_row: u32) -> u32 { return word(p.row_sequences + step_row); }
)");
}

void Emitter::use_sequence_rows(Kernel& kernel) {
  kernel.snippets.emplace_back(R"(
fn first_row(index: u32) -> u32 {
  var low = 0u;
  var high = counts.rows;
  while (low < high) {
    let middle = (low + high) / 2u;
    if (sequence(middle) < index) { low = middle + 1u; } else { high = middle; }
  }
  return low;
}
)");
}

void Emitter::use_pages(Kernel& kernel, uint32_t group) const {
  kernel.params.insert(kernel.params.end(), {{"pages", layout_.step().pages[group]},
                                             {"first_pages", layout_.step().first_pages[group]},
                                             {"page_entries", request_.maxima.pages_per_sequence[group]}});
  kernel.snippets.emplace_back(R"(
fn page_entry(sequence: u32, entry: u32) -> u32 { return memory[p.pages + sequence * p.page_entries + entry]; }
fn page_of(sequence: u32, tile: u32) -> u32 { return page_entry(sequence, tile - memory[p.first_pages + sequence]); }
)");
}

uint64_t Emitter::most_rows(const Extent& extent) const { return request_.maxima.counts.rows_of(extent); }

uint32_t Emitter::scratch(uint64_t words) {
  const uint64_t begin = layout_.scratch() + scratch_taken_;
  scratch_taken_ += (words + 15) / 16 * 16;
  dispatches_.scratch_words = std::max(dispatches_.scratch_words, scratch_taken_);
  return static_cast<uint32_t>(begin);
}

std::string Emitter::decoder(WeightId id, const std::string& name, Rows rows) const {
  return weight_snippet(layout_.matrix(id).format, program_.weights[id].shape.columns, name, rows);
}

std::string Emitter::product_decoder(WeightId id, const std::string& name, Rows rows) const {
  return decoder(id, name, rows) + unit_snippet(layout_.matrix(id).format, name);
}

}  // namespace sluice::webgpu
