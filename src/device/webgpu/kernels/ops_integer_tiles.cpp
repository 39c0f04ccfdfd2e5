// linear for prompts and linear_transposed, if fast arithmetic may use integers: one dispatch writes the rows as
// integers, another multiplies tiles of rows by outputs (integer_tiles.h). For transposed products a third one writes
// the weights' columns as integers, some columns at a time: 16 rows of a column have a scale that maps the largest
// number to 127.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/text.h"
#include "device/webgpu/emitter.h"
#include "device/webgpu/kernels/integer_tiles.h"

namespace sluice::webgpu {
namespace {

// A thread: two parts of a row.
constexpr const char* kWriteRows = R"(
fn part_at(at: u32) -> Part { return part_of(load4(at), load4(at + 4u), load4(at + 8u), load4(at + 12u)); }

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups) * THREADS + thread;
  let row = i / PAIRS;
  let pair = i % PAIRS;
  if (row >= rows()) { return; }
  let x = p.x + row * PAIRS * 32u + pair * 32u;
  put_parts(p.to + row * PAIRS * 12u, PAIRS * 2u, pair, part_at(x), part_at(x + 16u));
}
)";

// Columns as integers in `memory`: for each part of 16 rows the four words of each column, and behind all parts for
// each part the scale of each column.
constexpr const char* kColumnsAt = R"(
fn bytes_at(part: u32, column: u32) -> u32 { return p.weights + (part * p.outputs + column) * 4u; }
fn scale_at(part: u32, column: u32) -> u32 { return p.weights + (PARTS_OF_ALL * 4u + part) * p.outputs + column; }
)";

// A workgroup: a part of 16 rows, by 16 columns for each of 8 threads in a row.
constexpr const char* kWriteColumns = R"(
const ACROSS = 8u;
const STRIDE = ACROSS * 17u;
var<workgroup> numbers: array<f32, 16u * STRIDE>;

fn four_of(column: u32, first: u32) -> vec4f {
  let at = first * STRIDE + column + column / 16u;
  return vec4f(numbers[at], numbers[at + STRIDE], numbers[at + STRIDE * 2u], numbers[at + STRIDE * 3u]);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let blocks = (p.outputs + THREADS - 1u) / THREADS;
  let i = group_index(group, groups);
  let part = i / blocks;
  if (part >= PARTS_OF_ALL) { return; }
  let first = i % blocks * THREADS;
  let row = thread / ACROSS;
  let across = thread % ACROSS;
  if (first + across * 16u < p.outputs) {
    let x = w_16(part * 16u + row, (p.first_output + first) / 16u + across);
    for (var j = 0u; j < 16u; j++) { numbers[row * STRIDE + across * 17u + j] = x[j / 4u][j % 4u]; }
  }
  workgroupBarrier();
  let column = first + thread;
  if (column >= p.outputs) { return; }
  let made = part_of(four_of(thread, 0u), four_of(thread, 4u), four_of(thread, 8u), four_of(thread, 12u));
  put_four(bytes_at(part, column), made.q);
  store(scale_at(part, column), made.scale);
}
)";
constexpr const char* kColumnsAsIntegers = R"(
const w_OFFSETS = false;
fn w_integers(column: u32, part: u32) -> Integers {
  return Integers(four(bytes_at(part, column)), load(scale_at(part, column)), 0.0);
}
)";
constexpr uint32_t kColumnThreads = 128;
// Of columns that are integers at the same time. Fewer where the GPU is a processor, so that small tests have several
// blocks of columns.
uint64_t column_words(const Adapter& adapter) { return adapter.is_software ? uint64_t{8} << 10 : uint64_t{8} << 20; }

constexpr const char* kBegin = R"(
fn x_of_row(row: u32) -> u32 { return p.x + row * (COLUMNS / 16u * 6u); }

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let blocks = (p.outputs + TILE_OUTPUTS - 1u) / TILE_OUTPUTS;
  let i = group_index(group, groups);
  let first = i / blocks * TILE_ROWS;
  let first_output = i % blocks * TILE_OUTPUTS;
  if (first >= rows()) { return; }
  let count = min(TILE_ROWS, rows() - first);
  let last_output = p.outputs - 1u;
  const w_first = 0u;
)";
constexpr const char* kEnd = R"(
  for (var j = 0u; j < ROWS_EACH; j++) {
    let row = r + ROW_SIDE * j;
    let output = first_output + o * OUTPUTS_EACH;
    if (row < count && output < p.outputs) {
      store_each(p.out + (first + row) * OUTPUTS + p.first_output + output, sums_w[j], p.outputs - output);
    }
  }
}
)";

IntegerTile tile_of(const Adapter& adapter) {
  if (adapter.is_software) return {.row_side = 8, .rows_each = 2, .output_side = 8, .outputs_each = 2};
  return {};
}

}  // namespace

