// linear_transposed, outer_sum, expert_linear, expert_linear_transposed and expert_outer_sum: products by tiles in f32
// (tiled_products.h), except those transposed that fast arithmetic computes with integers (ops_integer_tiles.cpp) or
// matrix units (ops_matrix_tiles.cpp), and narrow ones (narrow_products.cpp).
//
// Products with experts take the rows that have chosen an expert together. One workgroup lists the choices expert by
// expert, in ascending order, so that sums over them have one order. If each row meets all experts, no list is needed.
#include <algorithm>

#include "base/text.h"
#include "device/webgpu/kernels/experts.h"
#include "device/webgpu/kernels/tiled_products.h"

namespace sluice::webgpu {
namespace {

// All tiles of rows() by COLUMNS results.
constexpr const char* kJobOfRows = R"(
fn job_of(group: u32) -> Job {
  let blocks = (COLUMNS + TILE_COLUMNS - 1u) / TILE_COLUMNS;
  return Job(group / blocks * TILE_ROWS, rows(), group % blocks * TILE_COLUMNS, COLUMNS, 0u, p.depth, 0u);
}
)";
// All tiles of rows() by COLUMNS results, sums over the rows of another value.
constexpr const char* kJobOverRows = R"(
fn job_of(group: u32) -> Job {
  let blocks = (COLUMNS + TILE_COLUMNS - 1u) / TILE_COLUMNS;
  return Job(group / blocks * TILE_ROWS, rows(), group % blocks * TILE_COLUMNS, COLUMNS, 0u, summed_rows(), 0u);
}
)";

// One workgroup writes the lists: at the word `lists` the number of tiles of at most TILE_ROWS choices, two words for
// each tile (expert, first index in the order), the index of each expert's first choice and the end, and then the
// order. A thread has neighbouring choices, and `counts` those of its choices that are each expert's: first how many,
// then how many of the threads before have.
constexpr const char* kList = R"(
const AT_ONCE = 8u;
var<workgroup> chosen_by: array<u32, EXPERTS>;
var<workgroup> first_of: array<u32, EXPERTS>;

fn all_written() {
  storageBarrier();
  workgroupBarrier();
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  if (group_index(group, groups) > 0u) { return; }
  let choices = choosing_rows() * CHOSEN;
  let each = (choices + THREADS - 1u) / THREADS;
  let begin = min(thread * each, choices);
  let end = min(begin + each, choices);
  let own = p.counts + thread * EXPERTS;
  for (var i = thread; i < THREADS * EXPERTS; i += THREADS) { memory[p.counts + i] = 0u; }
  all_written();
  for (var c = begin; c < end; c++) { memory[own + word(p.index + c)] += 1u; }
  all_written();
  for (var e = thread; e < EXPERTS; e += THREADS) {
    var count = 0u;
    for (var t = 0u; t < THREADS; t += AT_ONCE) {
      var some: array<u32, AT_ONCE>;
      for (var i = 0u; i < AT_ONCE; i++) { some[i] = memory[p.counts + (t + i) * EXPERTS + e]; }
      for (var i = 0u; i < AT_ONCE; i++) {
        memory[p.counts + (t + i) * EXPERTS + e] = count;
        count += some[i];
      }
    }
    chosen_by[e] = count;
  }
  all_written();
  for (var e = thread; e < EXPERTS; e += THREADS) {
    var first = 0u;
    var tile = 0u;
    for (var before = 0u; before < e; before++) {
      first += chosen_by[before];
      tile += (chosen_by[before] + LIST_ROWS - 1u) / LIST_ROWS;
    }
    memory[p.firsts + e] = first;
    for (var i = 0u; i < chosen_by[e]; i += LIST_ROWS) {
      memory[p.lists + 1u + tile * 2u] = e;
      memory[p.lists + 2u + tile * 2u] = first + i;
      tile++;
    }
    if (e == EXPERTS - 1u) {
      memory[p.lists] = tile;
      memory[p.firsts + EXPERTS] = first + chosen_by[e];
    }
    first_of[e] = first;
  }
  all_written();
  for (var c = begin; c < end; c++) {
    let expert = word(p.index + c);
    let before = memory[own + expert];
    memory[p.order + first_of[expert] + before] = c;
    memory[own + expert] = before + 1u;
  }
}
)";

