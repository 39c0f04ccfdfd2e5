// linear for prompts and towers, and linear_transposed, on GPUs with matrix units in fast arithmetic: dispatches write
// the rows and the weight as f16, another one multiplies tiles of rows by outputs (matrix_tiles.h). Weights too large
// for scratch are taken some rows at a time.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "device/webgpu/emitter.h"
#include "device/webgpu/kernels/matrix_tiles.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

// A workgroup: a row. A thread: eight columns at a time.
constexpr const char* kWriteRows = R"(
const EIGHTS = ROW_WORDS / 4u;
fn x_four(row: u32, column: u32) -> vec4f {
${more}  return four_of(p.x + row * COLUMNS, column, COLUMNS);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let row = p.first_row + group_index(group, groups);
  if (row >= min(rows(), p.end_row)) { return; }
  var bits = 0u;
  for (var i = thread; i < EIGHTS * 2u; i += THREADS) {
    let four_bits = bitcast<vec4u>(abs(x_four(row, i * 4u)));
    let largest_two = max(four_bits.xy, four_bits.zw);
    bits = max(bits, max(largest_two.x, largest_two.y));
  }
  let power = power_for(max_all(bitcast<f32>(min(bits, 0x7f800000u)), thread));
  let inverse = inverse_of(power);
  let to = p.to + row * BLOCK_WORDS;
  for (var i = thread; i < EIGHTS; i += THREADS) {
    put_four(to + i / 4u * p.block + i % 4u * 4u,
             eight_halves(x_four(row, i * 8u) * inverse, x_four(row, i * 8u + 4u) * inverse));
  }
  if (thread == 0u) { put_four(p.powers + row * POWER_WORDS, vec4u(bitcast<u32>(power), 0u, 0u, 0u)); }
}
)";

constexpr const char* kMoreColumns = R"(
  if (column >= MORE_BEGIN) { return four_of(p.more + row * MORE_COLUMNS, column - MORE_BEGIN, MORE_COLUMNS); }
)";

// A workgroup: 16 rows of the weight by 128 of its columns, so that neighbouring threads read and write neighbouring
// words. A thread: 16 columns of a row.
constexpr const char* kWriteWeight = R"(
const ROWS = 16u;
const TILE_PARTS = 8u;
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let row = i / COLUMN_TILES * ROWS + thread / TILE_PARTS;
  let part = i % COLUMN_TILES * TILE_PARTS + thread % TILE_PARTS;
  if (row >= p.weight_rows || part >= PARTS) { return; }
  var x = mat4x4f();
  if (part < USED_PARTS) { x = w_16(p.first + row, part); }
${more}  let to = p.to + part / 2u * p.block + row * BLOCK_WORDS + part % 2u * 8u;
  put_four(to, eight_halves(x[0], x[1]));
  put_four(to + 4u, eight_halves(x[2], x[3]));
}
)";
constexpr uint32_t kWrittenRows = 16, kWrittenColumns = 128;
constexpr const char* kMoreParts = R"(
  if (part >= MORE_BEGIN / 16u && part < MORE_BEGIN / 16u + MORE_PARTS) { x = more_16(row, part - MORE_BEGIN / 16u); }
)";

