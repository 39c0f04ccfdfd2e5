// linear for prompts and towers, and linear_transposed, on GPUs with matrix units in fast arithmetic: dispatches write
// the rows and the weight as f16, another one multiplies tiles of rows by outputs (matrix_tiles.h). Weights too large
// for scratch are taken some rows at a time.
#include <algorithm>

#include "base/text.h"
#include "device/webgpu/emitter.h"
#include "device/webgpu/kernels/matrix_tiles.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

// A workgroup: a row. A thread: eight columns at a time.
constexpr const char* kWriteRows = R"(
const EIGHTS = ROW_WORDS / 4u - 1u;
fn x_four(at: u32, column: u32) -> vec4f {
  if (column + 4u <= COLUMNS) { return load4(at + column); }
  var x = vec4f();
  for (var i = 0u; i < 4u; i++) {
    if (column + i < COLUMNS) { x[i] = load(at + column + i); }
  }
  return x;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let row = p.first_row + group_index(group, groups);
  if (row >= min(rows(), p.end_row)) { return; }
  let x = p.x + row * COLUMNS;
  var bits = 0u;
  for (var i = thread; i < EIGHTS * 2u; i += THREADS) {
    let four_bits = bitcast<vec4u>(abs(x_four(x, i * 4u)));
    let largest_two = max(four_bits.xy, four_bits.zw);
    bits = max(bits, max(largest_two.x, largest_two.y));
  }
  let power = power_for(max_all(bitcast<f32>(min(bits, 0x7f800000u)), thread));
  let inverse = inverse_of(power);
  let to = p.to + row * ROW_WORDS;
  for (var i = thread; i < EIGHTS; i += THREADS) {
    put_four(to + i * 4u, eight_halves(x_four(x, i * 8u) * inverse, x_four(x, i * 8u + 4u) * inverse));
  }
  if (thread == 0u) { put_four(to + EIGHTS * 4u, vec4u(bitcast<u32>(power), 0u, 0u, 0u)); }
}
)";

// A thread: 16 numbers of a row of the weight.
constexpr const char* kWriteWeight = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups) * THREADS + thread;
  let row = i / PARTS;
  let part = i % PARTS;
  if (row >= p.weight_rows) { return; }
  var x = mat4x4f();
  if (part < USED_PARTS) { x = w_16(p.first + row, part); }
  let to = p.to + i * 8u;
  put_four(to, eight_halves(x[0], x[1]));
  put_four(to + 4u, eight_halves(x[2], x[3]));
}
)";

constexpr const char* kBegin = R"(
fn x_of_row(row: u32) -> u32 { return p.x + row * p.row_words; }
fn power_of_row(row: u32) -> f32 { return load(p.x + (row + 1u) * p.row_words - 4u); }
fn w_of_row(row: u32) -> u32 { return p.w + row * p.w_row_words; }

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let blocks = (p.outputs + TILE_OUTPUTS - 1u) / TILE_OUTPUTS;
  let i = group_index(group, groups);
  let first = p.first_row + i / blocks / p.parts * TILE_ROWS;
  let first_output = i % blocks * TILE_OUTPUTS;
  let end = min(rows(), p.end_row);
  if (first >= end) { return; }
  let count = min(TILE_ROWS, end - first);
  let last_output = p.outputs - 1u;
  let part = i / blocks % p.parts;
  let first_x = p.first_x;
  let first_k = part * p.part;
  let end_k = min(first_k + p.part, p.depth);
  let out = p.out + part * p.part_words + p.first_output;
)";
constexpr const char* kEnd = R"(
}
fn keep_four(out: u32, row: u32, output: u32, x: vec4f) {
  let at = out + row * p.out_words + output;
${store}}
)";
constexpr const char* kStoreFour = R"(
  store4(at, finished(x, at - p.out));
)";
constexpr const char* kStoreEach = R"(
  let y = finished(x, at - p.out);
  for (var i = 0u; i < min(4u, p.outputs - output); i++) { store(at + i, y[i]); }
)";

// Words of scratch for a weight at most.
constexpr uint64_t kMostWeightWords = uint64_t{24} << 20;

}  // namespace

// Weights in f32 are left alone, as those of routers are: f16 would lose what they say.
bool Emitter::has_matrix_tiles(WeightId weight) const {
  const WeightShape& shape = program_.weights[weight].shape;
  return request_.arithmetic == Arithmetic::fast && adapter_.matrices && layout_.matrix(weight).format != Format::f32 &&
         shape.rows > 32;
}

