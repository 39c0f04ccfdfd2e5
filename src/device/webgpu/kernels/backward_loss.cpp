// cross_entropy: logits of kRows rows at a time, so that memory does not grow with the rows. For each such block
//
//   1. the logits, tile by tile of the vocabulary, then the adapter's part, and the soft cap
//   2. the softmax's sums over parts of kRowPart words, the losses, and in place of logits their gradients
//   3. d_x and d_inner: sums over parts of kPart words of the vocabulary, so that enough workgroups have work, and then
//      the sums of the parts in ascending order. With matrix units a part has kMatrixPart words. Only words that are
//      halves at the same time have parts of their own; later words are added to these parts.
//   4. d_b: the block's rows are added to what the blocks before have left
#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "device/webgpu/emitter.h"
#include "device/webgpu/kernels/matrix_tiles.h"
#include "device/webgpu/kernels/tiled_products.h"

namespace sluice::webgpu {
namespace {

// With matrix units the vocabulary becomes halves once for each block of rows, so that blocks are larger.
constexpr uint32_t kRows = 64, kMatrixRows = 128, kPart = 4096, kMatrixPart = 1024, kRowThreads = 256, kRowPart = 16384;

constexpr const char* kBlock = R"(
fn block_end() -> u32 { return min(rows(), p.first_row + BLOCK_ROWS); }
fn logit_at(row: u32, output: u32) -> u32 { return p.logits + (row - p.first_row) * OUTPUTS + output; }
)";

// A tile of the vocabulary begins at output `first`.
constexpr const char* kLogits = R"(
fn job_of(group: u32) -> Job {
  let blocks = (p.outputs + TILE_COLUMNS - 1u) / TILE_COLUMNS;
  return Job(p.first_row + group / blocks * TILE_ROWS, block_end(), group % blocks * TILE_COLUMNS, p.outputs, 0u, COLUMNS,
             0u);
}
fn left_at(job: Job, m: u32, k: u32) -> f32 { return load(p.x + m * COLUMNS + k); }
fn weight_row(job: Job, n: u32) -> u32 { return n; }
)";
constexpr const char* kKeepSum = R"(
fn finish(job: Job, m: u32, n: u32, sum: f32) { store(logit_at(m, p.first + n), sum); }
)";
constexpr const char* kKeepLogit = R"(
fn finish(job: Job, m: u32, n: u32, sum: f32) { store(logit_at(m, p.first + n), capped(sum)); }
)";
constexpr const char* kAddToLogit = R"(
fn finish(job: Job, m: u32, n: u32, sum: f32) {
  let at = logit_at(m, p.first + n);
  store(at, capped(fma(p.factor, sum, load(at))));
}
)";
constexpr const char* kCapped = R"(
fn capped(z: f32) -> f32 { return select(z, p.softcap * exact_tanh(z / p.softcap), p.softcap > 0.0); }
)";

// The largest logit of a part of a row, and the sum of all exp(logit - largest).
constexpr const char* kRowParts = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let row = p.first_row + i / ROW_PARTS;
  if (row >= block_end()) { return; }
  let first = i % ROW_PARTS * ROW_PART;
  let begin = logit_at(row, first);
  let count = min(ROW_PART, OUTPUTS - first);
  var own = -3.0e38;
  for (var o = thread; o < count; o += THREADS) { own = max(own, load(begin + o)); }
  let largest = max_all(own, thread);
  var part = 0.0;
  for (var o = thread; o < count; o += THREADS) { part += exact_exp(load(begin + o) - largest); }
  let sum = sum_all(part, thread);
  if (thread == 0u) {
    let to = p.row_parts + ((row - p.first_row) * ROW_PARTS + i % ROW_PARTS) * 2u;
    store(to, largest);
    store(to + 1u, sum);
  }
}
)";
// Two words for each row of the block: its largest logit and the sum of all exp(logit - largest), in ascending order of
// parts.
constexpr const char* kRowLoss = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let row = p.first_row + group_index(group, groups) * THREADS + thread;
  if (row >= block_end()) { return; }
  let parts = p.row_parts + (row - p.first_row) * ROW_PARTS * 2u;
  var largest = load(parts);
  for (var part = 1u; part < ROW_PARTS; part++) { largest = max(largest, load(parts + part * 2u)); }
  var sum = 0.0;
  for (var part = 0u; part < ROW_PARTS; part++) {
    sum += load(parts + part * 2u + 1u) * exact_exp(load(parts + part * 2u) - largest);
  }
  store(p.loss + row, exact_log(sum) + largest - load(logit_at(row, word(p.target_words + row))));
  store(p.row_sums + (row - p.first_row) * 2u, largest);
  store(p.row_sums + (row - p.first_row) * 2u + 1u, sum);
}
)";
constexpr const char* kRowGradients = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let row = p.first_row + i / ROW_PARTS;
  if (row >= block_end()) { return; }
  let begin = logit_at(row, 0u);
  let largest = load(p.row_sums + (row - p.first_row) * 2u);
  let factor = 1.0 / load(p.row_sums + (row - p.first_row) * 2u + 1u);
  let target_word = word(p.target_words + row);
  let share = load(p.share + row);
  let end = min(i % ROW_PARTS * ROW_PART + ROW_PART, OUTPUTS);
  for (var o = i % ROW_PARTS * ROW_PART + thread; o < end; o += THREADS) {
    let y = load(begin + o);
    var d = share * (exact_exp(y - largest) * factor - select(0.0, 1.0, o == target_word));
    if (p.softcap > 0.0) {
      let capped = y / p.softcap;
      d *= 1.0 - capped * capped;
    }
    store(begin + o, d);
  }
}
)";