// choice_of(expert, i): the i-th of all choices in the order of experts, or the i-th row's choice of that expert.
constexpr const char* kListedChoices = R"(
fn choice_of(expert: u32, i: u32) -> u32 { return word(p.order + i); }
fn first_choice(expert: u32) -> u32 { return word(p.firsts + expert); }
fn end_choice(expert: u32) -> u32 { return word(p.firsts + expert + 1u); }
)";
constexpr const char* kAllChoices = R"(
fn choice_of(expert: u32, i: u32) -> u32 { return i * EXPERTS + expert; }
fn first_choice(expert: u32) -> u32 { return 0u; }
fn end_choice(expert: u32) -> u32 { return choosing_rows(); }
)";

// Tiles of an expert's choices by COLUMNS results.
constexpr const char* kJobOfList = R"(
fn job_of(group: u32) -> Job {
  let blocks = (COLUMNS + TILE_COLUMNS - 1u) / TILE_COLUMNS;
  let tile = group / blocks;
  if (tile >= word(p.lists)) { return no_job(); }
  let expert = word(p.lists + 1u + tile * 2u);
  if (expert < p.first || expert >= p.end) { return no_job(); }
  let first = word(p.lists + 2u + tile * 2u);
  return Job(first, min(first + TILE_ROWS, end_choice(expert)), group % blocks * TILE_COLUMNS, COLUMNS, 0u, p.depth,
             expert);
}
)";
constexpr const char* kJobOfAll = R"(
fn job_of(group: u32) -> Job {
  let blocks = (COLUMNS + TILE_COLUMNS - 1u) / TILE_COLUMNS;
  let tiles = (rows() + TILE_ROWS - 1u) / TILE_ROWS;
  let expert = p.first + group / blocks / tiles;
  if (expert >= p.end) { return no_job(); }
  return Job(group / blocks % tiles * TILE_ROWS, rows(), group % blocks * TILE_COLUMNS, COLUMNS, 0u, p.depth, expert);
}
)";
// Tiles of each expert's gradient.
constexpr const char* kJobOfExperts = R"(
fn job_of(group: u32) -> Job {
  let blocks = (COLUMNS + TILE_COLUMNS - 1u) / TILE_COLUMNS;
  let tiles = (ROWS + TILE_ROWS - 1u) / TILE_ROWS;
  let expert = group / blocks / tiles;
  if (expert >= EXPERTS) { return no_job(); }
  return Job(group / blocks % tiles * TILE_ROWS, ROWS, group % blocks * TILE_COLUMNS, COLUMNS, first_choice(expert),
             end_choice(expert), expert);
}
)";

}  // namespace

void Emitter::emit(const LinearTransposed& op) { emit_product(op, {.out = op.out}); }

// The results of several tiles are added up in place.
bool Emitter::may_finish(const LinearTransposed& op) const {
  return layout_.matrix(op.weight).tiles.size() == 1 &&
         (has_transposed_matrix_tiles(op.weight) || !has_integer_columns(op.weight));
}

void Emitter::emit_product(const LinearTransposed& op, const Finishing& finish) {
  if (has_transposed_matrix_tiles(op.weight)) return emit_matrix_transposed(op, finish);
  if (has_integer_columns(op.weight)) return emit_integer_transposed(op);
  if (columns(op.out) <= kMostNarrow && layout_.matrix(op.weight).tiles.size() == 1)
    return emit_narrow({.weight = op.weight, .x = op.x, .transposed = true}, finish);
  emit_transposed_tiles(op, finish);
}