// A workgroup: 32 rows of the weight by 128 of its columns, which it leaves as rows. They pass through workgroup
// memory, so that neighbouring threads read and write neighbouring words. A thread: 16 columns of two rows.
constexpr const char* kWriteTransposed = R"(
const PAIRS = 16u;
const PARTS = 8u;
const STRIDE = PAIRS + 1u;
var<workgroup> turned: array<u32, PARTS * 16u * STRIDE>;
fn row_16(row: u32, part: u32) -> mat4x4f {
  if (row < p.weight_rows && part < USED_PARTS) { return w_16(p.first + row, part); }
${more}  return mat4x4f();
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let first_row = i / COLUMN_TILES * PAIRS * 2u;
  let first_column = i % COLUMN_TILES * PARTS * 16u;
  if (first_row >= p.end_row) { return; }
  let part = thread % PARTS;
  let pair = thread / PARTS;
  let a = row_16(first_row + pair * 2u, first_column / 16u + part);
  let b = row_16(first_row + pair * 2u + 1u, first_column / 16u + part);
  let at = part * 16u * STRIDE + pair;
${turn}  workgroupBarrier();
  for (var n = thread; n < PARTS * 16u * PAIRS / 4u; n += THREADS) {
    let column = n / (PAIRS / 4u);
    let four_pairs = n % (PAIRS / 4u) * 4u;
    let begin = column * STRIDE + four_pairs;
    if (first_column + column < COLUMNS) {
      put_four(p.to + first_row / 32u * p.block + (first_column + column) * BLOCK_WORDS + four_pairs,
               vec4u(turned[begin], turned[begin + 1u], turned[begin + 2u], turned[begin + 3u]));
    }
  }
}
)";
constexpr const char* kMoreRows = R"(
  if (row >= MORE_BEGIN && row < MORE_BEGIN + MORE_ROWS && part < USED_PARTS) { return more_16(row - MORE_BEGIN, part); }
)";
constexpr uint32_t kTurnedRows = 32, kTurnedColumns = 128;

constexpr const char* kBegin = R"(
fn x_of_row(row: u32) -> u32 { return p.x + row * BLOCK_WORDS; }
fn x_block() -> u32 { return p.x_block; }
fn power_of_row(row: u32) -> f32 { return load(p.powers + row * POWER_WORDS); }
fn w_of_row(row: u32) -> u32 { return p.w + row * BLOCK_WORDS; }
fn w_block() -> u32 { return p.w_block; }

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

// Columns of a row of halves behind which others may follow.
uint32_t whole_columns(uint32_t columns) { return half_words(columns) * 2; }

// Words of scratch for a weight at most.
constexpr uint64_t kMostWeightWords = uint64_t{24} << 20;

}  // namespace

// Weights in f32 are left alone, as those of routers are: f16 would lose what they say.
bool Emitter::has_matrix_tiles(WeightId weight) const {
  const WeightShape& shape = program_.weights[weight].shape;
  return request_.arithmetic == Arithmetic::fast && adapter_.matrices && layout_.matrix(weight).format != Format::f32 &&
         shape.rows > 32;
}

HalvesAt Emitter::scratch_for_halves(uint64_t rows, uint32_t words) {
  const uint32_t first = scratch(rows * words), power = scratch(rows * kPowerWords);
  return {.first = first, .power = power, .block = static_cast<uint32_t>(rows * kBlockWords)};
}

HalvesAt Emitter::emit_halves(ValueId x) {
  const uint64_t rows = most_rows(type(x).extent);
  // The op before may have left them in the same words, as products of the same rows do.
  const bool are_there =
      halved_.x == x && halved_.op + 1 == op_ && halved_.at.first == layout_.scratch() + scratch_taken_;
  if (are_there) {
    halved_.op = op_;
    return scratch_for_halves(rows, halved_.row_words);
  }
  halved_ = {.x = x, .op = op_, .joined = joined_adapters(x)};
  halved_.row_words = half_words(columns(x)) + added_words(halved_.joined);
  halved_.at = scratch_for_halves(rows, halved_.row_words);
  const Halves of{.extent = type(x).extent, .x = at(x), .columns = columns(x), .to = halved_.at};
  if (halved_.joined.empty())
    emit_halves(of);
  else
    emit_adapted_halves(of, halved_.joined);
  return halved_.at;
}

