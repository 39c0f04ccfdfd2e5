// Adapters of products in decode steps whose results only the run behind them reads, to make its rows: the output of
// attention and the down product.
//
// The product's dispatch has workgroups of its own that compute a x (adapted_products.cpp), beside those that multiply
// the weight. In steps of few rows the kernel that makes the rows adds scale b (a x) to each element as it reads it. So
// the adapter is no dispatch more, and nothing waits for a x but the next dispatch, which waits for the product anyway.
// But each workgroup that makes a row reads its b again. In steps of more rows a dispatch behind the product adds
// scale b (a x) once. The sums of both are of explicit `fma` alone, so a row has the same bits.
#include <algorithm>

#include "base/text.h"
#include "device/webgpu/emitter.h"
#include "device/webgpu/wgsl_template.h"
#include "graph/operands.h"

namespace sluice::webgpu {
namespace {

constexpr uint64_t kMostOfB = 32768;  // elements that every workgroup of the reader may read

// ${parameters}: the eights of a x.
constexpr const char* kDeferredSum = R"(
fn deferred_adapter(row: u32) -> RowAdapter { return row_adapter(p.deferred_slots, p.deferred_scales, row); }
fn deferred_four(row: u32, four: u32) -> vec4f {
  if (four >= DEFERRED_FOURS) { return vec4f(); }
  return load4(p.deferred_inner + (row * DEFERRED_FOURS + four) * 4u);
}
fn deferred_eight(row: u32, i: u32) -> mat2x4f {
  return mat2x4f(deferred_four(row, i * 2u), deferred_four(row, i * 2u + 1u));
}
fn deferred_sum(adapter: RowAdapter, column: u32, ${parameters}) -> f32 {
  deferred_b_begin_at(p.deferred_b);
  let row = ${matrix} * DEFERRED_COLUMNS + column;
  var sum = 0.0;
${sums}  return sum;
}
)";

// Of four neighbouring columns.
constexpr const char* kDeferredFour = R"(
fn deferred_sums(adapter: RowAdapter, column: u32, ${parameters}) -> vec4f {
  return vec4f(deferred_sum(adapter, column, ${arguments}), deferred_sum(adapter, column + 1u, ${arguments}),
               deferred_sum(adapter, column + 2u, ${arguments}), deferred_sum(adapter, column + 3u, ${arguments}));
}
)";

// Each workgroup begins 28 fours of columns behind the one before it. So they do not all ask for the same words at the
// same time (docs/experiments.md). The sums lie in row_x, which is free until the row is made.
constexpr const char* kOfReader = R"(
fn sum_deferred(row: u32, thread: u32, block: u32) {
  if (rows() > DEFERRED_ROWS) { return; }
  const kFours = DEFERRED_COLUMNS / 4u;
  let adapter = deferred_adapter(row);
${eights}  for (var i = thread; i < kFours; i += THREADS) {
    let four = (i + block * 28u) % kFours;
    row_x[four] = deferred_sums(adapter, four * 4u, ${arguments});
  }
  workgroupBarrier();
}
fn deferred(row: u32, i: u32, plain: vec4f) -> vec4f {
  let adapter = deferred_adapter(row);
  if (rows() > DEFERRED_ROWS || !has_adapter(adapter)) { return plain; }
  return fma(vec4f(adapter.scale), row_x[i], plain);
}
)";
constexpr const char* kOwnRow = R"(
var<workgroup> row_x: array<vec4f, DEFERRED_COLUMNS / 4u>;
)";

constexpr const char* kDeferredMain = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let four = group_index(group, groups) * THREADS + thread;
  let row = four / (DEFERRED_COLUMNS / 4u);
  let column = four % (DEFERRED_COLUMNS / 4u) * 4u;
  if (row >= rows()) { return; }
  let adapter = deferred_adapter(row);
  if (!has_adapter(adapter)) { return; }
${eights}  let at = p.out + four * 4u;
  store4(at, fma(vec4f(adapter.scale), deferred_sums(adapter, column, ${arguments}), load4(at)));
}
)";

}  // namespace

bool Emitter::may_defer_adapter(const Linear& op) const {
  const auto run = std::ranges::find(runs_, op_ + 1, &FusedRun::first_op);
  if (run == runs_.end() || layout_.matrix(op.weight).tiles.size() > 1 || !holds_b(op)) return false;
  uint32_t rows_end = run->end_op;
  if (run->kind == RunKind::linears || run->kind == RunKind::gated)
    rows_end = run->rows_end;
  else if (run->kind != RunKind::rows)
    return false;
  if (rows_end == run->first_op || readers_.outside(op.out, run->first_op, rows_end)) return false;
  // With a smaller than b, the product's own kernel adds the adapter faster.
  const WeightShape& b = program_.weights[op.adapter.b].shape;
  bool may = b.rows == columns(op.out) && b.rows <= columns(op.x) && uint64_t{b.rows} * b.columns <= kMostOfB &&
             are_rows_of_fours(run->first_op, rows_end);
  for_each_output(program_.ops[run->first_op], [&](ValueId id) {
    may = may && columns(id) == columns(op.out) && type(id).extent == type(op.out).extent;
  });
  // The run's kernel binds one buffer of factors.
  const uint32_t own = layout_.shared(op.adapter.b).buffer;
  for (uint32_t i = rows_end; i < run->end_op; ++i) {
    const auto* reader = std::get_if<Linear>(&program_.ops[i]);
    if (reader == nullptr || !reader->adapter) continue;
    for (const WeightId id : {reader->adapter.a, reader->adapter.b})
      may = may && (layout_.shared(id).buffer == kNone || layout_.shared(id).buffer == own);
  }
  return may;
}