void Emitter::emit_transposed_tiles(const LinearTransposed& op, const Finishing& finish) {
  const MatrixLayout& matrix = layout_.matrix(op.weight);
  const uint32_t inputs = program_.weights[op.weight].shape.columns;
  const TiledProduct product{.rows = most_rows(type(op.x).extent), .columns = inputs, .right = RightTable::across};
  const ProductTile side = product_tile(adapter_, product);
  for (uint32_t tile = 0; tile < matrix.tiles.size(); ++tile) {
    Kernel kernel{.name = "linear_transposed", .extent = type(op.x).extent};
    kernel.constants = {{"COLUMNS", inputs}, {"X_COLUMNS", columns(op.x)}, {"IS_FIRST", tile == 0 ? 1u : 0u}};
    kernel.params = {{"x", at(op.x)},
                     {"out", at(finish.out)},
                     {"first", static_cast<uint32_t>(matrix.tiles[tile].first_row)},
                     {"depth", static_cast<uint32_t>(matrix.tiles[tile].rows)}};
    kernel.bindings = {memory(), weight("w", op.weight, tile)};
    kernel.snippets = {decoder(op.weight, "w")};
    use_tiled_product(kernel, adapter_, product);
    kernel.snippets.emplace_back(kJobOfRows);
    use_finish(kernel, finish, "f32");
    kernel.snippets.emplace_back(R"(
fn left_at(job: Job, m: u32, k: u32) -> f32 { return load(p.x + m * X_COLUMNS + p.first + k); }
fn weight_row(job: Job, k: u32) -> u32 { return k; }
fn finish(job: Job, m: u32, n: u32, sum: f32) {
  let at = m * COLUMNS + n;
  let to = p.out + at;
  if (IS_FIRST == 1u) { store(to, finished(sum, at)); } else { store(to, load(to) + sum); }
}
)");
    kernel.grid = {.per = side.rows(), .times = divide_up(inputs, side.columns())};
    add(kernel);
  }
}

// The words of one part of all sums of a value.
uint32_t Emitter::part_words(ValueId out) const {
  return static_cast<uint32_t>(most_rows(type(out).extent) * columns(out));
}

void Emitter::emit_sum_of_parts(const char* name, const Finishing& finish, uint32_t parts, uint32_t sums) {
  const bool adds = finish.plus != kNone, scales = finish.factor != 1.0f;
  const std::string text = cat(R"(
fn part(i: u32) -> Part {
  var sum = Part();
  for (var k = 0u; k < PARTS; k++) { sum += load_part(p.parts + k * p.part_words + i); }
  return sum)",
                               scales ? " * p.factor" : "", adds ? " + load_part(p.plus + i)" : "", ";\n}\n");
  Kernel kernel = adds ? elementwise_by_parts(name, text.c_str(), finish.out, {{"plus", finish.plus}})
                       : elementwise_by_parts(name, text.c_str(), finish.out, {});
  kernel.constants.push_back({"PARTS", parts});
  kernel.params.insert(kernel.params.end(), {{"parts", sums}, {"part_words", part_words(finish.out)}});
  if (scales) kernel.params.push_back({"factor", finish.factor});
  add(kernel);
}

void Emitter::emit(const OuterSum& op) {
  const uint32_t rows = columns(op.left), inputs = columns(op.right);
  const TiledProduct product{.rows = rows, .columns = inputs, .right = RightTable::elements, .left_along_k = false};
  const ProductTile side = product_tile(adapter_, product);
  Kernel kernel{.name = "outer_sum", .extent = type(op.out).extent};
  kernel.constants = {{"ROWS", rows}, {"COLUMNS", inputs}};
  kernel.params = {{"left", at(op.left)}, {"right", at(op.right)}, {"out", at(op.out)}, {"factor", op.factor}};
  kernel.bindings = {memory()};
  use_tiled_product(kernel, adapter_, product);
  kernel.snippets.push_back(rows_function("summed_rows", type(op.left).extent));
  kernel.snippets.emplace_back(kJobOverRows);
  kernel.snippets.emplace_back(R"(
fn left_at(job: Job, m: u32, k: u32) -> f32 { return load(p.left + k * ROWS + m); }
fn right_at(job: Job, k: u32, n: u32) -> f32 { return load(p.right + k * COLUMNS + n); }
fn finish(job: Job, m: u32, n: u32, sum: f32) { store(p.out + m * COLUMNS + n, sum * p.factor); }
)");
  kernel.grid = {.per = side.rows(), .times = divide_up(inputs, side.columns())};
  add(kernel);
}

