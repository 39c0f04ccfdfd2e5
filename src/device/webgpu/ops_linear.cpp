// linear, and runs of it. Decode steps, and wanted rows: matrix times vector, for up to four rows at once (products.h),
// of one matrix or several side by side, or a gate's and what it is multiplied with; a single row has a kernel of its
// own, which needs fewer registers. Prompts: tiles of 64 rows by 64 outputs, 32 columns at a time in ascending order.
// Each is one order along the columns, whatever the number of rows. Both are smaller on processors, whose drivers take
// long over unrolled loops; the order is the same.
#include "base/text.h"
#include "device/webgpu/emitter.h"
#include "device/webgpu/products.h"
#include "device/webgpu/weight_format.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kRowsAtOnce = 4;
// Threads a side of a tile, and sums a side of each.
struct TileShape {
  uint32_t side = 16, each = 4;
  uint32_t rows() const { return side * each; }
};
TileShape tile_shape(const Adapter& adapter) {
  return adapter.is_software ? TileShape{.side = 8, .each = 2} : TileShape{};
}

// '$': which of the kernel's products. Rows past the last output are read again, and not kept. A single row's sums have
// a loop of their own without arrays, in the same order.
constexpr const char* kVectorBegin = R"(
fn product_$(block: u32, first_row: u32, row_count: u32, thread: u32) {
  const kParts = (COLUMNS + 15u) / 16u;
  let output = first_output(block, thread);
  let last = p.outputs_$ - 1u;
  let lane = thread % LANES;
  let to = p.out_$ + first_row * OUTPUTS_$ + p.first_output_$ + output + lane;
  if (row_count == 1u) {
    SUMS
    for (var begin = 0u; begin < kParts; begin += STAGED) {
      let count = min(STAGED, kParts - begin);
      workgroupBarrier();
      stage(p.x + first_row * COLUMNS, COLUMNS, begin, count, 0u, thread);
      workgroupBarrier();
      for (var part = thread % LANES; part < count; part += LANES) {
        let x = staged_part(part * 4u);
        ADDS
      }
    }
    let sum = sum_team(ALL, thread);
    if (lane < OUTPUTS_EACH && output + lane <= last) { store(to, sum[lane]); }
    return;
  }
)";
constexpr const char* kSeveralRows = R"(
  let chunk = LANES * (STAGED / LANES / row_count);
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
        let weights = w$_16(min(output + o, last), begin + part);
        for (var r = 0u; r < ROWS; r++) {
          if (r < row_count) { sums[r][o] = add_part(sums[r][o], weights, staged_part((r * chunk + part) * 4u)); }
        }
      }
    }
  }
  for (var r = 0u; r < ROWS; r++) {
    if (r >= row_count) { continue; }
    let sum = sum_lanes(sums[r], thread);
    if (lane < OUTPUTS_EACH && output + lane <= last) { store(to + r * OUTPUTS_$, sum[lane]); }
  }
)";