void Emitter::emit_halves(const Halves& of) {
  const bool is_long = of.columns >= 16384;
  Kernel kernel{.name = "rows_as_halves", .extent = of.extent, .threads = is_long ? 256u : 128u};
  kernel.constants = {{"COLUMNS", of.columns}, {"ROW_WORDS", half_words(of.columns) + half_words(of.more_columns)}};
  kernel.constants.insert(kernel.constants.end(), {{"BLOCK_WORDS", kBlockWords}, {"POWER_WORDS", kPowerWords}});
  kernel.params = {{"x", of.x},
                   {"to", of.to.first},
                   {"powers", of.to.power},
                   {"block", of.to.block},
                   {"first_row", of.first_row},
                   {"end_row", of.end_row}};
  const bool has_more = of.more_columns > 0;
  if (has_more) {
    kernel.constants.insert(kernel.constants.end(),
                            {{"MORE_BEGIN", whole_columns(of.columns)}, {"MORE_COLUMNS", of.more_columns}});
    kernel.params.push_back({"more", of.more});
  }
  kernel.body = fill(kWriteRows, {{"more", has_more ? kMoreColumns : ""}});
  kernel.bindings = {memory()};
  if ((of.columns | of.x | of.more_columns | of.more) % 4 == 0) kernel.bindings.front().element = kFours;
  use_reduce(kernel, adapter_);
  kernel.snippets.insert(kernel.snippets.end(), {kAsHalves, kFourOf});
  kernel.grid = {.first_row = of.first_row, .most_rows = of.end_row - of.first_row};
  add(kernel);
}

uint64_t Emitter::most_weight_rows(WeightId weight) const {
  const WeightShape& shape = program_.weights[weight].shape;
  const uint64_t most = kMostWeightWords / half_words(shape.columns) / kMatrixColumns * kMatrixColumns;
  return std::min<uint64_t>(shape.rows, std::max<uint64_t>(most, kMatrixColumns));
}

void Emitter::emit_weight_halves(const WeightHalves& of) {
  const uint32_t all = program_.weights[of.weight].shape.columns;
  const uint32_t more = of.more == kNone ? 0 : program_.weights[of.more].shape.columns;
  const uint32_t parts = (half_words(all) + half_words(more)) / 8;
  Kernel kernel{.name = "weight_as_halves", .extent = {Symbol::one, 1}, .threads = 128};
  const auto tiles = static_cast<uint32_t>(divide_up(parts * 16, kWrittenColumns));
  kernel.constants = {{"PARTS", parts},
                      {"COLUMN_TILES", tiles},
                      {"USED_PARTS", static_cast<uint32_t>(divide_up(all, 16))},
                      {"BLOCK_WORDS", kBlockWords}};
  kernel.params = {{"to", of.to},
                   {"block", static_cast<uint32_t>(of.count * kBlockWords)},
                   {"first", static_cast<uint32_t>(of.first)},
                   {"weight_rows", static_cast<uint32_t>(of.count)}};
  kernel.bindings = {memory(), weight("w", of.weight, of.tile)};
  kernel.bindings.front().element = kFours;
  kernel.snippets = {decoder(of.weight, "w"), kAsHalves};
  if (more > 0) {
    kernel.constants.insert(kernel.constants.end(), {{"MORE_BEGIN", whole_columns(all)},
                                                     {"MORE_PARTS", static_cast<uint32_t>(divide_up(more, 16))}});
    kernel.bindings.push_back(weight("more", of.more, 0));
    kernel.snippets.push_back(decoder(of.more, "more"));
  }
  kernel.body = fill(kWriteWeight, {{"more", more > 0 ? kMoreParts : ""}});
  kernel.grid = {.times = divide_up(of.count, kWrittenRows) * tiles};
  add(kernel);
}