// Emits the lists, if choices have an index. Their tiles have `rows` choices.
Emitter::ChoiceLists Emitter::emit_choice_lists(ValueId index, uint32_t experts, uint32_t rows) {
  if (index == kNone) return {.experts = experts};
  constexpr uint32_t kListThreads = 256;  // a multiple of AT_ONCE
  const uint32_t chosen = columns(index);
  const uint64_t choices = most_rows(type(index).extent) * chosen;
  ChoiceLists lists{.index = index, .experts = experts, .chosen = chosen};
  const uint64_t most_tiles = std::min(choices / rows + experts, choices);
  lists.lists = scratch(1 + 2 * most_tiles);
  lists.firsts = scratch(experts + 1);
  lists.order = scratch(choices);
  // Also in a step without rows: sums over an expert's rows are then zeros.
  Kernel kernel{.name = "choice_lists", .body = kList, .extent = {Symbol::one, 1}, .threads = kListThreads};
  kernel.constants = {{"EXPERTS", experts}, {"CHOSEN", chosen}, {"LIST_ROWS", rows}};
  kernel.params = {{"index", at(index)},
                   {"lists", lists.lists},
                   {"firsts", lists.firsts},
                   {"order", lists.order},
                   {"counts", scratch(uint64_t{kListThreads} * experts)}};
  kernel.bindings = {memory()};
  kernel.snippets = {rows_function("choosing_rows", type(index).extent)};
  add(kernel);
  return lists;
}

void Emitter::use_choices(Kernel& kernel, const ChoiceLists& lists) {
  kernel.constants.insert(kernel.constants.end(), {{"EXPERTS", lists.experts}, {"CHOSEN", lists.of_row()}});
  if (lists.index == kNone) {
    kernel.snippets.emplace_back(kAllChoices);
    return;
  }
  kernel.params.insert(kernel.params.end(), {{"lists", lists.lists}, {"firsts", lists.firsts}, {"order", lists.order}});
  kernel.snippets.emplace_back(kListedChoices);
}

