// linear for prompts and towers in f32, by tiles of rows by outputs. A sum takes 32 columns at a time, in ascending
// order. The order depends neither on the tile's size nor on the number of rows.
#include "base/text.h"
#include "device/webgpu/emitter.h"

namespace sluice::webgpu {
namespace {

// A thread has ROWS_EACH rows, SIDE apart, by OUTPUTS_EACH neighbouring outputs. The tile's rows lie in workgroup
// memory as parts of four columns. Their places are permuted, so that threads side by side use different memory banks.
// While a tile is multiplied, the threads load the next one. Threads side by side load parts of a row that lie side by
// side. The first UNITS threads also load 16 columns of a weight's row each.
constexpr const char* kTiles = R"(
const TILE_ROWS = SIDE * ROWS_EACH;
const TILE_OUTPUTS = SIDE * OUTPUTS_EACH;
const QUADS = 8u;
const X_LOADS = TILE_ROWS * QUADS / THREADS;
const UNITS = TILE_OUTPUTS * 2u;
const kParts = (COLUMNS + 15u) / 16u;
var<workgroup> tile_w: array<vec4f, TILE_OUTPUTS * QUADS>;
var<workgroup> tile_x: array<vec4f, TILE_ROWS * QUADS>;
fn place(row: u32, quad: u32) -> u32 { return row * QUADS + (quad ^ (row / OUTPUTS_EACH % QUADS)); }

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let blocks = (p.outputs + TILE_OUTPUTS - 1u) / TILE_OUTPUTS;
  let i = group_index(group, groups);
  let first_row = i / blocks * TILE_ROWS;
  let first_output = i % blocks * TILE_OUTPUTS;
  if (first_row >= rows()) { return; }
  let own_output = thread % TILE_OUTPUTS;
  let own_part = thread / TILE_OUTPUTS;
  let w_row = min(first_output + own_output, p.outputs - 1u);
  let r = thread / SIDE;
  let o = thread % SIDE;
  var sums: array<array<f32, OUTPUTS_EACH>, ROWS_EACH>;
  var next_x: array<vec4f, X_LOADS>;
  var next_w = mat4x4f();
  for (var part = 0u; part < kParts + 2u; part += 2u) {
    if (part > 0u) {
      workgroupBarrier();
      for (var l = 0u; l < X_LOADS; l++) {
        let at = thread + l * THREADS;
        tile_x[place(at / QUADS, at % QUADS)] = next_x[l];
      }
      if (thread < UNITS) {
        for (var j = 0u; j < 4u; j++) { tile_w[place(own_output, own_part * 4u + j)] = next_w[j]; }
      }
      workgroupBarrier();
    }
    if (part < kParts) {
      for (var l = 0u; l < X_LOADS; l++) {
        let at = thread + l * THREADS;
        next_x[l] = x_four(min(first_row + at / QUADS, rows() - 1u), part * 16u + at % QUADS * 4u);
      }
      next_w = mat4x4f();
      if (thread < UNITS && part + own_part < kParts) { next_w = w_16(w_row, part + own_part); }
    }
    if (part == 0u) { continue; }
    for (var quad = 0u; quad < QUADS; quad++) {
      var weights: array<vec4f, OUTPUTS_EACH>;
      for (var n = 0u; n < OUTPUTS_EACH; n++) { weights[n] = tile_w[place(o * OUTPUTS_EACH + n, quad)]; }
      for (var j = 0u; j < ROWS_EACH; j++) {
        let x = tile_x[place(r + SIDE * j, quad)];
        for (var n = 0u; n < OUTPUTS_EACH; n++) {
          let w = weights[n];
          sums[j][n] = fma(x.w, w.w, fma(x.z, w.z, fma(x.y, w.y, fma(x.x, w.x, sums[j][n]))));
        }
      }
    }
  }
  for (var j = 0u; j < ROWS_EACH; j++) {
    let row = first_row + r + SIDE * j;
    let output = first_output + o * OUTPUTS_EACH;
    if (row < rows() && output < p.outputs) {
      let at = row * OUTPUTS + p.first_output + output;
      for (var n = 0u; n < OUTPUTS_EACH; n++) {
        if (output + n < p.outputs) { sums[j][n] = finished(sums[j][n], at + n); }
      }
      store_each(p.out + at, sums[j], p.outputs - output);
    }
  }
}
)";

