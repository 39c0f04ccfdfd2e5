// linear, and runs of it.
//
//   decode steps, wanted rows   matrix times vector (products.h), for one matrix, for several, or for gate and up. A
//                               workgroup takes one row. The next workgroup takes the next row of the same outputs,
//                               for which the weight is cached.
//   prompts                     tiles of rows by outputs (ops_linear_tiles.cpp, ops_integer_tiles.cpp), also by
//                               matrix units (ops_matrix_tiles.cpp); of few outputs in parts of the columns
//                               (backward_products.cpp)
//
// In both, the order along the columns does not depend on the number of rows.
#include <array>

#include "base/text.h"
#include "device/webgpu/emitter.h"
#include "device/webgpu/formats/weight_format.h"
#include "device/webgpu/kernels/products.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

// ${i}: which of the kernel's products. Rows past the last output are read again, and not kept.
constexpr const char* kProduct = R"(
fn product_${i}(block: u32, r: u32, thread: u32) {
  let output = first_output(block, thread);
  let stored = first_stored(block, thread);
  let last = p.outputs_${i} - 1u;
${before}${make_row}${products}

  if (stores(thread) && stored <= last) {
    store_some(p.out_${i} + r * OUTPUTS_${i} + p.first_output_${i} + stored, ${sums}, last + 1u - stored);
  }
}
)";

// The gate's product, and the second product if there is one.
constexpr const char* kGated = R"(
fn product_0(block: u32, r: u32, thread: u32) {
  let output = first_output(block, thread);
  let stored = first_stored(block, thread);
  const last = OUTPUTS - 1u;
${before}${make_row}${products}

  if (stores(thread) && stored <= last) {
    let gate = ${gate};
    let up = ${up};
    var x: vec4f;
    for (var i = 0u; i < 4u; i++) { x[i] = activate(gate[i]) * up[i]; }
    store_some(p.out + r * OUTPUTS + stored, x, last + 1u - stored);
  }
}
)";

constexpr const char* kMakeRow = R"(
    make_row(r, thread, ${is_first}, block);
)";

constexpr const char* kVectorMain = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let r = i % rows();
  let block = i / rows();
  if (block >= BLOCKS) { return; }
)";

// The text that makes the row first; empty: the row is in memory.
std::string row_text(bool of_row, const char* is_first) {
  return of_row ? fill(kMakeRow, {{"is_first", is_first}}) : "";
}

}  // namespace

bool Emitter::may_make_rows(const FusedRun& run, const ProductShape& shape, bool fours) const {
  if (run.rows_end == run.first_op) return true;
  const uint64_t bytes = shape.staged_bytes() + uint64_t{4} * columns(std::get<Linear>(program_.ops[run.rows_end]).x);
  return fours && are_rows_of_fours(run.first_op, run.rows_end) &&
         bytes + kOtherWorkgroupBytes <= adapter_.workgroup_bytes;
}