// Sums over parts of the vocabulary, each for all rows of the block. `depth` words of the vocabulary are in the bound
// weight, from word `first` on; its parts are numbered from first_part on.
constexpr const char* kPartSums = R"(
fn job_of(group: u32) -> Job {
  let blocks = (COLUMNS + TILE_COLUMNS - 1u) / TILE_COLUMNS;
  let tiles = (BLOCK_ROWS + TILE_ROWS - 1u) / TILE_ROWS;
  let part = group / blocks / tiles;
  return Job(p.first_row + group / blocks % tiles * TILE_ROWS, block_end(), group % blocks * TILE_COLUMNS, COLUMNS,
             part * PART, min((part + 1u) * PART, p.depth), p.first_part + part);
}
fn left_at(job: Job, m: u32, k: u32) -> f32 { return load(logit_at(m, p.first + k)); }
fn weight_row(job: Job, k: u32) -> u32 { return k; }
fn finish(job: Job, m: u32, n: u32, sum: f32) {
  store(p.parts + (job.place * BLOCK_ROWS + m - p.first_row) * COLUMNS + n, sum);
}
)";
constexpr const char* kAddParts = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups) * THREADS + thread;
  let row = p.first_row + i / COLUMNS;
  if (row >= min(rows(), p.first_row + BLOCK_ROWS)) { return; }
  var sum = 0.0;
  for (var part = 0u; part < PARTS; part++) { sum += load(p.parts + part * BLOCK_ROWS * COLUMNS + i); }
  store(p.out + p.first_row * COLUMNS + i, sum * p.factor);
}
)";

constexpr const char* kGradientOfB = R"(
fn job_of(group: u32) -> Job {
  let blocks = (COLUMNS + TILE_COLUMNS - 1u) / TILE_COLUMNS;
  return Job(group / blocks * TILE_ROWS, OUTPUTS, group % blocks * TILE_COLUMNS, COLUMNS, p.first_row, block_end(), 0u);
}
fn left_at(job: Job, m: u32, k: u32) -> f32 { return load(logit_at(k, m)); }
fn right_at(job: Job, k: u32, n: u32) -> f32 { return load(p.inner + k * COLUMNS + n); }
fn finish(job: Job, m: u32, n: u32, sum: f32) {
  let to = p.out + m * COLUMNS + n;
  store(to, fma(p.factor, sum, load(to)));
}
)";

}  // namespace

struct Emitter::LossBlock {
  const CrossEntropy& op;
  uint32_t first_row = 0;
  uint32_t block_rows = 0;
  uint32_t outputs = 0, inputs = 0, rank = 0;
  uint32_t logits = 0, parts = 0, row_parts = 0, row_sums = 0;  // words of scratch
  bool in_matrices = false;
  HalvesAt x_halves{}, logit_halves{};  // of all rows, of the block's
  uint32_t word_halves = 0, words_at_once = 0;
  // Of row 0, as if the block had it: numbers of 32 bits wrap around.
  uint32_t first_logits() const { return logits - first_row * outputs; }
  HalvesAt first_halves() const { return logit_halves.before(first_row); }
};

