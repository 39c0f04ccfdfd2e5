// The adapters of products. Of linears that do not add them themselves (adapted_products.cpp): two dispatches for all
// of the same rows. Experts have the second factor in their own kernels (ops_experts.cpp), where a row stands for a
// choice.
//
//   adapter_inner  writes a x to scratch. A workgroup takes one row, one product and four ranks; its threads split the
//                  columns.
//   adapter_outer  writes out + scale b (a x). A thread takes one row and output. For a gated run it also computes the
//                  gated activation of two such sums.
//
// A row without an adapter is not written. The order of a row's sums does not depend on other rows.
#include <algorithm>

#include "base/text.h"
#include "device/webgpu/emitter.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kRanks = 4;  // of a workgroup

// ${i}: which of the kernel's products. The matrix of both factors; NO_MATRIX: the row has no adapter, or scales it by
// 0.
constexpr const char* kMatrix = R"(
fn scale_${i}(row: u32) -> f32 { return row_adapter(p.slots_${i}, p.scales_${i}, row).scale; }
fn matrix_${i}(row: u32) -> u32 {
  let adapter = row_adapter(p.slots_${i}, p.scales_${i}, row);
  return select(NO_MATRIX, adapter.slot - 1u, has_adapter(adapter));
}
)";
constexpr const char* kExpertMatrix = R"(
fn scale_${i}(row: u32) -> f32 { return row_adapter(p.slots_${i}, p.scales_${i}, row).scale; }
fn matrix_${i}(row: u32) -> u32 {
  let adapter = row_adapter(p.slots_${i}, p.scales_${i}, row);
  if (!has_adapter(adapter)) { return NO_MATRIX; }
  return (adapter.slot - 1u) * EXPERTS + word(p.index + row);
}
)";

// A row's slot, from 1 on, or 0 for no adapter. Both are kept as they were read: a thread waits for a load where its
// value is first used in a computation.
constexpr const char* kRowAdapter = R"(
struct RowAdapter { slot: u32, scale: f32 }
fn has_adapter(adapter: RowAdapter) -> bool { return adapter.slot != 0u && adapter.scale != 0.0; }
fn row_adapter(slots: u32, scales: u32, row: u32) -> RowAdapter {
  if (counts.one_adapter == 1u) { return RowAdapter(counts.slots[0].x, counts.adapter_scale); }
  return RowAdapter(word(slots + step_row(row)), load(scales + step_row(row)));
}
// Slot n of the slots that the step's rows have. A tile of rows goes through all of them. For each slot, rows of other
// slots have zeros, which change no sum. So a row's result does not depend on its neighbours.
fn step_slot(n: u32) -> u32 {
  if (counts.slots_are_range == 1u) { return counts.slots[0].x + n; }
  return counts.slots[n / 4u][n % 4u];
}
// Whether the row has that slot of the step's. Where there is only one, rows without it are taken to have it, too: their
// numbers are zeros anyway.
fn has_slot(slots: u32, row: u32, slot: u32) -> bool {
  if (counts.slot_count == 1u) { return true; }
  return word(slots + step_row(row)) == slot;
}
)";

constexpr const char* kProduct16 = R"(
const NO_MATRIX = 0xffffffffu;
fn product_16(x: mat4x4f, w: mat4x4f, before: f32) -> f32 {
  var sum = before;
  for (var quad = 0u; quad < 4u; quad++) {
    let a = x[quad];
    let b = w[quad];
    sum = fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
  }
  return sum;
}
)";

constexpr const char* kColumns = R"(
fn x_of(row: u32, column: u32) -> f32 {
  if (column >= COLUMNS) { return 0.0; }
  return load(p.x + x_row(row) * COLUMNS + column);
}
fn x_4(row: u32, column: u32) -> vec4f {
  return vec4f(x_of(row, column), x_of(row, column + 1u), x_of(row, column + 2u), x_of(row, column + 3u));
}
fn store_four(at: u32, x: vec4f) { for (var j = 0u; j < 4u; j++) { store(at + j, x[j]); } }
)";
constexpr const char* kFourColumns = R"(
fn x_4(row: u32, column: u32) -> vec4f {
  if (column >= COLUMNS) { return vec4f(); }
  return load4(p.x + x_row(row) * COLUMNS + column);
}
fn store_four(at: u32, x: vec4f) { store4(at, x); }
)";