uint32_t Emitter::emit_halves(ValueId x) {
  const uint32_t halves = scratch(most_rows(type(x).extent) * half_words(columns(x)));
  // The op before may have left them in the same words, as products of the same rows do.
  const bool are_there = halved_ == x && halved_op_ + 1 == op_ && halved_at_ == halves;
  halved_ = x;
  halved_op_ = op_;
  halved_at_ = halves;
  if (are_there) return halves;
  emit_halves({.extent = type(x).extent, .x = at(x), .columns = columns(x), .to = halves});
  return halves;
}

void Emitter::emit_halves(const Halves& of) {
  const bool is_long = of.columns >= 16384;
  Kernel kernel{.name = "rows_as_halves", .body = kWriteRows, .extent = of.extent, .threads = is_long ? 256u : 128u};
  kernel.constants = {{"COLUMNS", of.columns}, {"ROW_WORDS", half_words(of.columns)}};
  kernel.params = {{"x", of.x}, {"to", of.to}, {"first_row", of.first_row}, {"end_row", of.end_row}};
  kernel.bindings = {memory()};
  if (of.columns % 4 == 0 && of.x % 4 == 0) kernel.bindings.front().element = kFours;
  use_reduce(kernel, adapter_);
  kernel.snippets.emplace_back(kAsHalves);
  kernel.grid = {.first_row = of.first_row, .most_rows = of.end_row - of.first_row};
  add(kernel);
}

uint64_t Emitter::most_weight_rows(WeightId weight) const {
  const WeightShape& shape = program_.weights[weight].shape;
  const uint64_t most = kMostWeightWords / weight_half_words(shape.columns) / kMatrixColumns * kMatrixColumns;
  return std::min<uint64_t>(shape.rows, std::max<uint64_t>(most, kMatrixColumns));
}

void Emitter::emit_weight_halves(WeightId id, uint32_t tile, uint64_t first, uint64_t count, uint32_t to) {
  const uint32_t all = program_.weights[id].shape.columns;
  const uint32_t parts = weight_half_words(all) / 8;
  Kernel kernel{.name = "weight_as_halves", .body = kWriteWeight, .extent = {Symbol::one, 1}, .threads = 128};
  kernel.constants = {{"PARTS", parts}, {"USED_PARTS", static_cast<uint32_t>(divide_up(all, 16))}};
  kernel.params = {{"to", to}, {"first", static_cast<uint32_t>(first)}, {"weight_rows", static_cast<uint32_t>(count)}};
  kernel.bindings = {memory(), weight("w", id, tile)};
  kernel.bindings.front().element = kFours;
  kernel.snippets = {decoder(id, "w"), kAsHalves};
  kernel.grid = {.times = divide_up(count * parts, kernel.threads)};
  add(kernel);
}

void Emitter::emit_matrix_tiles(const Linear& op, const Finishing& finish) {
  const uint32_t halves = emit_halves(op.x);
  const uint64_t at_once = most_weight_rows(op.weight);
  const uint32_t words = weight_half_words(columns(op.x)), weights = scratch(at_once * words);
  const std::vector<WeightTile>& tiles = layout_.matrix(op.weight).tiles;
  for (uint32_t tile = 0; tile < tiles.size(); ++tile) {
    for (uint64_t first = 0; first < tiles[tile].rows; first += at_once) {
      const uint64_t count = std::min(at_once, tiles[tile].rows - first);
      emit_weight_halves(op.weight, tile, first, count, weights);
      emit_summed_product({.extent = type(op.x).extent,
                           .halves = halves,
                           .row_words = half_words(columns(op.x)),
                           .weights = weights,
                           .weight_words = words,
                           .depth = columns(op.x),
                           .first_output = static_cast<uint32_t>(tiles[tile].first_row + first),
                           .outputs = static_cast<uint32_t>(count)},
                          finish);
    }
  }
}

bool Emitter::has_transposed_matrix_tiles(WeightId weight) const {
  return has_matrix_tiles(weight) && layout_.matrix(weight).tiles.size() == 1 &&
         most_weight_rows(weight) == program_.weights[weight].shape.rows;
}