void Emitter::emit_transposed_halves(const WeightHalves& of) {
  const uint32_t all = program_.weights[of.weight].shape.columns, rows = static_cast<uint32_t>(of.count);
  const uint32_t more = of.more == kNone ? 0 : program_.weights[of.more].shape.rows;
  const uint32_t words = half_words(rows) + half_words(more);
  const auto tiles = static_cast<uint32_t>(divide_up(all, kTurnedColumns));
  Kernel kernel{.name = "transposed_as_halves", .extent = {Symbol::one, 1}, .threads = 128};
  kernel.constants = {{"COLUMNS", all},
                      {"COLUMN_TILES", tiles},
                      {"USED_PARTS", static_cast<uint32_t>(divide_up(all, 16))},
                      {"BLOCK_WORDS", kBlockWords}};
  kernel.params = {{"to", of.to},
                   {"block", all * kBlockWords},
                   {"first", static_cast<uint32_t>(of.first)},
                   {"weight_rows", rows},
                   {"end_row", words * 2}};
  kernel.bindings = {memory(), weight("w", of.weight, of.tile)};
  kernel.bindings.front().element = kFours;
  kernel.snippets = {decoder(of.weight, "w"), kAsHalves};
  if (more > 0) {
    kernel.constants.insert(kernel.constants.end(), {{"MORE_BEGIN", whole_columns(rows)}, {"MORE_ROWS", more}});
    kernel.bindings.push_back(weight("more", of.more, 0));
    kernel.snippets.push_back(decoder(of.more, "more"));
  }
  std::string turn;
  for (uint32_t j = 0; j < 16; ++j)
    turn += cat("  turned[at + ", j, "u * STRIDE] = pack2x16float(vec2f(a[", j / 4, "][", j % 4, "], b[", j / 4, "][",
                j % 4, "]));\n");
  kernel.body = fill(kWriteTransposed, {{"turn", turn}, {"more", more > 0 ? kMoreRows : ""}});
  kernel.grid = {.times = divide_up(words * 2, kTurnedRows) * tiles};
  add(kernel);
}

bool Emitter::is_by_matrices(const Linear& op) const {
  return !has_few_rows(type(op.x).extent) && !is_narrow(op.weight) && has_matrix_tiles(op.weight);
}

void Emitter::emit_matrix_tiles(const Linear& op, const Finishing& finish) {
  const HalvesAt halves = emit_halves(op.x);
  const auto joined = std::ranges::find(halved_.joined, op_, &JoinedAdapter::op);
  const bool is_joined = joined != halved_.joined.end();
  const uint64_t at_once = most_weight_rows(op.weight);
  const uint32_t weights = scratch(at_once * half_words(columns(op.x)));
  const std::vector<WeightTile>& tiles = layout_.matrix(op.weight).tiles;
  for (uint32_t tile = 0; tile < tiles.size(); ++tile) {
    for (uint64_t first = 0; first < tiles[tile].rows; first += at_once) {
      const uint64_t count = std::min(at_once, tiles[tile].rows - first);
      emit_weight_halves({.weight = op.weight, .tile = tile, .first = first, .count = count, .to = weights});
      emit_summed_product({.extent = type(op.x).extent,
                           .halves = halves,
                           .weights = weights,
                           .weight_rows = static_cast<uint32_t>(count),
                           .depth = columns(op.x),
                           .first_output = static_cast<uint32_t>(tiles[tile].first_row + first),
                           .outputs = static_cast<uint32_t>(count),
                           .adapter = is_joined ? op.adapter : AdapterOperand{},
                           .first_added = is_joined ? joined->first_block : 0},
                          finish);
    }
  }
  if (op.adapter && !is_joined) emit_adapters(std::array{&op});
}

bool Emitter::has_transposed_matrix_tiles(WeightId weight) const {
  return has_matrix_tiles(weight) && layout_.matrix(weight).tiles.size() == 1 &&
         uint64_t{program_.weights[weight].shape.columns} * half_words(program_.weights[weight].shape.rows) <=
             kMostWeightWords;
}

void Emitter::emit_matrix_transposed(const LinearTransposed& op, const Finishing& finish) {
  const HalvesAt halves = emit_halves(op.x);
  const uint32_t weights = scratch(uint64_t{columns(op.out)} * half_words(columns(op.x)));
  emit_transposed_halves({.weight = op.weight, .count = columns(op.x), .to = weights});
  emit_summed_product({.extent = type(op.x).extent,
                       .halves = halves,
                       .weights = weights,
                       .weight_rows = columns(op.out),
                       .depth = columns(op.x),
                       .outputs = columns(op.out)},
                      finish);
}