// The gate's product, and the other's where there is one (HAS_UP).
constexpr const char* kGatedBegin = R"(
fn product_0(block: u32, first_row: u32, row_count: u32, thread: u32) {
  const kParts = (COLUMNS + 15u) / 16u;
  let output = first_output(block, thread);
  const last = OUTPUTS - 1u;
  let lane = thread % LANES;
  let i = output + lane;
  if (row_count == 1u) {
    SUMS
    for (var begin = 0u; begin < kParts; begin += STAGED) {
      let count = min(STAGED, kParts - begin);
      workgroupBarrier();
      stage(p.x + first_row * COLUMNS, COLUMNS, begin, count, 0u, thread);
      workgroupBarrier();
      for (var part = thread % LANES; part < count; part += LANES) {
        let x = staged_part(part * 4u);
        ADDS
      }
    }
    let gate = sum_team(ALL, thread);
    let up = sum_team(ALL_UPS, thread);
    if (lane < OUTPUTS_EACH && i <= last) {
      store(p.out + first_row * OUTPUTS + i, activate(gate[lane]) * up_value(first_row, i, up[lane]));
    }
    return;
  }
)";
constexpr const char* kGatedSeveralRows = R"(
  let chunk = LANES * (STAGED / LANES / row_count);
  var gates: array<Sums, ROWS>;
  var ups: array<Sums, ROWS>;
  for (var begin = 0u; begin < kParts; begin += chunk) {
    let count = min(chunk, kParts - begin);
    workgroupBarrier();
    for (var r = 0u; r < row_count; r++) {
      stage(p.x + (first_row + r) * COLUMNS, COLUMNS, begin, count, r * chunk * 4u, thread);
    }
    workgroupBarrier();
    for (var part = thread % LANES; part < count; part += LANES) {
      for (var o = 0u; o < OUTPUTS_EACH; o++) {
        let gate_weights = w0_16(min(output + o, last), begin + part);
        for (var r = 0u; r < ROWS; r++) {
          if (r < row_count) { gates[r][o] = add_part(gates[r][o], gate_weights, staged_part((r * chunk + part) * 4u)); }
        }
        if (HAS_UP == 1u) {
          let up_weights = up_16(min(output + o, last), begin + part);
          for (var r = 0u; r < ROWS; r++) {
            if (r < row_count) { ups[r][o] = add_part(ups[r][o], up_weights, staged_part((r * chunk + part) * 4u)); }
          }
        }
      }
    }
  }
  for (var r = 0u; r < ROWS; r++) {
    if (r >= row_count) { continue; }
    let gate = sum_lanes(gates[r], thread);
    let up = sum_lanes(ups[r], thread);
    if (lane < OUTPUTS_EACH && i <= last) {
      store(p.out + (first_row + r) * OUTPUTS + i, activate(gate[lane]) * up_value(first_row + r, i, up[lane]));
    }
  }
)";

constexpr const char* kVectorMain = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let block = i % BLOCKS;
  let first_row = i / BLOCKS * ROWS;
  if (first_row >= rows()) { return; }
  let row_count = min(ROWS, rows() - first_row);
)";

// A thread has EACH by EACH sums, SIDE apart. A tile's rows lie in workgroup memory as parts of four columns, whose
// places are mixed so that rows beside each other are in different banks. While a tile is multiplied, each thread
// fetches 16 columns of a row of the next.
constexpr const char* kTiles = R"(
const TILE = SIDE * EACH;
const QUADS = 8u;
const kParts = (COLUMNS + 15u) / 16u;
var<workgroup> tile_w: array<vec4f, TILE * QUADS>;
var<workgroup> tile_x: array<vec4f, TILE * QUADS>;
fn place(row: u32, quad: u32) -> u32 { return row * QUADS + (quad ^ (row % QUADS)); }

