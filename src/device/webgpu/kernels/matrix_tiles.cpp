#include "device/webgpu/kernels/matrix_tiles.h"

#include "base/text.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

// Rows and weights of a tile lie in workgroup memory, eight numbers a vector. An unused vector behind each row makes
// the same places of neighbouring rows fall into other memory banks.
//
// Each of these has an array for each subgroup, so that offset and stride of what a subgroup loads and stores are
// constants. Dawn checks an offset that it does not know and chooses the stride by that check. A product then takes a
// sixth longer, attention twice as long (docs/experiments.md).
constexpr const char* kTile = R"(
const TILE_ROWS = ROW_SIDE * ROWS_EACH * 16u;
const TILE_OUTPUTS = OUTPUT_SIDE * OUTPUTS_EACH * 16u;
const FOURS = 4u;
const STRIDE = 5u;
const X_LOADS = TILE_ROWS * FOURS / THREADS;
const W_LOADS = TILE_OUTPUTS * FOURS / THREADS;
const RESULT_FOURS = OUTPUTS_EACH * 4u;
const RESULT_STRIDE = RESULT_FOURS + 1u;
var<workgroup> x_tile: array<array<vec4u, ROWS_EACH * 16u * STRIDE>, ROW_SIDE>;
var<workgroup> w_tile: array<array<vec4u, OUTPUTS_EACH * 16u * STRIDE>, OUTPUT_SIDE>;
var<workgroup> results: array<array<vec4f, 16u * RESULT_STRIDE>, THREADS / SUBGROUP>;
var<workgroup> powers: array<f32, TILE_ROWS>;
alias Left = subgroup_matrix_left<f16, 16, 16>;
alias Right = subgroup_matrix_right<f16, 16, 16>;
alias Sums = subgroup_matrix_result<f32, 16, 16>;
)";
// The loops over what a thread prefetches are faster than as many statements (docs/experiments.md).
constexpr const char* kBefore = R"(
  let subgroup = thread / SUBGROUP;
  let x_side = subgroup / OUTPUT_SIDE;
  let w_side = subgroup % OUTPUT_SIDE;
  for (var row = thread; row < TILE_ROWS; row += THREADS) { powers[row] = power_of_row(first + min(row, count - 1u)); }
  var x_at: array<u32, X_LOADS>;
  for (var l = 0u; l < X_LOADS; l++) {
    let at = thread + l * THREADS;
    x_at[l] = x_of_row(first + min(at / FOURS, count - 1u)) + first_x / 32u * x_block() + at % FOURS * 4u;
  }
  var w_at: array<u32, W_LOADS>;
  for (var l = 0u; l < W_LOADS; l++) {
    let at = thread + l * THREADS;
    w_at[l] = w_of_row(min(first_output + at / FOURS, last_output)) + at % FOURS * 4u;
  }
  var next_x: array<vec4u, X_LOADS>;
  var next_w: array<vec4u, W_LOADS>;
)";
constexpr const char* kFetch = R"(
    for (var l = 0u; l < X_LOADS; l++) { next_x[l] = four(x_at[l] + (${k}) / 32u * x_block()); }
    for (var l = 0u; l < W_LOADS; l++) { next_w[l] = four(w_at[l] + (${k}) / 32u * w_block()); }
)";
constexpr const char* kCountMore = R"(
  let end_weight = first_k + (end_k - first_k + 31u) / 32u * 32u;
  let end_all = end_weight + more_steps() * 32u;
)";
constexpr const char* kFetchMore = R"(
    else if (k + 32u < end_all) {
      let step = (k + 32u - end_weight) / 32u;
      for (var l = 0u; l < X_LOADS; l++) {
        let at = thread + l * THREADS;
        next_x[l] = more_x(step, first + min(at / FOURS, count - 1u), at % FOURS);
      }
      for (var l = 0u; l < W_LOADS; l++) {
        let at = thread + l * THREADS;
        next_w[l] = more_w(step, min(first_output + at / FOURS, last_output), at % FOURS);
      }
    }
)";
// While a tile is multiplied, the threads prefetch its next 32 columns.
constexpr const char* kLoop = R"(
  {
${fetch_first}  }
${count_more}  for (var k = first_k; k < ${end}; k += 32u) {
    for (var l = 0u; l < X_LOADS; l++) {
      let at = thread + l * THREADS;
      let row = at / FOURS;
      x_tile[row / (ROWS_EACH * 16u)][row % (ROWS_EACH * 16u) * STRIDE + at % FOURS] = next_x[l];
    }
    for (var l = 0u; l < W_LOADS; l++) {
      let at = thread + l * THREADS;
      let row = at / FOURS;
      w_tile[row / (OUTPUTS_EACH * 16u)][row % (OUTPUTS_EACH * 16u) * STRIDE + at % FOURS] = next_w[l];
    }
    workgroupBarrier();
    if (k + 32u < end_k) {
${fetch_next}    }
${fetch_more}${multiply}    workgroupBarrier();
  }
  let is_full = count == TILE_ROWS && first_output + TILE_OUTPUTS <= last_output + 1u;
)";
// Each subgroup passes its results through 16 rows of its own in workgroup memory, so that neighbouring threads keep
// neighbouring outputs.
constexpr const char* kKeep = R"(
${store}  workgroupBarrier();
  for (var l = 0u; l < RESULT_FOURS / 2u; l++) {
    let n = thread % SUBGROUP + l * SUBGROUP;
    let row = x_side * ROWS_EACH * 16u + ${i}u * 16u + n / RESULT_FOURS;
    let output = first_output + w_side * OUTPUTS_EACH * 16u + n % RESULT_FOURS * 4u;
    if (is_full || (row < count && output <= last_output)) {
      keep_four(out, first + row, output,
                results[subgroup][n / RESULT_FOURS * RESULT_STRIDE + n % RESULT_FOURS] * powers[row]);
    }
  }
  workgroupBarrier();
)";

}  // namespace