constexpr const char* kFirstOfParts = "fn finished(x: vec4f, i: u32) -> vec4f { return x; }\n";
constexpr const char* kNextOfParts = "fn finished(x: vec4f, i: u32) -> vec4f { return load4(p.out + i) + x; }\n";
constexpr const char* kCappedFour = R"(
fn finished(z: vec4f, i: u32) -> vec4f { return vec4f(capped(z.x), capped(z.y), capped(z.z), capped(z.w)); }
)";

struct Emitter::LogitProduct {
  const char* name = "";
  ValueId x = kNone;
  WeightId weight = kNone;
  uint32_t tile = 0;  // of the weight
  WeightTile rows{};
  const char* finish = "";
};

// A kernel for the rows of a block. A step without such rows has no workgroups.
Kernel Emitter::of_block(const char* name, const LossBlock& block, uint64_t times) const {
  Kernel kernel{.name = name, .extent = type(block.op.x).extent};
  kernel.constants = {{"OUTPUTS", block.outputs}, {"BLOCK_ROWS", block.block_rows}};
  kernel.params = {{"first_row", block.first_row}, {"logits", block.logits}};
  kernel.bindings = {memory()};
  kernel.grid = {.per = block.block_rows, .times = times, .first_row = block.first_row, .most_rows = block.block_rows};
  return kernel;
}

// The products of rows `x` with some rows of a weight, which `finish` keeps.
void Emitter::emit_logits(const LossBlock& block, const LogitProduct& of) {
  const CrossEntropy& op = block.op;
  const auto outputs = static_cast<uint32_t>(of.rows.rows);
  const TiledProduct product{.rows = block.block_rows, .columns = outputs, .right = RightTable::along};
  const ProductTile side = product_tile(adapter_, product);
  Kernel kernel =
      of_block(of.name, block, divide_up(block.block_rows, side.rows()) * divide_up(outputs, side.columns()));
  kernel.constants.push_back({"COLUMNS", columns(of.x)});
  kernel.params.insert(kernel.params.end(), {{"x", at(of.x)},
                                             {"first", static_cast<uint32_t>(of.rows.first_row)},
                                             {"outputs", outputs},
                                             {"softcap", op.softcap},
                                             {"factor", op.factor}});
  kernel.bindings.push_back(weight("w", of.weight, of.tile));
  kernel.snippets = {kMath, decoder(of.weight, "w"), kBlock};
  use_tiled_product(kernel, adapter_, product);
  kernel.snippets.insert(kernel.snippets.end(), {kLogits, kCapped, of.finish});
  add(kernel);
}

void Emitter::emit_logits(const LossBlock& block) {
  const CrossEntropy& op = block.op;
  const auto emit_all = [&](const char* name, ValueId x, WeightId id, const char* finish) {
    const std::vector<WeightTile>& tiles = layout_.matrix(id).tiles;
    for (uint32_t tile = 0; tile < tiles.size(); ++tile)
      emit_logits(block, {.name = name, .x = x, .weight = id, .tile = tile, .rows = tiles[tile], .finish = finish});
  };
  if (block.in_matrices)
    emit_matrix_logits(block);
  else
    emit_all("loss_logits", op.x, op.weight, op.inner == kNone ? kKeepLogit : kKeepSum);
  if (op.inner != kNone) emit_all("loss_adapter", op.inner, op.b, kAddToLogit);
}

// The vocabulary's words as halves, or transposed, some at a time: for each, `emit(first, count)`.
template <class F>
void Emitter::for_each_of_vocabulary(const LossBlock& block, bool transposed, F&& emit) {
  const WeightId id = block.op.weight;
  const std::vector<WeightTile>& tiles = layout_.matrix(id).tiles;
  for (uint32_t tile = 0; tile < tiles.size(); ++tile) {
    for (uint64_t first = 0; first < tiles[tile].rows; first += block.words_at_once) {
      const uint64_t count = std::min<uint64_t>(block.words_at_once, tiles[tile].rows - first);
      const WeightHalves words{.weight = id, .tile = tile, .first = first, .count = count, .to = block.word_halves};
      if (transposed)
        emit_transposed_halves(words);
      else
        emit_weight_halves(words);
      emit(static_cast<uint32_t>(tiles[tile].first_row + first), static_cast<uint32_t>(count));
    }
  }
}