fn x_of(row: u32, column: u32) -> f32 {
  if (COLUMNS % 16u != 0u && column >= COLUMNS) { return 0.0; }
  return load(p.x + row * COLUMNS + column);
}
fn x_4(row: u32, column: u32) -> vec4f {
  return vec4f(x_of(row, column), x_of(row, column + 1u), x_of(row, column + 2u), x_of(row, column + 3u));
}
fn x_16(row: u32, part: u32) -> mat4x4f {
  let column = part * 16u;
  return mat4x4f(x_4(row, column), x_4(row, column + 4u), x_4(row, column + 8u), x_4(row, column + 12u));
}
fn keep(is_weight: bool, row: u32, quad: u32, x: vec4f) {
  if (is_weight) { tile_w[place(row, quad)] = x; } else { tile_x[place(row, quad)] = x; }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let blocks = (p.outputs + TILE - 1u) / TILE;
  let i = group_index(group, groups);
  let first_row = i / blocks * TILE;
  let first_output = i % blocks * TILE;
  if (first_row >= rows()) { return; }
  let is_weight = thread < 2u * TILE;
  let own = thread % TILE;
  let own_part = thread / TILE % 2u;
  let x_row = min(first_row + own, rows() - 1u);
  let w_row = min(first_output + own, p.outputs - 1u);
  let r = thread / SIDE;
  let o = thread % SIDE;
  var sums: array<array<f32, EACH>, EACH>;
  var next = mat4x4f();
  for (var part = 0u; part < kParts + 2u; part += 2u) {
    if (part > 0u) {
      workgroupBarrier();
      keep(is_weight, own, own_part * 4u, next[0]);
      keep(is_weight, own, own_part * 4u + 1u, next[1]);
      keep(is_weight, own, own_part * 4u + 2u, next[2]);
      keep(is_weight, own, own_part * 4u + 3u, next[3]);
      workgroupBarrier();
    }
    if (part + own_part >= kParts) {
      next = mat4x4f();
    } else if (is_weight) {
      next = w_16(w_row, part + own_part);
    } else {
      next = x_16(x_row, part + own_part);
    }
    if (part == 0u) { continue; }
    for (var quad = 0u; quad < QUADS; quad++) {
      var weights: array<vec4f, EACH>;
      for (var n = 0u; n < EACH; n++) { weights[n] = tile_w[place(o + SIDE * n, quad)]; }
      for (var j = 0u; j < EACH; j++) {
        let x = tile_x[place(r + SIDE * j, quad)];
        for (var n = 0u; n < EACH; n++) {
          let w = weights[n];
          sums[j][n] = fma(x.w, w.w, fma(x.z, w.z, fma(x.y, w.y, fma(x.x, w.x, sums[j][n]))));
        }
      }
    }
  }
  for (var j = 0u; j < EACH; j++) {
    let row = first_row + r + SIDE * j;
    for (var n = 0u; n < EACH; n++) {
      let output = first_output + o + SIDE * n;
      if (row < rows() && output < p.outputs) { store(p.out + row * OUTPUTS + p.first_output + output, sums[j][n]); }
    }
  }
}
)";

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}
// "vec4f(total(s0), total(s1), 0.0, 0.0)"
std::string totals(const char* sums, uint32_t count) {
  std::string text = "vec4f(";
  for (uint32_t o = 0; o < 4; ++o)
    text += cat(o == 0 ? "" : ", ", o < count ? cat("total(", sums, o, ")") : std::string("0.0"));
  return text + ")";
}
// Of each output of a team: a sum's declaration, and its next part of weights of that name.
std::string sums_text(const char* sums, uint32_t count) {
  std::string text;
  for (uint32_t o = 0; o < count; ++o) text += cat("var ", sums, o, " = vec4f();\n    ");
  return text;
}
std::string adds_text(const char* sums, const char* weights, uint32_t count) {
  std::string text;
  for (uint32_t o = 0; o < count; ++o)
    text += cat(sums, o, " = add_part(", sums, o, ", ", weights, "_16(min(output + ", o,
                "u, last), begin + part), x);\n        ");
  return text;
}
std::string vector_text(uint32_t number, uint32_t outputs_each, bool several_rows) {
  std::string text = cat(kVectorBegin, several_rows ? kSeveralRows : "", "}\n");
  replace_all(text, "SUMS", sums_text("s", outputs_each));
  replace_all(text, "ADDS", adds_text("s", "w$", outputs_each));
  replace_all(text, "ALL", totals("s", outputs_each));
  replace_all(text, "$", cat(number));
  return text;
}
std::string gated_text(bool has_up, uint32_t outputs_each, bool several_rows) {
  std::string text = cat(kGatedBegin, several_rows ? kGatedSeveralRows : "", "}\n");
  replace_all(text, "SUMS", cat(sums_text("g", outputs_each), has_up ? sums_text("u", outputs_each) : ""));
  replace_all(text, "ADDS", cat(adds_text("g", "w0", outputs_each), has_up ? adds_text("u", "up", outputs_each) : ""));
  replace_all(text, "ALL_UPS", totals("u", has_up ? outputs_each : 0));
  replace_all(text, "ALL", totals("g", outputs_each));
  return text;
}
// Parameters have names of their own for each product.
constexpr const char* kOut[] = {"out_0", "out_1", "out_2", "out_3"};
constexpr const char* kFirstOutput[] = {"first_output_0", "first_output_1", "first_output_2", "first_output_3"};
constexpr const char* kOutputs[] = {"outputs_0", "outputs_1", "outputs_2", "outputs_3"};
constexpr const char* kAllOutputs[] = {"OUTPUTS_0", "OUTPUTS_1", "OUTPUTS_2", "OUTPUTS_3"};
constexpr const char* kWeights[] = {"w0", "w1", "w2", "w3"};

}  // namespace