// Emits several products of the same rows, or one product of a tile of a matrix. They belong to a whole fused run or to
// one of its ops.
Emitter::Emitted Emitter::emit_products(std::span<const Product> products, const FusedRun& run, bool may_add_adapters) {
  const Linear& first = *products.front().op;
  const uint32_t columns = program_.weights[first.weight].shape.columns;
  ProductSize size{.columns = columns, .integers = true};
  Kernel kernel{.name = "linear", .extent = type(first.x).extent};
  kernel.constants = {{"COLUMNS", columns}};
  kernel.params = {{"x", at(first.x)}};
  kernel.bindings = {memory()};
  bool fours = columns % 4 == 0 && at(first.x) % 4 == 0;
  for (const Product& product : products) {
    const Linear& op = *product.op;
    const WeightTile& tile = layout_.matrix(op.weight).tiles[product.tile];
    size.unit_parts = std::max(size.unit_parts, units_of(op.weight).parts);
    // Separate gate and up products keep the shape, and so the order of sums, of their common kernel.
    if (!run.gated || product.op == &first) size.outputs += program_.weights[op.weight].shape.rows;
    size.integers = size.integers && has_integers(op.weight);
    const uint64_t rows = program_.weights[op.weight].shape.rows;
    fours =
        fours && at(op.out) % 4 == 0 && (rows == 1 || (rows % 4 == 0 && tile.first_row % 4 == 0 && tile.rows % 4 == 0));
  }
  if (fours) kernel.bindings.front().element = kFours;
  size.integers = size.integers && fours;
  const ProductShape shape = product_shape(adapter_, size);
  if (!may_make_rows(run, shape, fours)) return Emitted::nothing;
  const bool of_row = run.rows_end > run.first_op;
  kernel.threads = shape.threads();
  use_products(kernel, adapter_, shape, of_row);
  std::vector<const Linear*> linears;
  linears.reserve(products.size());
  for (const Product& product : products) linears.push_back(product.op);
  AddedSets sets;
  for (const Linear*& linear : linears) sets.emplace_back(&linear, 1);
  const bool has_adapters = are_adapted(products);
  const bool defers = has_adapters && run.end_op == run.first_op && may_defer_adapter(first) &&
                      adds_adapters(sets, kernel, shape, of_row, true);
  const bool adds = has_adapters && !defers && may_add_adapters && adds_adapters(sets, kernel, shape, of_row);
  if (of_row) {
    kernel.snippets.emplace_back(kMath);
    // Dispatches of adapters read the row from memory.
    use_rows(kernel, run.first_op, run.rows_end, row_made(program_, run.first_op, run.rows_end, first.x),
             has_adapters && !adds ? run.rows_end : run.end_op);
  }
  AddedAdapters added;
  if (adds) {
    added = added_adapters(sets, kernel, shape, of_row);
    emit_inner_before(kernel, added);
    use_added(kernel, added);
  }
  std::string calls = kVectorMain;
  uint64_t end = 0;
  if (defers) {
    end = use_inner_groups(kernel, defer_adapter(sets, shape));
    calls += cat("  if (block < ", end, "u) { inner_group(block, r, thread); }");
  }
  for (uint32_t i = 0; i < products.size(); ++i) {
    const Linear& op = *products[i].op;
    const WeightTile& tile = layout_.matrix(op.weight).tiles[products[i].tile];
    const std::string w = cat("w", i);
    kernel.constants.push_back({cat("OUTPUTS_", i), program_.weights[op.weight].shape.rows});
    kernel.params.insert(kernel.params.end(), {{cat("out_", i), at(op.out)},
                                               {cat("first_output_", i), static_cast<uint32_t>(tile.first_row)},
                                               {cat("outputs_", i), static_cast<uint32_t>(tile.rows)}});
    kernel.bindings.push_back(weight(w, op.weight, products[i].tile));
    kernel.snippets.push_back(product_decoder(op.weight, w));
    AdaptedText text{.sums = {"four_sums(thread, 0u, 0u)"}};
    if (adds) text = adapted_text(added, i, i, cat("p.first_output_", i));
    kernel.body +=
        fill(kProduct, {{"i", cat(i)},
                        {"before", text.before},
                        {"sums", text.sums.front()},
                        {"make_row", row_text(of_row, i == 0 ? "block == 0u" : "false")},
                        {"products", added_products(shape, {{w, units_of(op.weight), "min(${output}, last)"}},
                                                    of_row ? "0u" : "p.x + r * COLUMNS", "COLUMNS", text.between)}});
    const uint64_t begin = end;
    end += shape.blocks(tile.rows);
    calls += cat(begin == 0 ? "  if" : " else if", " (block < ", end, "u) { product_", i, "(block - ", begin,
                 "u, r, thread); }");
  }
  kernel.constants.push_back({"BLOCKS", static_cast<uint32_t>(end)});
  kernel.body += calls + "\n}\n";
  kernel.grid = {.times = end};
  add(kernel);
  if (defers) emit_deferred();
  return adds || defers ? Emitted::adapted : Emitted::products;
}

// Few outputs of long rows: a tile takes long, and most of the GPU would have no tile.
bool Emitter::is_narrow(WeightId weight) const {
  const WeightShape& shape = program_.weights[weight].shape;
  return shape.columns >= 512 && shape.rows <= 32;
}

// Other narrow weights meet each row by itself.
bool Emitter::is_narrowest(WeightId weight) const {
  return is_narrow(weight) && program_.weights[weight].shape.rows <= kMostNarrow &&
         layout_.matrix(weight).tiles.size() == 1;
}

void Emitter::emit(const Linear& op) { emit_product(op, {.out = op.out}); }