constexpr const char* kSums = R"(
fn x_16(row: u32, part: u32) -> mat4x4f {
  let column = part * 16u;
  return mat4x4f(x_4(row, column), x_4(row, column + 4u), x_4(row, column + 8u), x_4(row, column + 12u));
}
var<workgroup> sums: array<vec4f, THREADS>;
fn sum_of_threads(own: vec4f, thread: u32) -> vec4f {
  sums[thread] = own;
  workgroupBarrier();
  for (var step = THREADS / 2u; step > 0u; step = step / 2u) {
    if (thread < step) { sums[thread] += sums[thread + step]; }
    workgroupBarrier();
  }
  return sums[0];
}
)";

// Sixteen columns of a factor.
constexpr const char* kSixteen = R"(
fn ${w}_sixteen(row: u32, part: u32) -> mat4x4f { return ${w}_16(row, part); }
)";
constexpr const char* kTwoEights = R"(
fn ${w}_sixteen(row: u32, part: u32) -> mat4x4f {
  let x = ${w}_eight(row, part * 2u);
  let y = ${w}_eight(row, part * 2u + 1u);
  return mat4x4f(x[0], x[1], y[0], y[1]);
}
)";

constexpr const char* kInner = R"(
fn inner_${i}(row: u32, first_rank: u32, thread: u32) {
  let matrix = matrix_${i}(row);
  var own = vec4f();
  if (matrix != NO_MATRIX) {
    for (var part = thread; part < (COLUMNS + 15u) / 16u; part += THREADS) {
      let x = x_16(row, part);
      for (var j = 0u; j < min(4u, RANK_${i} - first_rank); j++) {
        own[j] = product_16(x, a${i}_sixteen(matrix * RANK_${i} + first_rank + j, part), own[j]);
      }
    }
  }
  let sum = sum_of_threads(own, thread);
  if (thread == 0u) { store_four(p.inner_${i} + row * INNER_${i} + first_rank, sum); }
}
)";

constexpr const char* kInnerMain = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let row = i / BLOCKS;
  let block = i % BLOCKS;
  if (row >= rows() * CHOICES) { return; }
${calls}
}
)";

constexpr const char* kSum = R"(
fn rank_4_${i}(row: u32, rank: u32) -> vec4f {
  if (rank >= INNER_${i}) { return vec4f(); }
  return load4(p.inner_${i} + row * INNER_${i} + rank);
}
fn rank_16_${i}(row: u32, part: u32) -> mat4x4f {
  let rank = part * 16u;
  return mat4x4f(rank_4_${i}(row, rank), rank_4_${i}(row, rank + 4u), rank_4_${i}(row, rank + 8u),
                 rank_4_${i}(row, rank + 12u));
}
fn adapter_sum_${i}(row: u32, output: u32) -> f32 {
  let matrix = matrix_${i}(row);
  var sum = 0.0;
  for (var part = 0u; part < (INNER_${i} + 15u) / 16u; part++) {
    sum = product_16(rank_16_${i}(row, part), b${i}_sixteen(matrix * B_ROWS_${i} + output, part), sum);
  }
  return sum;
}
// Of four outputs, of which those behind the last are its again.
fn adapter_sums_${i}(row: u32, output: u32) -> vec4f {
  let first = matrix_${i}(row) * B_ROWS_${i};
  var sums = vec4f();
  for (var part = 0u; part < (INNER_${i} + 15u) / 16u; part++) {
    let x = rank_16_${i}(row, part);
    for (var j = 0u; j < 4u; j++) {
      sums[j] = product_16(x, b${i}_sixteen(first + min(output + j, B_ROWS_${i} - 1u), part), sums[j]);
    }
  }
  return sums;
}
)";
constexpr const char* kOuter = R"(
fn value_${i}(row: u32, o: u32) -> f32 {
  let plain = load(p.out_${i} + row * OUTPUTS_${i} + o);
  if (matrix_${i}(row) == NO_MATRIX) { return plain; }
  return fma(scale_${i}(row), adapter_sum_${i}(row, o), plain);
}
)";
constexpr const char* kPlain = R"(
fn value_${i}(row: u32, o: u32) -> f32 { return load(p.out_${i} + row * OUTPUTS_${i} + o); }
)";