bool Emitter::has_integers(WeightId weight) const {
  return request_.arithmetic == Arithmetic::fast && !integer_snippet(layout_.matrix(weight).format, "w").empty();
}

uint32_t Emitter::scratch_for_integers(ValueId x) {
  return scratch(most_rows(type(x).extent) * integer_words(columns(x)));
}

Dispatch& Emitter::emit_integers(ValueId x, uint32_t to) {
  CHECK(columns(x) % kIntegerColumns == 0);
  Kernel kernel{.name = "rows_as_integers", .body = kWriteRows, .extent = type(x).extent};
  const uint32_t pairs = columns(x) / kIntegerColumns;
  kernel.constants = {{"PAIRS", pairs}};
  kernel.params = {{"x", at(x)}, {"to", to}};
  kernel.bindings = {memory()};
  if (at(x) % 4 == 0) kernel.bindings.front().element = kFours;
  kernel.snippets = {kRowsAsIntegers};
  kernel.grid = {.items = pairs, .per = kThreads};
  return add(kernel);
}

void Emitter::emit_integer_tiles(const Linear& op, uint32_t tile, uint32_t integers) {
  const WeightTile& rows = layout_.matrix(op.weight).tiles[tile];
  emit_integer_product({.inputs = op.x,
                        .integers = integers,
                        .out = op.out,
                        .first_output = static_cast<uint32_t>(rows.first_row),
                        .outputs = static_cast<uint32_t>(rows.rows),
                        .weight = weight("w", op.weight, tile),
                        .snippets = decoder(op.weight, "w") + integer_snippet(layout_.matrix(op.weight).format, "w")});
}

void Emitter::emit_integer_product(const IntegerProduct& of) {
  const IntegerTile side = tile_of(adapter_);
  const uint32_t all = columns(of.out);
  Kernel kernel{.name = "integer_tiles", .extent = type(of.inputs).extent};
  kernel.constants = {{"COLUMNS", columns(of.inputs)}, {"OUTPUTS", all}};
  kernel.params = {{"x", of.integers}, {"out", at(of.out)}, {"first_output", of.first_output}, {"outputs", of.outputs}};
  kernel.bindings = {memory()};
  if (of.weight) kernel.bindings.push_back(*of.weight);
  const bool fours =
      side.outputs_each == 4 && all % 4 == 0 && of.first_output % 4 == 0 && of.outputs % 4 == 0 && at(of.out) % 4 == 0;
  if (fours) kernel.bindings.front().element = kFours;
  if (!of.weight) {
    kernel.constants.push_back({"PARTS_OF_ALL", columns(of.inputs) / 16});
    kernel.params.push_back({"weights", of.columns});
  }
  kernel.snippets = {of.snippets, store_each_text(fours)};
  use_integer_tile(kernel, side, std::array{"w"}, kBegin, kEnd);
  kernel.grid = {.per = side.rows(), .times = side.blocks(of.outputs)};
  add(kernel);
}

bool Emitter::has_integer_columns(WeightId weight) const {
  const WeightShape& shape = program_.weights[weight].shape;
  const MatrixLayout& matrix = layout_.matrix(weight);
  return request_.arithmetic == Arithmetic::fast && format_info(matrix.format).block_elements > 1 &&
         matrix.tiles.size() == 1 && shape.rows % kIntegerColumns == 0;
}

void Emitter::emit_integer_transposed(const LinearTransposed& op) {
  const uint32_t integers = scratch_for_integers(op.x), all = columns(op.out), parts = columns(op.x) / 16;
  emit_integers(op.x, integers);
  const uint64_t at_once = std::clamp<uint64_t>(column_words(adapter_) / (parts * 5) / 64 * 64, 64, std::max(all, 64u));
  const uint32_t words = scratch(at_once * parts * 5);
  for (uint32_t first = 0; first < all; first += static_cast<uint32_t>(at_once)) {
    const auto outputs = static_cast<uint32_t>(std::min<uint64_t>(at_once, all - first));
    Kernel kernel{.name = "columns_as_integers", .body = kWriteColumns, .extent = {Symbol::one, 1}};
    kernel.threads = kColumnThreads;
    kernel.constants = {{"PARTS_OF_ALL", parts}};
    kernel.params = {{"weights", words}, {"first_output", first}, {"outputs", outputs}};
    kernel.bindings = {memory(), weight("w", op.weight, 0)};
    kernel.snippets = {decoder(op.weight, "w"), kRowsAsIntegers, kColumnsAt};
    kernel.grid = {.times = parts * divide_up(outputs, kColumnThreads)};
    add(kernel);
    emit_integer_product({.inputs = op.x,
                          .integers = integers,
                          .out = op.out,
                          .first_output = first,
                          .outputs = outputs,
                          .columns = words,
                          .snippets = cat(kColumnsAt, kColumnsAsIntegers)});
  }
}

}  // namespace sluice::webgpu
