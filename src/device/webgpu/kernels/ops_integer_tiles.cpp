// linear for prompts, if fast arithmetic may use integers: one dispatch writes the rows as integers, another multiplies
// tiles of rows by outputs (integer_tiles.h).
#include <array>

#include "base/check.h"
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
constexpr const char* kStoreFours = R"(
fn store_each(at: u32, x: array<f32, OUTPUTS_EACH>, count: u32) { store4(at, vec4f(x[0], x[1], x[2], x[3])); }
)";
constexpr const char* kStoreEach = R"(
fn store_each(at: u32, x: array<f32, OUTPUTS_EACH>, count: u32) {
  for (var i = 0u; i < min(count, OUTPUTS_EACH); i++) { store(at + i, x[i]); }
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
  const WeightShape& shape = program_.weights[op.weight].shape;
  const WeightTile& rows = layout_.matrix(op.weight).tiles[tile];
  const IntegerTile side = tile_of(adapter_);
  Kernel kernel{.name = "integer_tiles", .extent = type(op.x).extent};
  kernel.constants = {{"COLUMNS", shape.columns}, {"OUTPUTS", shape.rows}};
  kernel.params = {{"x", integers},
                   {"out", at(op.out)},
                   {"first_output", static_cast<uint32_t>(rows.first_row)},
                   {"outputs", static_cast<uint32_t>(rows.rows)}};
  kernel.bindings = {memory(), weight("w", op.weight, tile)};
  const bool fours = side.outputs_each == 4 && shape.rows % 4 == 0 && rows.first_row % 4 == 0 && rows.rows % 4 == 0 &&
                     at(op.out) % 4 == 0;
  if (fours) kernel.bindings.front().element = kFours;
  kernel.snippets = {decoder(op.weight, "w"), integer_snippet(layout_.matrix(op.weight).format, "w"),
                     fours ? kStoreFours : kStoreEach};
  use_integer_tile(kernel, side, std::array{"w"}, kBegin, kEnd);
  kernel.grid = {.per = side.rows(), .times = side.blocks(rows.rows)};
  add(kernel);
}

}  // namespace sluice::webgpu