void Emitter::emit_matrix_logits(const LossBlock& block) {
  const CrossEntropy& op = block.op;
  for_each_of_vocabulary(block, false, [&](uint32_t first, uint32_t count) {
    MatrixProduct product{.name = "loss_logits",
                          .extent = type(op.x).extent,
                          .first_row = block.first_row,
                          .end_row = block.first_row + block.block_rows,
                          .halves = block.x_halves,
                          .weights = block.word_halves,
                          .weight_rows = count,
                          .depth = block.inputs,
                          .out = block.first_logits(),
                          .out_columns = block.outputs,
                          .first_output = first,
                          .outputs = count};
    if (op.inner == kNone && op.softcap > 0) {
      product.finished = cat(kMath, kCapped, kCappedFour);
      product.params = {{"softcap", op.softcap}};
    }
    emit_matrix_product(product);
  });
}

// Returns the number of parts. Those of later words are added to those of the first ones.
uint32_t Emitter::emit_matrix_loss_products(const LossBlock& block) {
  const Extent& extent = type(block.op.x).extent;
  emit_halves({.extent = extent,
               .x = block.first_logits(),
               .columns = block.outputs,
               .to = block.first_halves(),
               .first_row = block.first_row,
               .end_row = block.first_row + block.block_rows});
  uint32_t parts = 0;
  for_each_of_vocabulary(block, true, [&](uint32_t first, uint32_t count) {
    const auto own = static_cast<uint32_t>(divide_up(count, kMatrixPart));
    CHECK(first == 0 || own <= parts);
    emit_matrix_product({.name = "loss_products",
                         .extent = extent,
                         .first_row = block.first_row,
                         .end_row = block.first_row + block.block_rows,
                         .halves = block.first_halves(),
                         .weights = block.word_halves,
                         .weight_rows = block.inputs,
                         .first_x = first,
                         .depth = count,
                         .part = kMatrixPart,
                         .part_words = block.block_rows * block.inputs,
                         .out = block.parts - block.first_row * block.inputs,
                         .out_columns = block.inputs,
                         .outputs = block.inputs,
                         .finished = first == 0 ? kFirstOfParts : kNextOfParts});
    parts = std::max(parts, own);
  });
  return parts;
}

void Emitter::emit_row_losses(const LossBlock& block) {
  const CrossEntropy& op = block.op;
  const auto parts = static_cast<uint32_t>(divide_up(block.outputs, kRowPart));
  // `items` of a row, `per` of them to a workgroup.
  const auto emit_one = [&](const char* name, const char* body, uint32_t threads, uint32_t items, uint32_t per) {
    Kernel kernel = of_block(name, block, 1);
    kernel.threads = threads;
    kernel.constants.insert(kernel.constants.end(), {{"ROW_PART", kRowPart}, {"ROW_PARTS", parts}});
    kernel.params.insert(kernel.params.end(), {{"row_parts", block.row_parts},
                                               {"row_sums", block.row_sums},
                                               {"target_words", at(op.target)},
                                               {"share", at(op.share)},
                                               {"loss", at(op.loss)},
                                               {"softcap", op.softcap}});
    kernel.snippets = {kMath, kBlock};
    use_reduce(kernel, adapter_);
    kernel.body = body;
    kernel.grid.items = items;
    kernel.grid.per = per;
    add(kernel);
  };
  emit_one("loss_row_parts", kRowParts, kRowThreads, parts, 1);
  emit_one("loss_rows", kRowLoss, kThreads, 1, kThreads);
  if (op.has_gradients()) emit_one("loss_row_gradients", kRowGradients, kRowThreads, parts, 1);
}

// out[row][i] = factor sum over the vocabulary of weight[o][i] d_z[row][o].
void Emitter::emit_loss_product(const LossBlock& block, WeightId id, ValueId out, float factor) {
  const std::vector<WeightTile>& tiles = layout_.matrix(id).tiles;
  const uint32_t inputs = columns(out);
  const TiledProduct product{.rows = block.block_rows, .columns = inputs, .right = RightTable::across};
  const ProductTile side = product_tile(adapter_, product);
  const bool in_matrices = block.in_matrices && id == block.op.weight;
  uint32_t parts = in_matrices ? emit_matrix_loss_products(block) : 0;
  for (uint32_t tile = 0; tile < tiles.size() && !in_matrices; ++tile) {
    const auto own = static_cast<uint32_t>(divide_up(tiles[tile].rows, kPart));
    Kernel kernel = of_block("loss_products", block,
                             own * divide_up(block.block_rows, side.rows()) * divide_up(inputs, side.columns()));
    kernel.constants.insert(kernel.constants.end(), {{"COLUMNS", inputs}, {"PART", kPart}});
    kernel.params.insert(kernel.params.end(), {{"parts", block.parts},
                                               {"first_part", parts},
                                               {"first", static_cast<uint32_t>(tiles[tile].first_row)},
                                               {"depth", static_cast<uint32_t>(tiles[tile].rows)}});
    kernel.bindings.push_back(weight("w", id, tile));
    kernel.snippets = {decoder(id, "w"), kBlock};
    use_tiled_product(kernel, adapter_, product);
    kernel.snippets.emplace_back(kPartSums);
    add(kernel);
    parts += own;
  }
  Kernel kernel = of_block("loss_parts", block, 1);
  kernel.body = kAddParts;
  kernel.constants.insert(kernel.constants.end(), {{"COLUMNS", inputs}, {"PARTS", parts}});
  kernel.params.insert(kernel.params.end(), {{"parts", block.parts}, {"out", at(out)}, {"factor", factor}});
  kernel.grid.items = inputs;
  kernel.grid.per = kThreads;
  add(kernel);
}