void Emitter::emit_matrix_transposed(const LinearTransposed& op, const Finishing& finish) {
  const uint32_t halves = emit_halves(op.x), words = weight_half_words(columns(op.out));
  const uint32_t weights = scratch(uint64_t{columns(op.x)} * words);
  emit_weight_halves(op.weight, 0, 0, columns(op.x), weights);
  emit_summed_product({.across = true,
                       .extent = type(op.x).extent,
                       .halves = halves,
                       .row_words = half_words(columns(op.x)),
                       .weights = weights,
                       .weight_words = words,
                       .depth = columns(op.x),
                       .outputs = columns(op.out)},
                      finish);
}

// Parts depend on the product's shape alone, so that neither the step's rows nor the plan's change a sum. A prompt's
// products have no parts: it may have thousands of rows, whose parts take longer to write and to read than they save.
uint32_t Emitter::part_of_sum(const Extent& extent, uint64_t outputs, uint32_t depth) const {
  constexpr uint64_t kUsualRows = 512;  // of a sequence that is learnt, of a long sound
  constexpr uint64_t kFewTiles = 200, kTiles = 384, kLeastPart = 1024;
  if (!(request_.whole_sequences || request_.round_to_bf16) || extent.ratio > 1) return 0;
  const uint64_t tiles = divide_up(kUsualRows, MatrixTile{}.rows()) * divide_up(outputs, MatrixTile{}.outputs());
  const uint64_t parts = std::min(divide_up(kTiles, tiles), depth / kLeastPart);
  if (tiles > kFewTiles || parts < 2) return 0;
  return static_cast<uint32_t>(divide_up(depth, parts * kMatrixColumns) * kMatrixColumns);
}

void Emitter::emit_summed_product(MatrixProduct of, const Finishing& finish) {
  of.out = at(finish.out);
  of.out_columns = columns(finish.out);
  of.finish = finish;
  of.part = of.outputs == of.out_columns ? part_of_sum(of.extent, of.outputs, of.depth) : 0;
  if (of.part == 0) return emit_matrix_product(of);
  const auto parts = static_cast<uint32_t>(divide_up(of.depth, of.part));
  of.finish = {};
  of.part_words = part_words(finish.out);
  of.out = scratch(uint64_t{parts} * of.part_words);
  emit_matrix_product(of);
  emit_sum_of_parts("matrix_parts", finish, parts, of.out);
}

void Emitter::emit_matrix_product(const MatrixProduct& of) {
  const uint64_t rows = std::min<uint64_t>(most_rows(of.extent), of.end_row - of.first_row);
  const uint32_t part = of.part == 0 ? (of.depth + kMatrixColumns - 1) / kMatrixColumns * kMatrixColumns : of.part;
  const auto parts = static_cast<uint32_t>(divide_up(of.depth, part));
  const MatrixTile side = matrix_tile(rows, parts * uint64_t{of.outputs});
  Kernel kernel{.name = of.name, .extent = of.extent};
  kernel.params = {{"x", of.halves},
                   {"row_words", of.row_words},
                   {"w", of.weights},
                   {"w_row_words", of.weight_words},
                   {"out", of.out},
                   {"out_words", of.out_columns},
                   {"first_output", of.first_output},
                   {"outputs", of.outputs},
                   {"first_row", of.first_row},
                   {"end_row", of.end_row},
                   {"first_x", of.first_x},
                   {"depth", of.depth},
                   {"part", part},
                   {"parts", parts},
                   {"part_words", of.part_words}};
  kernel.params.insert(kernel.params.end(), of.params.begin(), of.params.end());
  kernel.bindings = {memory()};
  const bool fours = of.out_columns % 4 == 0 && of.first_output % 4 == 0 && of.outputs % 4 == 0 && of.out % 4 == 0 &&
                     (of.finish.plus == kNone || at(of.finish.plus) % 4 == 0);
  if (fours) kernel.bindings.front().element = kFours;
  if (of.finished.empty())
    use_finish(kernel, of.finish, "vec4f");
  else
    kernel.snippets = {of.finished};
  use_matrix_tile(kernel, adapter_, side, of.across, kBegin, fill(kEnd, {{"store", fours ? kStoreFour : kStoreEach}}));
  kernel.grid = {.per = side.rows(),
                 .times = parts * side.blocks(of.outputs),
                 .first_row = of.first_row,
                 .most_rows = of.end_row - of.first_row};
  add(kernel);
}

}  // namespace sluice::webgpu