template <class F>
void Emitter::add_by_rows(F&& make) {
  Kernel one = make(1);
  if (!adapter_.is_software) {
    one.grid.most_count = 1;
    Kernel several = make(kRowsAtOnce);
    several.grid.least_count = 2;
    add(several);
  }
  add(one);
}

// Several products of the same rows, or one of a tile of a matrix.
void Emitter::emit_products(std::span<const Product> products) {
  add_by_rows([&](uint32_t rows) { return products_kernel(products, rows); });
}

Kernel Emitter::products_kernel(std::span<const Product> products, uint32_t rows_at_once) {
  const Linear& first = *products.front().op;
  uint64_t outputs = 0;
  for (const Product& product : products) outputs += layout_.matrix(product.op->weight).tiles[product.tile].rows;
  const ProductShape shape = product_shape(adapter_, outputs);
  Kernel kernel{.name = "linear", .extent = type(first.x).extent, .threads = kProductThreads};
  kernel.constants = {{"COLUMNS", program_.weights[first.weight].shape.columns}, {"ROWS", rows_at_once}};
  kernel.params = {{"x", at(first.x)}};
  kernel.bindings = {memory()};
  use_subgroups(kernel, adapter_);
  kernel.snippets = {staged_product(adapter_, shape)};
  std::string calls = kVectorMain;
  uint64_t end = 0;
  for (uint32_t i = 0; i < products.size(); ++i) {
    const Linear& op = *products[i].op;
    const WeightTile& tile = layout_.matrix(op.weight).tiles[products[i].tile];
    kernel.constants.push_back({kAllOutputs[i], program_.weights[op.weight].shape.rows});
    kernel.params.insert(kernel.params.end(), {{kOut[i], at(op.out)},
                                               {kFirstOutput[i], static_cast<uint32_t>(tile.first_row)},
                                               {kOutputs[i], static_cast<uint32_t>(tile.rows)}});
    kernel.bindings.push_back(weight(kWeights[i], op.weight, products[i].tile));
    kernel.snippets.push_back(decoder(op.weight, kWeights[i]));
    kernel.body += vector_text(i, shape.outputs_each, rows_at_once > 1);
    const uint64_t begin = end;
    end += shape.blocks(tile.rows);
    calls += cat(i == 0 ? "  if" : " else if", " (block < ", end, "u) { product_", i, "(block - ", begin,
                 "u, first_row, row_count, thread); }");
  }
  kernel.constants.push_back({"BLOCKS", static_cast<uint32_t>(end)});
  kernel.body += calls + "\n}\n";
  kernel.grid = {.per = rows_at_once, .times = end};
  return kernel;
}

void Emitter::emit_tiles(const Linear& op, uint32_t tile) {
  const WeightShape& shape = program_.weights[op.weight].shape;
  const WeightTile& rows = layout_.matrix(op.weight).tiles[tile];
  const TileShape side = tile_shape(adapter_);
  Kernel kernel{.name = "linear_tiles", .body = kTiles, .extent = type(op.x).extent, .threads = side.side * side.side};
  kernel.constants = {{"COLUMNS", shape.columns}, {"OUTPUTS", shape.rows}, {"SIDE", side.side}, {"EACH", side.each}};
  kernel.params = {{"x", at(op.x)},
                   {"out", at(op.out)},
                   {"first_output", static_cast<uint32_t>(rows.first_row)},
                   {"outputs", static_cast<uint32_t>(rows.rows)}};
  kernel.bindings = {memory(), weight("w", op.weight, tile)};
  kernel.snippets = {decoder(op.weight, "w")};
  kernel.grid = {.per = side.rows(), .times = (rows.rows + side.rows() - 1) / side.rows()};
  add(kernel);
}