// Columns past the last one are zeros.
constexpr const char* kFourColumns = R"(
fn x_four(row: u32, column: u32) -> vec4f {
  if (COLUMNS % 32u != 0u && column >= COLUMNS) { return vec4f(); }
  return load4(p.x + row * COLUMNS + column);
}
)";
constexpr const char* kSingleColumns = R"(
fn x_of(row: u32, column: u32) -> f32 {
  if (COLUMNS % 32u != 0u && column >= COLUMNS) { return 0.0; }
  return load(p.x + row * COLUMNS + column);
}
fn x_four(row: u32, column: u32) -> vec4f {
  return vec4f(x_of(row, column), x_of(row, column + 1u), x_of(row, column + 2u), x_of(row, column + 3u));
}
)";

struct TileShape {
  uint32_t side = 16, rows_each = 4, outputs_each = 4;
  uint32_t rows() const { return side * rows_each; }
  uint32_t outputs() const { return side * outputs_each; }
};

// Tiles are small on processors, whose drivers compile unrolled loops slowly, and for few outputs, as routers have,
// because most of a GPU would have no tile otherwise (512 rows of 2,816 columns by 128 outputs on an NVIDIA H200: 87
// us, 312 before). A product with many large tiles gets them.
TileShape tile_shape(const Adapter& adapter, uint64_t rows, uint64_t outputs) {
  if (adapter.is_software || outputs <= 256) return {.side = 8, .rows_each = 2, .outputs_each = 2};
  constexpr uint64_t kManyTiles = 128;
  const TileShape large{.rows_each = 8};
  const bool has_room = (large.rows() + large.outputs()) * 32 * sizeof(float) <= adapter.workgroup_bytes;
  const uint64_t tiles = divide_up(rows, large.rows()) * divide_up(outputs, large.outputs());
  return has_room && tiles >= kManyTiles ? large : TileShape{};
}

}  // namespace

void Emitter::emit_tiles(const Linear& op, uint32_t tile, const Finishing& finish) {
  const WeightShape& shape = program_.weights[op.weight].shape;
  const WeightTile& rows = layout_.matrix(op.weight).tiles[tile];
  const TileShape side = tile_shape(adapter_, most_rows(type(op.x).extent), rows.rows);
  Kernel kernel{.name = "linear_tiles", .body = kTiles, .extent = type(op.x).extent, .threads = side.side * side.side};
  kernel.constants = {{"COLUMNS", shape.columns},
                      {"OUTPUTS", shape.rows},
                      {"SIDE", side.side},
                      {"ROWS_EACH", side.rows_each},
                      {"OUTPUTS_EACH", side.outputs_each}};
  kernel.params = {{"x", at(op.x)},
                   {"out", at(finish.out)},
                   {"first_output", static_cast<uint32_t>(rows.first_row)},
                   {"outputs", static_cast<uint32_t>(rows.rows)}};
  kernel.bindings = {memory(), weight("w", op.weight, tile)};
  const bool fours = side.outputs_each == 4 && shape.columns % 4 == 0 && at(op.x) % 4 == 0 && at(finish.out) % 4 == 0 &&
                     shape.rows % 4 == 0 && rows.first_row % 4 == 0 && rows.rows % 4 == 0;
  if (fours) kernel.bindings.front().element = kFours;
  kernel.snippets = {decoder(op.weight, "w"), fours ? kFourColumns : kSingleColumns, store_each_text(fours)};
  use_finish(kernel, finish, "f32");
  kernel.grid = {.per = side.rows(), .times = divide_up(rows.rows, side.outputs())};
  add(kernel);
}

}  // namespace sluice::webgpu
