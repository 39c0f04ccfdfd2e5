#include "device/webgpu/products.h"

#include <algorithm>

#include "base/text.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kLeastThreads = 128;  // of a workgroup
constexpr uint32_t kMostLanes = 96, kMostLanesInMemory = 64;
constexpr uint32_t kRowsEach = ProductShape::kRowsEach;

constexpr const char* kProducts = R"(
const PER = min(SUBGROUP, LANES);  // lanes that are added together at once
const TEAMS = THREADS / LANES;
var<workgroup> staged: array<vec4f, LANES * UNIT_PARTS * 4u>;
var<workgroup> sums: array<vec4f, THREADS / PER * KEPT>;

struct Columns { a: mat4x4f, b: mat4x4f, sums: vec2f }

fn first_output(block: u32, thread: u32) -> u32 { return (block * TEAMS + thread / LANES) * ROWS_EACH; }
fn total(x: vec4f) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn total_16(x: mat4x4f) -> f32 { return total((x[0] + x[1]) + (x[2] + x[3])); }

// Columns 4 i to 4 i + 3 of those from part `first` on.
fn four_columns(at: u32, columns: u32, first: u32, i: u32) -> vec4f {
  let column = first * 16u + i * 4u;
  var x = vec4f();
  if (column + 4u <= columns) {
    x = load4(at + column);
  } else if (columns % 4u != 0u) {
    for (var j = 0u; column + j < columns; j++) { x[j] = load(at + column + j); }
  }
  return x;
}
fn staged_part(part: u32) -> mat4x4f {
  return mat4x4f(staged[part * 4u], staged[part * 4u + 1u], staged[part * 4u + 2u], staged[part * 4u + 3u]);
}
fn columns_of(unit: u32, parts: u32, step: u32) -> Columns {
  let part = select(unit, unit / step * 2u * step + unit % step, parts == 2u);
  var x: Columns;
  x.a = staged_part(part);
  if (parts == 2u) {
    x.b = staged_part(part + step);
    x.sums = vec2f(total_16(x.a), total_16(x.b));
  }
  return x;
}

fn dot_f(w: mat4x4f, x: mat4x4f) -> f32 {
  return total(fma(w[3], x[3], fma(w[2], x[2], fma(w[1], x[1], w[0] * x[0]))));
}
fn dot_u8(q: vec4u, x: mat4x4f) -> f32 {
  return dot_f(mat4x4f(vec4f(unpack4xU8(q.x)), vec4f(unpack4xU8(q.y)), vec4f(unpack4xU8(q.z)), vec4f(unpack4xU8(q.w))),
               x);
}
fn dot_i8(q: vec4u, x: mat4x4f) -> f32 {
  return dot_f(mat4x4f(vec4f(unpack4xI8(q.x)), vec4f(unpack4xI8(q.y)), vec4f(unpack4xI8(q.z)), vec4f(unpack4xI8(q.w))),
               x);
}
fn dot_moved(q: vec4u, by: f32, x: mat4x4f) -> f32 {
  return dot_f(mat4x4f(vec4f(unpack4xU8(q.x)) - by, vec4f(unpack4xU8(q.y)) - by, vec4f(unpack4xU8(q.z)) - by,
                       vec4f(unpack4xU8(q.w)) - by), x);
}

fn team_sum(team: u32, k: u32) -> vec4f {
  const kGroups = LANES / PER;
  var x = sums[team * kGroups * KEPT + k];
  for (var i = 1u; i < kGroups; i++) { x += sums[(team * kGroups + i) * KEPT + k]; }
  return x;
}
)";
constexpr const char* kKeepBySubgroups = R"(
fn keep(k: u32, own: vec4f, thread: u32) {
  var x = own;
  for (var step = PER / 2u; step > 0u; step = step / 2u) { x += subgroupShuffleXor(x, step); }
  if (thread % PER == 0u) { sums[thread / PER * KEPT + k] = x; }
}
)";
constexpr const char* kKeep = R"(
fn keep(k: u32, own: vec4f, thread: u32) { sums[thread * KEPT + k] = own; }
)";
constexpr const char* kStoreFours = R"(
fn store_some(at: u32, x: vec4f, count: u32) { store4(at, x); }
)";
constexpr const char* kStoreSome = R"(
fn store_some(at: u32, x: vec4f, count: u32) {
  for (var i = 0u; i < min(count, 4u); i++) { store(at + i, x[i]); }
}
)";

uint32_t round_up(uint32_t number, uint32_t unit) { return (number + unit - 1) / unit * unit; }

std::string with_output(const std::string& row, const std::string& output) {
  std::string text;
  for (const char letter : row)
    if (letter == '#')
      text += cat("output + ", output);
    else
      text += letter;
  return text;
}