constexpr const char* kOuterMain = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups) * THREADS + thread;
  let row = i / ALL_OUTPUTS;
  let output = i % ALL_OUTPUTS;
  if (row >= rows()) { return; }
${calls}
}
)";

uint32_t inner_words(const WeightShape& a) { return (a.rows + kRanks - 1) / kRanks * kRanks; }

}  // namespace

Emitter::AdaptedProduct Emitter::adapted(const AdapterOperand& adapter, uint64_t rows, uint32_t parts) {
  return {.adapter = adapter,
          .inner = adapter ? scratch(rows * parts * inner_words(program_.weights[adapter.a].shape)) : 0};
}

void Emitter::use_row_adapters(Kernel& kernel, uint32_t choices) const {
  if (std::ranges::find(kernel.snippets, kRowAdapter) != kernel.snippets.end()) return;
  const bool all = kernel.extent.symbol == Symbol::rows;
  if (!all)
    kernel.params.push_back({"wanted_rows", layout_.step().inputs[static_cast<size_t>(wanted_input(program_))]});
  const std::string row = choices > 1 ? cat("row / ", choices, "u") : "row";
  kernel.snippets.push_back(fill("fn step_row(row: u32) -> u32 { return ${row}; }\n",
                                 {{"row", all ? row : cat("word(p.wanted_rows + ", row, ")")}}));
  kernel.snippets.emplace_back(kRowAdapter);
}

// Declares the step's row of a row, and the slots and scales of the products.
void Emitter::use_adapters(Kernel& kernel, std::span<const AdaptedProduct> products, const AdaptedRows& rows) const {
  const bool has_experts = rows.index != kNone;
  use_row_adapters(kernel, has_experts ? rows.choices : 1);
  kernel.snippets.emplace_back(kProduct16);
  for (size_t i = 0; i < products.size(); ++i) {
    const AdapterOperand& adapter = products[i].adapter;
    if (!adapter) continue;
    kernel.constants.push_back({cat("INNER_", i), inner_words(program_.weights[adapter.a].shape)});
    kernel.params.insert(kernel.params.end(), {{cat("slots_", i), at(adapter.slots)},
                                               {cat("scales_", i), at(adapter.scales)},
                                               {cat("inner_", i), products[i].inner}});
    kernel.snippets.push_back(fill(has_experts ? kExpertMatrix : kMatrix, {{"i", cat(i)}}));
  }
}

std::string Emitter::factor_decoder(WeightId id, const std::string& name) const {
  const std::string eight = eight_snippet(layout_.matrix(id).format, name);
  const bool in_eights = !eight.empty() && program_.weights[id].shape.columns % 16 == 0;
  return decoder(id, name) + (in_eights ? eight : "") + fill(in_eights ? kTwoEights : kSixteen, {{"w", name}});
}

void Emitter::use_second_factor(Kernel& kernel, size_t i, const AdaptedProduct& product) const {
  const std::string b = cat("b", i);
  kernel.constants.push_back({cat("B_ROWS_", i), program_.weights[product.adapter.b].shape.rows});
  kernel.bindings.push_back(weight(b, product.adapter.b, 0));
  kernel.snippets.push_back(factor_decoder(product.adapter.b, b));
}

void Emitter::use_adapter_sum(Kernel& kernel, size_t i, const AdaptedProduct& product) const {
  use_second_factor(kernel, i, product);
  kernel.snippets.push_back(fill(kSum, {{"i", cat(i)}}));
}