void Emitter::emit_gradient_of_b(const LossBlock& block) {
  const CrossEntropy& op = block.op;
  const TiledProduct product{
      .rows = block.outputs, .columns = block.rank, .right = RightTable::elements, .left_along_k = false};
  const ProductTile side = product_tile(adapter_, product);
  Kernel kernel = of_block("loss_gradient_of_b", block,
                           divide_up(block.outputs, side.rows()) * divide_up(block.rank, side.columns()));
  kernel.constants.push_back({"COLUMNS", block.rank});
  kernel.params.insert(kernel.params.end(), {{"inner", at(op.inner)}, {"out", at(op.d_b)}, {"factor", op.factor}});
  kernel.snippets = {kBlock};
  use_tiled_product(kernel, adapter_, product);
  kernel.snippets.emplace_back(kGradientOfB);
  add(kernel);
}

void Emitter::emit(const CrossEntropy& op) {
  const WeightShape& shape = program_.weights[op.weight].shape;
  const uint64_t most = most_rows(type(op.x).extent);
  const bool in_matrices =
      has_matrix_tiles(op.weight) && std::ranges::all_of(layout_.matrix(op.weight).tiles, [](const WeightTile& tile) {
        return tile.first_row % kMatrixColumns == 0;
      });
  LossBlock block{.op = op,
                  .block_rows = static_cast<uint32_t>(std::clamp<uint64_t>(most, 1, in_matrices ? kMatrixRows : kRows)),
                  .outputs = shape.rows,
                  .inputs = shape.columns,
                  .rank = op.inner == kNone ? 0 : columns(op.inner),
                  .in_matrices = in_matrices};
  const uint64_t at_once =
      std::max<uint64_t>(most_weight_rows(op.weight) / kPart * kPart, std::min<uint64_t>(kPart, block.outputs));
  const auto parts_words = [&](WeightId id, uint32_t columns) {
    uint64_t parts = 0;
    for (const WeightTile& tile : layout_.matrix(id).tiles) parts += divide_up(tile.rows, kPart);
    if (in_matrices && id == op.weight) parts = divide_up(at_once, kMatrixPart);
    return parts * block.block_rows * columns;
  };
  block.logits = scratch(uint64_t{block.block_rows} * block.outputs);
  block.row_parts = scratch(uint64_t{block.block_rows} * divide_up(block.outputs, kRowPart) * 2);
  block.row_sums = scratch(uint64_t{block.block_rows} * 2);
  if (op.has_gradients())
    block.parts =
        scratch(std::max(parts_words(op.weight, block.inputs), op.inner == kNone ? 0 : parts_words(op.b, block.rank)));
  if (in_matrices) {
    block.words_at_once = static_cast<uint32_t>(at_once);  // whole parts
    block.word_halves = scratch(std::max(uint64_t{block.words_at_once} * half_words(block.inputs),
                                         uint64_t{block.inputs} * half_words(block.words_at_once)));
    block.x_halves = emit_halves(op.x);
    if (op.has_gradients()) block.logit_halves = scratch_for_halves(block.block_rows, half_words(block.outputs));
  }
  if (op.d_b != kNone) add(elementwise("zeros", "fn element(i: u32) -> f32 { return 0.0; }", op.d_b));
  for (; block.first_row < most; block.first_row += block.block_rows) {
    emit_logits(block);
    emit_row_losses(block);
    if (!op.has_gradients()) continue;
    emit_loss_product(block, op.weight, op.d_x, 1.0f);
    if (op.inner == kNone) continue;
    emit_loss_product(block, op.b, op.d_inner, op.factor);
    emit_gradient_of_b(block);
  }
}

}  // namespace sluice::webgpu