void Emitter::emit(const Linear& op) {
  for (uint32_t tile = 0; tile < layout_.matrix(op.weight).tiles.size(); ++tile) {
    const Product product{.op = &op, .tile = tile};
    if (has_few_rows(type(op.x).extent))
      emit_products({&product, 1});
    else
      emit_tiles(op, tile);
  }
}

bool Emitter::emit_linears(const Run& run) {
  if (!has_few_rows(type(std::get<Linear>(program_.ops[run.first_op]).x).extent)) return false;
  std::vector<Product> products;
  for (uint32_t i = run.first_op; i < run.end_op; ++i) {
    products.push_back({.op = &std::get<Linear>(program_.ops[i])});
    if (layout_.matrix(products.back().op->weight).tiles.size() > 1) return false;
  }
  emit_products(products);
  return true;
}

bool Emitter::emit_gated(const GatedRun& run) {
  const auto is_whole = [&](const Linear* op) { return op == nullptr || layout_.matrix(op->weight).tiles.size() == 1; };
  if (!has_few_rows(type(run.gate->x).extent) || !is_whole(run.gate) || !is_whole(run.up)) return false;
  add_by_rows([&](uint32_t rows) { return gated_kernel(run, rows); });
  return true;
}

Kernel Emitter::gated_kernel(const GatedRun& run, uint32_t rows_at_once) {
  const WeightShape& matrix = program_.weights[run.gate->weight].shape;
  const ProductShape shape = product_shape(adapter_, matrix.rows);
  Kernel kernel{.name = "gated_linear", .extent = type(run.gate->x).extent, .threads = kProductThreads};
  kernel.constants = {{"COLUMNS", matrix.columns},
                      {"OUTPUTS", matrix.rows},
                      {"ROWS", rows_at_once},
                      {"HAS_UP", run.up != nullptr ? 1u : 0u},
                      {"BLOCKS", static_cast<uint32_t>(shape.blocks(matrix.rows))}};
  kernel.params = {{"x", at(run.gate->x)}, {"out", at(run.activation->out)}};
  kernel.bindings = {memory(), weight("w0", run.gate->weight, 0)};
  use_subgroups(kernel, adapter_);
  kernel.snippets = {kMath, activation_text(run.activation->kind), staged_product(adapter_, shape),
                     decoder(run.gate->weight, "w0")};
  if (run.up != nullptr) {
    kernel.bindings.push_back(weight("up", run.up->weight, 0));
    kernel.snippets.push_back(decoder(run.up->weight, "up"));
    kernel.snippets.emplace_back("fn up_value(row: u32, i: u32, sum: f32) -> f32 { return sum; }\n");
  } else {
    kernel.snippets.emplace_back("fn up_16(row: u32, part: u32) -> mat4x4f { return mat4x4f(); }\n");
    if (run.slice != nullptr) {
      kernel.constants.insert(kernel.constants.end(),
                              {{"WIDTH", type(run.slice->x).width}, {"X_COLUMNS", columns(run.slice->x)}});
      kernel.params.insert(
          kernel.params.end(),
          {{"up", at(run.slice->x)}, {"first_head", run.slice->first_head}, {"stride", run.slice->stride}});
      kernel.snippets.emplace_back(R"(
fn up_value(row: u32, i: u32, sum: f32) -> f32 {
  return load(p.up + row * X_COLUMNS + (p.first_head + i / WIDTH * p.stride) * WIDTH + i % WIDTH);
}
)");
    } else {
      kernel.params.push_back({"up", at(run.activation->up)});
      kernel.snippets.emplace_back(
          "fn up_value(row: u32, i: u32, sum: f32) -> f32 { return load(p.up + row * OUTPUTS + i); }\n");
    }
  }
  kernel.body = cat(gated_text(run.up != nullptr, shape.outputs_each, rows_at_once > 1), kVectorMain,
                    "  product_0(block, first_row, row_count, thread);\n}\n");
  kernel.grid = {.per = rows_at_once, .times = shape.blocks(matrix.rows)};
  return kernel;
}

}  // namespace sluice::webgpu