Dispatch& Emitter::emit_adapter_inner(std::span<const AdaptedProduct> products, const AdaptedRows& rows) {
  Kernel kernel{.name = "adapter_inner", .extent = rows.extent};
  kernel.constants = {{"COLUMNS", rows.columns}, {"CHOICES", rows.choices}};
  kernel.params = {{"x", rows.x}};
  if (rows.index != kNone) {
    kernel.constants.push_back({"EXPERTS", rows.experts});
    kernel.params.push_back({"index", at(rows.index)});
  }
  kernel.bindings = {memory()};
  const bool fours = rows.columns % 4 == 0 && rows.x % 4 == 0;
  if (fours) kernel.bindings.front().element = kFours;
  use_adapters(kernel, products, rows);
  kernel.snippets.push_back(fill("fn x_row(row: u32) -> u32 { return row${of}; }\n",
                                 {{"of", rows.own_x || rows.choices == 1 ? "" : " / CHOICES"}}));
  kernel.snippets.emplace_back(fours ? kFourColumns : kColumns);
  kernel.snippets.emplace_back(kSums);
  std::string calls;
  uint32_t end = 0;
  for (size_t i = 0; i < products.size(); ++i) {
    const AdapterOperand& adapter = products[i].adapter;
    if (!adapter) continue;
    const std::string a = cat("a", i);
    const WeightShape& shape = program_.weights[adapter.a].shape;
    kernel.constants.push_back({cat("RANK_", i), shape.rows});
    kernel.bindings.push_back(weight(a, adapter.a, 0));
    kernel.snippets.push_back(factor_decoder(adapter.a, a));
    kernel.body += fill(kInner, {{"i", cat(i)}});
    const uint32_t begin = end;
    end += inner_words(shape) / kRanks;
    calls += cat(calls.empty() ? "  if" : " else if", " (block < ", end, "u) { inner_", i, "(row, (block - ", begin,
                 "u) * ", kRanks, "u, thread); }");
  }
  kernel.constants.push_back({"BLOCKS", end});
  kernel.body += fill(kInnerMain, {{"calls", calls}});
  kernel.grid = {.times = uint64_t{end} * rows.choices};
  return add(kernel);
}

// `gated`: the run to which the linears belong; its activation is computed from the sums.
void Emitter::emit_adapter_outer(std::span<const Linear* const> linears, std::span<const AdaptedProduct> products,
                                 const AdaptedRows& rows, const GatedRun* gated) {
  Kernel kernel{.name = gated == nullptr ? "adapter_outer" : "gated_adapter_outer", .extent = rows.extent};
  kernel.bindings = {memory()};
  use_adapters(kernel, products, rows);
  std::string calls;
  uint32_t end = 0;
  for (size_t i = 0; i < linears.size(); ++i) {
    const Linear& op = *linears[i];
    if (!op.adapter && gated == nullptr) continue;
    kernel.constants.push_back({cat("OUTPUTS_", i), columns(op.out)});
    kernel.params.push_back({cat("out_", i), at(op.out)});
    if (op.adapter) use_adapter_sum(kernel, i, products[i]);
    kernel.body += fill(op.adapter ? kOuter : kPlain, {{"i", cat(i)}});
    const uint32_t begin = end;
    end += columns(op.out);
    calls += cat(calls.empty() ? "  if" : " else if", " (output < ", end, "u) {\n    let o = output - ", begin,
                 "u;\n    if (matrix_", i, "(row) != NO_MATRIX) { store(p.out_", i, " + row * OUTPUTS_", i,
                 " + o, value_", i, "(row, o)); }\n  }");
  }
  if (gated != nullptr) {
    end = columns(gated->gate->out);
    kernel.params.push_back({"out", at(gated->activation->out)});
    kernel.snippets.insert(kernel.snippets.end(), {kMath, activation_text(gated->activation->kind)});
    if (gated->up == nullptr) {
      kernel.constants.push_back({"OUTPUTS", end});
      use_up_value(kernel, *gated);
    }
    calls = cat("  store(p.out + i, activate(value_0(row, output)) * ",
                gated->up != nullptr ? "value_1(row, output)" : "up_value(row, output)", ");");
  }
  kernel.constants.push_back({"ALL_OUTPUTS", end});
  kernel.body += fill(kOuterMain, {{"calls", calls}});
  kernel.grid = {.items = end, .per = kThreads};
  add(kernel);
}

void Emitter::emit_adapters(std::span<const Linear* const> linears, const GatedRun* gated) {
  const ValueId x = linears.front()->x;
  const AdaptedRows rows{.extent = type(x).extent, .x = at(x), .columns = columns(x)};
  std::vector<AdaptedProduct> products;
  products.reserve(linears.size());
  for (const Linear* op : linears) products.push_back(adapted(op->adapter, most_rows(rows.extent)));
  emit_adapter_inner(products, rows);
  emit_adapter_outer(linears, products, rows, gated);
}

}  // namespace sluice::webgpu