// Each row of the weight is followed by the outer factor's row, and each row of the step by the factor's own row. So
// one product has both sums.
bool Emitter::emit_joined(const JoinedRun& run) {
  struct Operands {
    WeightId weight = kNone;
    ValueId x = kNone;
    bool has_adapter = false;
  };
  const auto operands_of = [&](uint32_t op) -> Operands {
    if (const auto* linear = std::get_if<Linear>(&program_.ops[op]))
      return {linear->weight, linear->x, bool{linear->adapter}};
    const auto& transposed = std::get<LinearTransposed>(program_.ops[op]);
    return {transposed.weight, transposed.x};
  };
  const Operands wide = operands_of(run.wide_op), narrow = operands_of(run.narrow_op);
  const uint32_t outputs = columns(run.finish.out), inputs = columns(wide.x), more = columns(narrow.x);
  const uint32_t words = half_words(inputs) + half_words(more);
  if (wide.has_adapter || narrow.has_adapter || !has_matrix_tiles(wide.weight) || has_few_rows(type(wide.x).extent) ||
      layout_.matrix(wide.weight).tiles.size() > 1 || layout_.matrix(narrow.weight).tiles.size() > 1 ||
      uint64_t{outputs} * words > kMostWeightWords)
    return false;
  if (run.inner) {
    const auto& product = std::get<Linear>(program_.ops[run.wide_op + 1]);
    if (may_finish(product)) {
      emit_product(product, *run.inner);
    } else {
      emit(product);
      emit(std::get<Scale>(program_.ops[run.wide_op + 2]));
    }
  }
  const Extent& extent = type(wide.x).extent;
  const HalvesAt halves = scratch_for_halves(most_rows(extent), words);
  emit_halves(
      {.extent = extent, .x = at(wide.x), .columns = inputs, .more = at(narrow.x), .more_columns = more, .to = halves});
  const WeightHalves both{.weight = wide.weight,
                          .count = program_.weights[wide.weight].shape.rows,
                          .to = scratch(uint64_t{outputs} * words),
                          .more = narrow.weight};
  if (std::holds_alternative<LinearTransposed>(program_.ops[run.wide_op]))
    emit_transposed_halves(both);
  else
    emit_weight_halves(both);
  emit_summed_product({.extent = extent,
                       .halves = halves,
                       .weights = both.to,
                       .weight_rows = outputs,
                       .depth = whole_columns(inputs) + more,
                       .outputs = outputs},
                      run.finish);
  return true;
}

// Parts depend on the product's shape alone, so that neither the step's rows nor the plan's change a sum. A prompt's
// products have no parts: it may have thousands of rows, whose parts take longer to write and to read than they save.
uint32_t Emitter::part_of_sum(const Extent& extent, uint64_t outputs, uint32_t depth) const {
  constexpr uint64_t kUsualRows = 512;  // of a sequence that is learnt, of a long sound
  constexpr uint64_t kFewTiles = 200, kWantedTiles = 384, kLeastPart = 1024;
  if (!(request_.whole_sequences || request_.round_to_bf16) || extent.ratio > 1) return 0;
  const uint64_t tiles = divide_up(kUsualRows, MatrixTile{}.rows()) * divide_up(outputs, MatrixTile{}.outputs());
  const uint64_t parts = std::min(divide_up(kWantedTiles, tiles), depth / kLeastPart);
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
  kernel.constants = {{"BLOCK_WORDS", kBlockWords}, {"POWER_WORDS", kPowerWords}};
  kernel.params = {{"x", of.halves.first},
                   {"powers", of.halves.power},
                   {"x_block", of.halves.block},
                   {"w", of.weights},
                   {"w_block", of.weight_rows * kBlockWords},
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
  if (of.adapter) use_joined_adapter(kernel, of.adapter, of.first_added);
  use_matrix_tile(kernel, adapter_, side, kBegin, fill(kEnd, {{"store", fours ? kStoreFour : kStoreEach}}),
                  bool{of.adapter});
  kernel.grid = {.per = side.rows(),
                 .times = parts * side.blocks(of.outputs),
                 .first_row = of.first_row,
                 .most_rows = of.end_row - of.first_row};
  add(kernel);
}

}  // namespace sluice::webgpu