// The products of every choice with its expert's matrix, or with the transposed one.
void Emitter::emit_expert_product(const ExpertProduct& of) {
  const MatrixLayout& matrix = layout_.matrix(of.weight);
  const WeightShape& shape = program_.weights[of.weight].shape;
  const uint32_t inputs = of.transposed ? shape.rows : shape.columns;
  const uint32_t outputs = of.transposed ? shape.columns : shape.rows;
  const Extent extent = of.index == kNone
                            ? Extent{type(of.out).extent.symbol, type(of.out).extent.ratio / shape.experts}
                            : type(of.index).extent;
  const TiledProduct product{
      .rows = most_rows(extent), .columns = outputs, .right = of.transposed ? RightTable::across : RightTable::along};
  const ProductTile side = product_tile(adapter_, product);
  const ChoiceLists lists = emit_choice_lists(of.index, shape.experts, side.rows());
  for (uint32_t tile = 0; tile < matrix.tiles.size(); ++tile) {
    const PlaceRange here = experts_of(matrix.tiles[tile], shape.rows);
    Kernel kernel{.name = of.transposed ? "expert_linear_transposed" : "expert_linear", .extent = extent};
    kernel.constants = {{"COLUMNS", outputs}, {"X_COLUMNS", inputs}, {"WEIGHT_ROWS", shape.rows}};
    kernel.params = {{"x", at(of.x)}, {"out", at(of.out)}, {"depth", inputs}, {"first", here.first}, {"end", here.end}};
    kernel.bindings = {memory(), weight("w", of.weight, tile)};
    kernel.snippets = {decoder(of.weight, "w")};
    use_tiled_product(kernel, adapter_, product);
    kernel.snippets.push_back(rows_function("choosing_rows", extent));
    use_choices(kernel, lists);
    kernel.snippets.emplace_back(of.index == kNone ? kJobOfAll : kJobOfList);
    kernel.snippets.emplace_back(of.by_choice ? "fn x_row(choice: u32) -> u32 { return choice; }\n"
                                              : "fn x_row(choice: u32) -> u32 { return choice / CHOSEN; }\n");
    kernel.snippets.emplace_back(R"(
fn left_at(job: Job, m: u32, k: u32) -> f32 { return load(p.x + x_row(choice_of(job.place, m)) * X_COLUMNS + k); }
fn weight_row(job: Job, row: u32) -> u32 { return (job.place - p.first) * WEIGHT_ROWS + row; }
fn finish(job: Job, m: u32, n: u32, sum: f32) { store(p.out + choice_of(job.place, m) * COLUMNS + n, sum); }
)");
    const uint64_t blocks = divide_up(outputs, side.columns());
    if (of.index == kNone)
      kernel.grid = {.per = side.rows(), .times = blocks * (here.end - here.first)};
    else
      kernel.grid = {.items = lists.chosen, .per = side.rows(), .lists = shape.experts, .times = blocks};
    add(kernel);
  }
}

void Emitter::emit(const ExpertLinear& op) {
  emit_expert_product({.weight = op.weight, .x = op.x, .index = op.index, .out = op.out, .by_choice = op.by_choice});
}

void Emitter::emit(const ExpertLinearTransposed& op) {
  emit_expert_product(
      {.weight = op.weight, .x = op.x, .index = op.index, .out = op.out, .by_choice = true, .transposed = true});
}

void Emitter::emit(const ExpertOuterSum& op) {
  const uint32_t rows = columns(op.left), inputs = columns(op.right);
  const TiledProduct product{.rows = rows, .columns = inputs, .right = RightTable::elements, .left_along_k = false};
  const ProductTile side = product_tile(adapter_, product);
  const ChoiceLists lists = emit_choice_lists(op.index, op.experts, side.rows());
  const Extent choices = type(op.left).extent;
  Kernel kernel{.name = "expert_outer_sum", .extent = {Symbol::one, 1}};
  kernel.constants = {{"ROWS", rows}, {"COLUMNS", inputs}};
  kernel.params = {{"left", at(op.left)}, {"right", at(op.right)}, {"out", at(op.out)}, {"factor", op.factor}};
  kernel.bindings = {memory()};
  use_tiled_product(kernel, adapter_, product);
  kernel.snippets.push_back(rows_function("choosing_rows", {choices.symbol, choices.ratio / lists.of_row()}));
  use_choices(kernel, lists);
  kernel.snippets.emplace_back(kJobOfExperts);
  kernel.snippets.emplace_back(op.by_choice ? "fn right_row(choice: u32) -> u32 { return choice; }\n"
                                            : "fn right_row(choice: u32) -> u32 { return choice / CHOSEN; }\n");
  kernel.snippets.emplace_back(R"(
fn left_at(job: Job, m: u32, k: u32) -> f32 { return load(p.left + choice_of(job.place, k) * ROWS + m); }
fn right_at(job: Job, k: u32, n: u32) -> f32 {
  return load(p.right + right_row(choice_of(job.place, k)) * COLUMNS + n);
}
fn finish(job: Job, m: u32, n: u32, sum: f32) {
  store(p.out + (job.place * ROWS + m) * COLUMNS + n, sum * p.factor);
}
)");
  kernel.grid = {.times = op.experts * divide_up(rows, side.rows()) * divide_up(inputs, side.columns())};
  add(kernel);
}

}  // namespace sluice::webgpu