uint64_t Emitter::deferred_words() const {
  uint64_t words = 0;
  for (const Op& op : program_.ops) {
    const auto* linear = std::get_if<Linear>(&op);
    if (linear == nullptr || !linear->adapter || !has_few_rows(type(linear->x).extent)) continue;
    const uint64_t of_row = uint64_t{4} * fours_of(program_.weights[linear->adapter.a].shape);
    words = std::max(words, divide_up(most_rows(type(linear->x).extent) * of_row, 16) * 16);
  }
  return words;
}

Emitter::AddedAdapters Emitter::defer_adapter(const AddedSets& sets, const ProductShape& shape) {
  in_second_half_ = !in_second_half_;
  const uint64_t inner = layout_.scratch() + (in_second_half_ ? deferred_words_ : 0);
  deferred_ = {.op = sets.front().front(), .inner = static_cast<uint32_t>(inner)};
  dispatches_.scratch_words = std::max(dispatches_.scratch_words, scratch_taken_);
  return {.sets = sets, .shape = shape, .parts = {1}, .inner = {deferred_.inner}};
}

bool Emitter::is_deferred(ValueId value) const {
  return deferred_.op != nullptr && program_.values[deferred_.op->out].storage == program_.values[value].storage;
}

// Declares deferred_adapter(), deferred_sums() and what they need, and adds `text`, which calls them.
void Emitter::use_deferred_sums(Kernel& kernel, const std::string& text) const {
  const AdapterOperand& adapter = deferred_.op->adapter;
  const WeightShape &a = program_.weights[adapter.a].shape, &b = program_.weights[adapter.b].shape;
  const Format format = layout_.matrix(adapter.b).format;
  kernel.constants.insert(
      kernel.constants.end(),
      {{"DEFERRED_FOURS", fours_of(a)}, {"DEFERRED_COLUMNS", columns(deferred_.op->out)}, {"DEFERRED_ROWS", kFewRows}});
  kernel.params.insert(kernel.params.end(), {{"deferred_slots", at(adapter.slots)},
                                             {"deferred_scales", at(adapter.scales)},
                                             {"deferred_b", static_cast<uint32_t>(layout_.shared(adapter.b).word)},
                                             {"deferred_inner", deferred_.inner}});
  use_added_buffer(kernel, layout_.shared(adapter.b).buffer);
  use_row_adapters(kernel);
  use_snippet(kernel, kProduct8);
  std::string parameters, arguments, eights, sums;
  for (uint32_t e = 0; e < eights_of(a); ++e) {
    parameters += cat(e == 0 ? "x" : ", x", e, ": mat2x4f");
    arguments += cat(e == 0 ? "x" : ", x", e);
    eights += cat("  let x", e, " = deferred_eight(row, ", e, "u);\n");
    sums += cat("  sum = product_8(x", e, ", deferred_b_eight(row, ", e, "u), sum);\n");
  }
  // With room for one adapter nothing waits for the row's slot.
  const char* const matrix = b.experts == 1 ? "0u" : "(max(adapter.slot, 1u) - 1u)";
  kernel.snippets.push_back(weight_snippet(format, b.columns, "deferred_b", Rows::anywhere, "added") +
                            eight_snippet(format, "deferred_b") +
                            fill(kDeferredSum, {{"parameters", parameters}, {"matrix", matrix}, {"sums", sums}}) +
                            fill(kDeferredFour, {{"parameters", parameters}, {"arguments", arguments}}) +
                            fill(text, {{"eights", eights}, {"arguments", arguments}}));
}

bool Emitter::use_deferred(Kernel& kernel, ValueId value, bool has_row_x) const {
  if (!is_deferred(value)) return false;
  use_deferred_sums(kernel, cat(has_row_x ? "" : kOwnRow, kOfReader));
  return true;
}

void Emitter::emit_deferred() {
  const ValueId out = deferred_.op->out;
  Kernel kernel{.name = "adapter_outer", .extent = type(out).extent};
  kernel.params = {{"out", at(out)}};
  kernel.bindings = {memory()};
  kernel.bindings.front().element = kFours;
  use_deferred_sums(kernel, kDeferredMain);
  kernel.grid = {.items = columns(out) / 4, .per = kThreads, .least_count = kFewRows + 1};
  add(kernel);
}

}  // namespace sluice::webgpu