void Emitter::emit_product(const Linear& op, const Finishing& finish) {
  if (!has_few_rows(type(op.x).extent) && is_narrowest(op.weight)) {
    emit_narrow({.weight = op.weight, .x = op.x}, finish);
    if (op.adapter) emit_adapters(std::array{&op});
    return;
  }
  if (is_by_matrices(op)) return emit_matrix_tiles(op, finish);
  const bool has_few = has_few_rows(type(op.x).extent) || is_narrow(op.weight);
  const bool in_integers = !has_few && has_integers(op.weight);
  const uint32_t integers = in_integers ? scratch_for_integers(op.x) : 0;
  if (in_integers) emit_integers(op.x, integers);
  bool adapted = false;
  for (uint32_t tile = 0; tile < layout_.matrix(op.weight).tiles.size(); ++tile) {
    const Product product{.op = &op, .tile = tile};
    if (has_few)
      adapted = emit_products({&product, 1}, {}) == Emitted::adapted;
    else if (in_integers)
      emit_integer_tiles(op, tile, integers);
    else
      emit_tiles(op, tile, finish);
  }
  if (op.adapter && !adapted) emit_adapters(std::array{&op});
}

bool Emitter::may_finish(const Linear& op) const {
  const bool is_whole = layout_.matrix(op.weight).tiles.size() == 1;
  if (has_few_rows(type(op.x).extent) || op.adapter || !is_whole) return false;
  if (is_narrow(op.weight)) return is_narrowest(op.weight);
  if (has_matrix_tiles(op.weight)) return most_weight_rows(op.weight) == program_.weights[op.weight].shape.rows;
  return !has_integers(op.weight);
}

bool Emitter::emit_finished(const FusedRun& run) {
  return std::visit(
      [&](const auto& op) {
        if constexpr (requires { may_finish(op); }) {
          if (!may_finish(op)) return false;
          emit_product(op, *run.finish);
          return true;
        } else {
          return false;
        }
      },
      program_.ops[run.first_op]);
}

void Emitter::use_finish(Kernel& kernel, const Finishing& finish, const char* type) const {
  std::string result = "x";
  if (finish.factor != 1.0f) {
    kernel.params.push_back({"factor", finish.factor});
    result = "x * p.factor";
  }
  if (finish.plus != kNone) {
    kernel.params.push_back({"plus", at(finish.plus)});
    result += std::string_view(type) == "f32" ? " + load(p.plus + i)" : " + load4(p.plus + i)";
  }
  kernel.snippets.push_back(cat("fn finished(x: ", type, ", i: u32) -> ", type, " { return ", result, "; }\n"));
}

bool Emitter::are_adapted(std::span<const Product> products) {
  return std::ranges::any_of(products, [](const Product& product) { return bool{product.op->adapter}; });
}

bool Emitter::emit_linears(const FusedRun& run) {
  if (!has_few_rows(type(std::get<Linear>(program_.ops[run.rows_end]).x).extent)) return false;
  std::vector<Product> products;
  for (uint32_t i = run.rows_end; i < run.end_op; ++i) {
    products.push_back({.op = &std::get<Linear>(program_.ops[i])});
    if (layout_.matrix(products.back().op->weight).tiles.size() > 1) return false;
  }
  const Emitted emitted = emit_products(products, run);
  if (emitted == Emitted::nothing) return false;
  std::vector<const Linear*> linears;
  linears.reserve(products.size());
  for (const Product& product : products) linears.push_back(product.op);
  if (emitted == Emitted::products && are_adapted(products)) emit_adapters(linears);
  return true;
}

bool Emitter::emit_gated(const FusedRun& run) {
  const GatedRun& gated = *run.gated;
  const auto is_whole = [&](const Linear* op) { return op == nullptr || layout_.matrix(op->weight).tiles.size() == 1; };
  return has_few_rows(type(gated.gate->x).extent) && is_whole(gated.gate) && is_whole(gated.up) &&
         emit_gated(run, gated);
}

void Emitter::use_up_value(Kernel& kernel, const GatedRun& run) const {
  if (run.slice == nullptr) {
    kernel.params.push_back({"up", at(run.activation->up)});
    kernel.snippets.emplace_back("fn up_value(row: u32, i: u32) -> f32 { return load(p.up + row * OUTPUTS + i); }\n");
    return;
  }
  kernel.constants.insert(kernel.constants.end(),
                          {{"WIDTH", type(run.slice->x).width}, {"X_COLUMNS", columns(run.slice->x)}});
  kernel.params.insert(
      kernel.params.end(),
      {{"up", at(run.slice->x)}, {"first_head", run.slice->first_head}, {"stride", run.slice->stride}});
  kernel.snippets.emplace_back(R"(
fn up_value(row: u32, i: u32) -> f32 {
  return load(p.up + row * X_COLUMNS + (p.first_head + i / WIDTH * p.stride) * WIDTH + i % WIDTH);
}
)");
}