// Stages the batch's columns: all are on their way before the first has come.
std::string staged(const ProductShape& shape, uint32_t parts, const std::string& x, const std::string& columns) {
  const uint32_t fours = shape.lanes * parts * 4;
  if (shape.rolled)
    return cat("      workgroupBarrier();\n      for (var i = thread; i < ", fours, "u; i += THREADS) {\n",
               "        staged[i] = four_columns(", x, ", ", columns, ", batch * ", shape.lanes * parts,
               "u, i);\n      }\n      workgroupBarrier();\n");
  std::string text;
  const auto each = [&](const auto& statement) {
    for (uint32_t i = 0; i * shape.threads() < fours; ++i)
      text += statement(i, cat("thread + ", i * shape.threads(), "u"));
  };
  each([&](uint32_t i, const std::string& at) {
    return cat("      let x", i, " = four_columns(", x, ", ", columns, ", batch * ", shape.lanes * parts, "u, ", at,
               ");\n");
  });
  text += "      workgroupBarrier();\n";
  each([&](uint32_t i, const std::string& at) {
    const bool is_whole = (i + 1) * shape.threads() <= fours;
    return cat("      ", is_whole ? "" : cat("if (", at, " < ", fours, "u) { "), "staged[", at, "] = x", i, ";",
               is_whole ? "\n" : " }\n");
  });
  return text + "      workgroupBarrier();\n";
}

}  // namespace

ProductShape product_shape(const Adapter& adapter, uint32_t columns, uint32_t unit_parts) {
  const uint32_t units = (round_up(columns, 16) / 16 + unit_parts - 1) / unit_parts;
  const uint32_t subgroup = subgroup_lanes(adapter);
  const uint32_t most = adapter.is_software ? 32
                        : subgroup == 0     ? kMostLanesInMemory
                                            : kMostLanes,
                 step = std::max(subgroup, uint32_t{32});
  const uint32_t batches = (units + most - 1) / most;
  ProductShape shape{.unit_parts = unit_parts, .rolled = adapter.is_software};
  shape.lanes = round_up((units + batches - 1) / batches, step);
  for (uint32_t few = 4; few < step; few *= 2)
    if (units <= few) {
      shape.lanes = few;
      break;
    }
  shape.teams = std::max(kLeastThreads / shape.lanes, uint32_t{1});
  return shape;
}

void use_products(Kernel& kernel, const Adapter& adapter, const ProductShape& shape, size_t weights) {
  use_subgroups(kernel, adapter);
  const bool fours = is_in_fours(kernel);
  kernel.snippets.push_back(cat("const LANES = ", shape.lanes, "u;\nconst ROWS_EACH = ", kRowsEach,
                                "u;\nconst UNIT_PARTS = ", shape.unit_parts, "u;\nconst KEPT = ", weights, "u;\n",
                                kernel.subgroups ? "" : "const SUBGROUP = 1u;\n", kProducts,
                                kernel.subgroups ? kKeepBySubgroups : kKeep, fours ? kStoreFours : kStoreSome));
}

std::string declared_sums(size_t weights) {
  std::string text;
  for (size_t k = 0; k < weights; ++k) text += cat("    var s", k, " = vec4f();\n");
  return text;
}

std::string added_products(const ProductShape& shape, const std::vector<RowsOf>& weights, const std::string& x,
                           const std::string& columns) {
  std::string text;
  for (size_t begin = 0, end = 0; begin < weights.size(); begin = end) {
    while (end < weights.size() && weights[end].units == weights[begin].units) ++end;
    const auto loads = [&](size_t k) {
      std::string made;
      for (uint32_t i = 0; i < kRowsEach; ++i)
        made += cat("      let w", k, "_", i, " = ", weights[k].weight, "_unit(",
                    with_output(weights[k].row, cat(i, "u")), ", unit);\n");
      return made;
    };
    const auto adds = [&](size_t k) {
      std::string made = cat("      s", k, " += vec4f(");
      for (uint32_t i = 0; i < kRowsEach; ++i)
        made += cat(i == 0 ? "" : ", ", weights[k].weight, "_dot(w", k, "_", i, ", unit, x)");
      return made + ");\n";
    };
    // As long as there are rows, so that the loop has no length that it could be unrolled by.
    const auto adds_rolled = [&](size_t k) {
      return cat("      for (var o = 0u; o < min(ROWS_EACH, last + 1u - output); o++) {\n        s", k,
                 "[o] += ", weights[k].weight, "_dot(", weights[k].weight, "_unit(", with_output(weights[k].row, "o"),
                 ", unit), unit, x);\n      }\n");
    };
    const std::string& first = weights[begin].weight;
    text += cat("    for (var batch = 0u; batch * LANES < ", first, "_UNITS; batch++) {\n",
                "      let unit = min(batch * LANES + thread % LANES, ", first, "_UNITS - 1u);\n",
                shape.rolled ? "" : loads(begin), staged(shape, weights[begin].units.parts, x, columns),
                "      let x = columns_of(thread % LANES, ", first, "_UNIT, ", first, "_UNIT_STEP);\n");
    for (size_t k = begin; k < end; ++k)
      text += shape.rolled ? adds_rolled(k) : cat(k + 1 < end ? loads(k + 1) : "", adds(k));
    text += "    }\n";
  }
  return text;
}

std::string kept_sums(size_t weights) {
  std::string text;
  for (size_t k = 0; k < weights; ++k) text += cat("    keep(", k, "u, s", k, ", thread);\n");
  return text + "    workgroupBarrier();\n";
}

}  // namespace sluice::webgpu