const char* const kAsHalves = R"(
fn power_for(largest: f32) -> f32 {
  let bits = bitcast<u32>(largest) & 0x7f800000u;
  let low = clamp(bits, 0x07800000u, 0x7e800000u) - 0x06800000u;
  return bitcast<f32>(select(low, bits, bits == 0x7f800000u));
}
fn inverse_of(power: f32) -> f32 {
  let bits = bitcast<u32>(power);
  return bitcast<f32>(select(0x7f000000u - bits, 0u, bits == 0x7f800000u));
}
fn eight_halves(a: vec4f, b: vec4f) -> vec4u {
  return vec4u(pack2x16float(a.xy), pack2x16float(a.zw), pack2x16float(b.xy), pack2x16float(b.zw));
}
)";

const char* const kFourOf = R"(
fn four_of(at: u32, column: u32, columns: u32) -> vec4f {
  if (column + 4u <= columns) { return load4(at + column); }
  var x = vec4f();
  for (var i = 0u; i < 4u; i++) {
    if (column + i < columns) { x[i] = load(at + column + i); }
  }
  return x;
}
)";

// A subgroup with 4 by 4 matrices loads each of them for four products. Smaller ones make more tiles, which keep the
// GPU busy where there are few (docs/experiments.md).
MatrixTile matrix_tile(uint64_t rows, uint64_t outputs) {
  constexpr uint64_t kManyTiles = 132;
  const MatrixTile large = rows <= 64 ? MatrixTile{.row_side = 1, .output_side = 2} : MatrixTile{};
  const uint64_t tiles = divide_up(rows, large.rows()) * divide_up(outputs, large.outputs());
  if (tiles >= kManyTiles) return large;
  return {.row_side = 2, .rows_each = 2, .output_side = 2, .outputs_each = 2};
}

// Sums of matrices are separate variables, because arrays that a loop indexes may lie in memory.
void use_matrix_tile(Kernel& kernel, const Adapter& adapter, const MatrixTile& tile, const std::string& begin,
                     const std::string& end, bool has_more) {
  use_matrices(kernel, adapter);
  kernel.threads = tile.threads();
  kernel.constants.insert(kernel.constants.end(), {{"ROW_SIDE", tile.row_side},
                                                   {"ROWS_EACH", tile.rows_each},
                                                   {"OUTPUT_SIDE", tile.output_side},
                                                   {"OUTPUTS_EACH", tile.outputs_each}});
  kernel.snippets.emplace_back(kTile);
  std::string sums, multiply, kept;
  for (uint32_t half = 0; half < 2; ++half) {
    multiply += "    {\n";
    for (uint32_t i = 0; i < tile.rows_each; ++i)
      multiply += cat("      let x_", i, " = subgroupMatrixLoad<Left, row_major>(&x_tile[x_side], ", i * 16,
                      "u * STRIDE + ", half * 2, "u, STRIDE);\n");
    for (uint32_t j = 0; j < tile.outputs_each; ++j)
      multiply += cat("      let w_", j, " = subgroupMatrixLoad<Right, col_major>(&w_tile[w_side], ", j * 16,
                      "u * STRIDE + ", half * 2, "u, STRIDE);\n");
    for (uint32_t i = 0; i < tile.rows_each; ++i)
      for (uint32_t j = 0; j < tile.outputs_each; ++j)
        multiply += cat("      sums_", i, "_", j, " = subgroupMatrixMultiplyAccumulate(x_", i, ", w_", j, ", sums_", i,
                        "_", j, ");\n");
    multiply += "    }\n";
  }
  for (uint32_t i = 0; i < tile.rows_each; ++i) {
    std::string store;
    for (uint32_t j = 0; j < tile.outputs_each; ++j) {
      sums += cat("  var sums_", i, "_", j, " = Sums();\n");
      store += cat("  subgroupMatrixStore<row_major>(&results[subgroup], ", j * 4, "u, sums_", i, "_", j,
                   ", RESULT_STRIDE);\n");
    }
    kept += fill(kKeep, {{"i", cat(i)}, {"store", store}});
  }
  kernel.body = cat(begin, kBefore, sums,
                    fill(kLoop, {{"fetch_first", fill(kFetch, {{"k", "first_k"}})},
                                 {"count_more", has_more ? kCountMore : ""},
                                 {"end", has_more ? "end_all" : "end_k"},
                                 {"fetch_next", fill(kFetch, {{"k", "k + 32u"}})},
                                 {"fetch_more", has_more ? kFetchMore : ""},
                                 {"multiply", multiply}}),
                    kept, end);
}

}  // namespace sluice::webgpu