// Adapters are added before the activation: here to products that are stored.
bool Emitter::emit_adapted_gated(const FusedRun& all, const GatedRun& run, std::span<const Linear* const> linears) {
  std::vector<Product> products;
  products.reserve(linears.size());
  for (const Linear* op : linears) products.push_back({.op = op});
  if (emit_products(products, all, false) == Emitted::nothing) return false;
  emit_adapters(linears, &run);
  return true;
}

bool Emitter::emit_gated(const FusedRun& all, const GatedRun& run) {
  const WeightShape& matrix = program_.weights[run.gate->weight].shape;
  const UnitShape gate_units = units_of(run.gate->weight);
  std::vector<RowsOf> rows = {{"w0", gate_units, "min(${output}, last)"}};
  if (run.up != nullptr) rows.push_back({"up", units_of(run.up->weight), "min(${output}, last)"});
  const bool fours =
      matrix.columns % 4 == 0 && matrix.rows % 4 == 0 && at(run.gate->x) % 4 == 0 && at(run.activation->out) % 4 == 0;
  const ProductShape shape = product_shape(adapter_, {.columns = matrix.columns,
                                                      .outputs = matrix.rows,
                                                      .unit_parts = std::max(gate_units.parts, rows.back().units.parts),
                                                      .weights = static_cast<uint32_t>(rows.size()),
                                                      .integers = fours && has_integers(run.gate->weight) &&
                                                                  (run.up == nullptr || has_integers(run.up->weight))});
  if (!may_make_rows(all, shape, fours)) return false;
  const bool of_row = all.rows_end > all.first_op;
  Kernel kernel{.name = "gated_linear", .extent = type(run.gate->x).extent, .threads = shape.threads()};
  kernel.constants = {{"COLUMNS", matrix.columns},
                      {"OUTPUTS", matrix.rows},
                      {"BLOCKS", static_cast<uint32_t>(shape.blocks(matrix.rows))}};
  kernel.params = {{"x", at(run.gate->x)}, {"out", at(run.activation->out)}};
  kernel.bindings = {memory(), weight("w0", run.gate->weight, 0)};
  if (fours) kernel.bindings.front().element = kFours;
  std::vector<const Linear*> linears = {run.gate};
  if (run.up != nullptr) linears.push_back(run.up);
  const AddedSets sets = {linears};
  const bool adds = std::ranges::any_of(linears, [](const Linear* op) { return bool{op->adapter}; });
  if (adds && !adds_adapters(sets, kernel, shape, of_row)) return emit_adapted_gated(all, run, linears);
  use_products(kernel, adapter_, shape, of_row);
  kernel.snippets.emplace_back(kMath);
  if (of_row)
    use_rows(kernel, all.first_op, all.rows_end, row_made(program_, all.first_op, all.rows_end, run.gate->x),
             all.end_op);
  AddedAdapters added;
  if (adds) {
    added = added_adapters(sets, kernel, shape, of_row);
    emit_inner_before(kernel, added);
    use_added(kernel, added);
  }
  kernel.snippets.insert(kernel.snippets.end(),
                         {activation_text(run.activation->kind), product_decoder(run.gate->weight, "w0")});
  if (run.up != nullptr) {
    kernel.bindings.push_back(weight("up", run.up->weight, 0));
    kernel.snippets.push_back(product_decoder(run.up->weight, "up"));
  } else {
    kernel.snippets.emplace_back(R"(
fn up_values(row: u32, i: u32) -> vec4f {
  var x: vec4f;
  for (var j = 0u; j < 4u; j++) { x[j] = up_value(row, min(i + j, OUTPUTS - 1u)); }
  return x;
}
)");
    use_up_value(kernel, run);
  }
  AdaptedText text{.sums = {"four_sums(thread, 0u, 0u)", "four_sums(thread, 0u, 1u)"}};
  if (adds) text = adapted_text(added, 0, 0, "0u");
  kernel.body =
      fill(kGated,
           {{"before", text.before},
            {"gate", text.sums.front()},
            {"up", run.up != nullptr ? text.sums.back() : "up_values(r, stored)"},
            {"make_row", row_text(of_row, "block == 0u")},
            {"products", added_products(shape, rows, of_row ? "0u" : "p.x + r * COLUMNS", "COLUMNS", text.between)}});
  kernel.body += cat(kVectorMain, "  product_0(block, r, thread);\n}\n");
  kernel.grid = {.times = shape.blocks(matrix.rows)};
  add(kernel);
  return true;
}

}  // namespace sluice::webgpu
