// linear. Decode steps: matrix times vector, for up to four rows at once (products.h). Prompts: tiles of 64 rows by 64
// outputs, 16 columns at a time in ascending order. Each is one order along the columns, whatever the number of rows.
// Both are smaller on processors, whose drivers take long over unrolled loops; the order is the same.
#include "device/webgpu/emitter.h"
#include "device/webgpu/products.h"

namespace sluice::webgpu {
namespace {

uint32_t rows_at_once(const Adapter& adapter) { return adapter.is_software ? 1 : 4; }
uint32_t tile_each(const Adapter& adapter) { return adapter.is_software ? 2 : 8; }

constexpr const char* kVector = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  const kParts = (COLUMNS + 15u) / 16u;
  let blocks = (p.outputs + BLOCK_OUTPUTS - 1u) / BLOCK_OUTPUTS;
  let i = group_index(group, groups);
  let first_row = i / blocks * ROWS;
  if (first_row >= rows()) { return; }
  let row_count = min(ROWS, rows() - first_row);
  let chunk = LANES * (STAGED / LANES / row_count);
  let output = first_output(i % blocks, thread);
  let output_count = min(OUTPUTS_EACH, p.outputs - min(output, p.outputs));
  var sums: array<Sums, ROWS>;
  for (var begin = 0u; begin < kParts; begin += chunk) {
    let count = min(chunk, kParts - begin);
    workgroupBarrier();
    for (var r = 0u; r < row_count; r++) {
      stage(p.x + (first_row + r) * COLUMNS, COLUMNS, begin, count, r * chunk * 4u, thread);
    }
    workgroupBarrier();
    for (var part = thread % LANES; part < count; part += LANES) {
      for (var o = 0u; o < OUTPUTS_EACH; o++) {
        if (o >= output_count) { continue; }
        let weights = w_16(output + o, begin + part);
        for (var r = 0u; r < ROWS; r++) {
          if (r < row_count) { sums[r][o] += times_staged(weights, (r * chunk + part) * 4u); }
        }
      }
    }
  }
  for (var r = 0u; r < ROWS; r++) {
    if (r >= row_count) { continue; }
    let sum = sum_lanes(sums[r], thread);
    let lane = thread % LANES;
    if (lane < output_count) { store(p.out + (first_row + r) * OUTPUTS + p.first_output + output + lane, sum[lane]); }
  }
}
)";

// A thread has EACH by EACH sums, eight apart. The tiles in workgroup memory are turned: a column's numbers side by
// side.
constexpr const char* kTiles = R"(
const TILE = 8u * EACH;
var<workgroup> tile_w: array<array<f32, TILE>, 16>;
var<workgroup> tile_x: array<array<f32, TILE>, 16>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let blocks = (p.outputs + TILE - 1u) / TILE;
  let i = group_index(group, groups);
  let first_row = i / blocks * TILE;
  let first_output = i % blocks * TILE;
  if (first_row >= rows()) { return; }
  let x = p.x + min(first_row + thread, rows() - 1u) * COLUMNS;
  let w_row = min(first_output + thread, p.outputs - 1u);
  let r = thread / 8u;
  let o = thread % 8u;
  var sums: array<array<f32, EACH>, EACH>;
  for (var part = 0u; part * 16u < COLUMNS; part++) {
    workgroupBarrier();
    if (thread < TILE) {
      let weights = w_16(w_row, part);
      for (var k = 0u; k < 16u; k++) {
        let column = part * 16u + k;
        tile_w[k][thread] = weights[k / 4u][k % 4u];
        tile_x[k][thread] = select(0.0, load(x + min(column, COLUMNS - 1u)), column < COLUMNS);
      }
    }
    workgroupBarrier();
    for (var k = 0u; k < 16u; k++) {
      var weights: array<f32, EACH>;
      for (var n = 0u; n < EACH; n++) { weights[n] = tile_w[k][o + 8u * n]; }
      for (var j = 0u; j < EACH; j++) {
        let one = tile_x[k][r + 8u * j];
        for (var n = 0u; n < EACH; n++) { sums[j][n] += one * weights[n]; }
      }
    }
  }
  for (var j = 0u; j < EACH; j++) {
    let row = first_row + r + 8u * j;
    for (var n = 0u; n < EACH; n++) {
      let output = first_output + o + 8u * n;
      if (row < rows() && output < p.outputs) { store(p.out + row * OUTPUTS + p.first_output + output, sums[j][n]); }
    }
  }
}
)";

}  // namespace

void Emitter::emit(const Linear& op) {
  const WeightShape& shape = program_.weights[op.weight].shape;
  for (uint32_t tile = 0; tile < layout_.matrix(op.weight).tiles.size(); ++tile) {
    const WeightTile& rows = layout_.matrix(op.weight).tiles[tile];
    Kernel kernel{.name = "linear", .extent = type(op.x).extent};
    kernel.constants = {{"COLUMNS", shape.columns}, {"OUTPUTS", shape.rows}};
    kernel.params = {{"x", at(op.x)},
                     {"out", at(op.out)},
                     {"first_output", static_cast<uint32_t>(rows.first_row)},
                     {"outputs", static_cast<uint32_t>(rows.rows)}};
    kernel.bindings = {memory(), weight("w", op.weight, tile)};
    kernel.snippets = {decoder(op.weight, "w")};
    if (class_ == TokenClass::decode) {
      kernel.body = kVector;
      kernel.constants.insert(kernel.constants.end(),
                              {{"ROWS", rows_at_once(adapter_)}, {"OUTPUTS_EACH", product_outputs_each(adapter_)}});
      kernel.snippets.emplace_back(kStagedProduct);
      kernel.threads = kProductThreads;
      kernel.grid = {.per = rows_at_once(adapter_), .times = product_blocks(adapter_, rows.rows)};
    } else {
      const uint32_t each = tile_each(adapter_);
      kernel.body = kTiles;
      kernel.constants.push_back({"EACH", each});
      kernel.grid = {.per = 8 * each, .times = (rows.rows + 8 * each - 1) / (8 * each)};
    }
    add(kernel);
  }
}

}  // namespace sluice::webgpu
