#include "device/webgpu/kernels/products.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "device/webgpu/kernels/integer_tiles.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kThreadsOfGroup = 512;
constexpr uint32_t kMostLanes = 128;
// A product uses enough lanes that each lane has at most kMostUnitsEach units, and more lanes if there are fewer than
// kLeastOfAllThreads threads in all.
constexpr uint32_t kMostUnitsEach = 8, kLeastOfAllThreads = 32768;
constexpr uint32_t kMostLoads = 8;                 // loads of units in flight at once
constexpr uint32_t kStagedBytes = 12 * 1024;       // workgroup memory for the vectors; every WebGPU has 16 KB
constexpr uint32_t kIntegerPart = 32, kPart = 64;  // bytes of a staged part

constexpr const char* kProducts = R"(
const PER = min(SUBGROUP, LANES);  // lanes that are added together at once
const TEAMS = THREADS / LANES;
const OF_GROUP = TEAMS / VECTORS * ROWS_EACH;
const STAGED = LANES * UNITS_EACH * UNIT_PARTS;  // parts of a vector at once
var<workgroup> sums: array<f32, THREADS / PER * KEPT * ROWS_EACH>;

fn vector_of(thread: u32) -> u32 { return thread / LANES % VECTORS; }
fn first_output(block: u32, thread: u32) -> u32 { return block * OF_GROUP + thread / LANES / VECTORS * ROWS_EACH; }
fn first_stored(block: u32, thread: u32) -> u32 { return block * OF_GROUP + thread * 4u; }
fn stores(thread: u32) -> bool { return thread * 4u < OF_GROUP; }

struct Columns { a: Sixteen, b: Sixteen, sums: vec2f }
fn columns_of(vector: u32, unit: u32, parts: u32, step: u32) -> Columns {
  let part = vector * STAGED + select(unit, unit / step * 2u * step + unit % step, parts == 2u);
  var x: Columns;
  x.a = staged_part(part);
  if (parts == 2u) {
    x.b = staged_part(part + step);
    x.sums = vec2f(total_16(x.a), total_16(x.b));
  }
  return x;
}

fn row_sum(i: u32, v: u32, k: u32) -> f32 {
  const kGroups = LANES / PER;
  const kKept = KEPT * ROWS_EACH;
  let at = (i / ROWS_EACH * VECTORS + v) * kGroups * kKept + k * ROWS_EACH + i % ROWS_EACH;
  var x = sums[at];
  for (var group = 1u; group < kGroups; group++) { x += sums[at + group * kKept]; }
  return x;
}
fn four_sums(thread: u32, v: u32, k: u32) -> vec4f {
  let i = thread * 4u;
  return vec4f(row_sum(i, v, k), row_sum(i + 1u, v, k), row_sum(i + 2u, v, k), row_sum(i + 3u, v, k));
}
)";

// Sixteen columns as f32.
constexpr const char* kNumbers = R"(
alias Sixteen = mat4x4f;
var<workgroup> staged: array<vec4f, VECTORS * STAGED * 4u>;
fn total(x: vec4f) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn total_16(x: Sixteen) -> f32 { return total((x[0] + x[1]) + (x[2] + x[3])); }

// Columns 4 i to 4 i + 3.
fn four_columns(at: u32, columns: u32, i: u32) -> vec4f {
  let column = i * 4u;
  var x = vec4f();
  if (column + 4u <= columns) {
    x = x_four(at + column);
  } else if (columns % 4u != 0u) {
    for (var j = 0u; column + j < columns; j++) { x[j] = load(at + column + j); }
  }
  return x;
}
fn staged_part(part: u32) -> Sixteen {
  return mat4x4f(staged[part * 4u], staged[part * 4u + 1u], staged[part * 4u + 2u], staged[part * 4u + 3u]);
}

fn dot_f(w: mat4x4f, x: Sixteen) -> f32 {
  return total(fma(w[3], x[3], fma(w[2], x[2], fma(w[1], x[1], w[0] * x[0]))));
}
fn dot_u8(q: vec4u, x: Sixteen) -> f32 {
  return dot_f(mat4x4f(vec4f(unpack4xU8(q.x)), vec4f(unpack4xU8(q.y)), vec4f(unpack4xU8(q.z)), vec4f(unpack4xU8(q.w))),
               x);
}
fn dot_i8(q: vec4u, x: Sixteen) -> f32 {
  return dot_f(mat4x4f(vec4f(unpack4xI8(q.x)), vec4f(unpack4xI8(q.y)), vec4f(unpack4xI8(q.z)), vec4f(unpack4xI8(q.w))),
               x);
}
fn dot_moved(q: vec4u, by: f32, x: Sixteen) -> f32 {
  return dot_f(mat4x4f(vec4f(unpack4xU8(q.x)) - by, vec4f(unpack4xU8(q.y)) - by, vec4f(unpack4xU8(q.z)) - by,
                       vec4f(unpack4xU8(q.w)) - by), x);
}
)";

// Sixteen columns as bytes. `numbers` has their scale, the sum of the columns as f32, and the sum of the bytes.
constexpr const char* kBytes = R"(
struct Sixteen { q: vec4u, numbers: vec3f }
var<workgroup> staged: array<vec4u, VECTORS * STAGED>;
var<workgroup> staged_numbers: array<vec3f, VECTORS * STAGED>;

fn dot_16(a: vec4u, b: vec4u) -> f32 {
  return f32((dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y)) + (dot4I8Packed(a.z, b.z) + dot4I8Packed(a.w, b.w)));
}
fn stage(i: u32, part: u32, at: u32, columns: u32) {
  if (part * 16u < columns) {
    let first = at + part * 16u;
    let x = part_of(x_four(first), x_four(first + 4u), x_four(first + 8u), x_four(first + 12u));
    staged[i] = x.q;
    staged_numbers[i] = vec3f(x.scale, x.sum, dot_16(x.q, vec4u(0x01010101u)));
  } else {
    staged[i] = vec4u();
    staged_numbers[i] = vec3f();
  }
}
fn staged_part(part: u32) -> Sixteen { return Sixteen(staged[part], staged_numbers[part]); }
fn total_16(x: Sixteen) -> f32 { return x.numbers.y; }

// The bytes of q must be at most 127.
fn dot_u8(q: vec4u, x: Sixteen) -> f32 { return x.numbers.x * dot_16(q, x.q); }
fn dot_i8(q: vec4u, x: Sixteen) -> f32 { return x.numbers.x * dot_16(q, x.q); }
fn dot_moved(q: vec4u, by: f32, x: Sixteen) -> f32 { return x.numbers.x * fma(-by, x.numbers.z, dot_16(q, x.q)); }
)";

constexpr const char* kColumnsOfMemory = R"(
fn x_four(at: u32) -> vec4f { return load4(at); }
)";
constexpr const char* kColumnsOfRow = R"(
var<workgroup> row_x: array<vec4f, ROW_COLUMNS / 4u>;
fn x_four(at: u32) -> vec4f { return row_x[at / 4u]; }
)";

constexpr const char* kKeepBySubgroups = R"(
fn keep(k: u32, own: f32, thread: u32) {
  var x = own;
  for (var step = PER / 2u; step > 0u; step = step / 2u) { x += subgroupShuffleXor(x, step); }
  if (thread % PER == 0u) { sums[thread / PER * KEPT * ROWS_EACH + k] = x; }
}
)";
constexpr const char* kKeep = R"(
fn keep(k: u32, own: f32, thread: u32) { sums[thread * KEPT * ROWS_EACH + k] = own; }
)";
// Stores four elements or fewer. If fewer than four are stored, no other thread writes to the same four words.
constexpr const char* kStoreFours = R"(
fn store_some(at: u32, x: vec4f, count: u32) {
  if (count >= 4u) {
    store4(at, x);
    return;
  }
  for (var i = at; i < at + count; i++) { memory[i / 4u][i % 4u] = bitcast<u32>(x[i - at]); }
}
)";
constexpr const char* kStoreSome = R"(
fn store_some(at: u32, x: vec4f, count: u32) {
  for (var i = 0u; i < min(count, 4u); i++) { store(at + i, x[i]); }
}
)";

// WGSL for the weight row from which the team computes its output number `output`.
std::string row_of(const RowsOf& weight, const std::string& output) {
  return fill(weight.row, {{"output", cat("output + ", output)}});
}

// WGSL that stages the columns of a batch. All loads are issued before the first result is stored.
std::string staged(const ProductShape& shape, uint32_t parts, const std::string& x, const std::string& columns) {
  CHECK(shape.vectors == 1 || parts == shape.unit_parts);
  const std::string barrier = "      workgroupBarrier();\n";
  // A vector has `each` staged items. For item `at` of all vectors: the vector to read from, and the item's number in
  // it.
  const auto from = [&](const std::string& at, uint32_t each) {
    return has_placeholder(x, "vector") ? fill(x, {{"vector", cat("(", at, ") / ", each, "u")}}) : x;
  };
  const auto number = [&](const std::string& at, uint32_t each) {
    return cat("batch * ", each, "u + ", shape.vectors == 1 ? at : cat("(", at, ") % ", each, "u"));
  };
  const uint32_t each_parts = shape.lanes * shape.units_each * parts;
  if (shape.integers)
    return cat(barrier, "      for (var i = thread; i < ", shape.vectors * each_parts, "u; i += THREADS) { stage(i, ",
               number("i", each_parts), ", ", from("i", each_parts), ", ", columns, "); }\n", barrier);
  const uint32_t each_fours = each_parts * 4, fours = each_fours * shape.vectors;
  const auto four = [&](const std::string& at) {
    return cat("four_columns(", from(at, each_fours), ", ", columns, ", ", number(at, each_fours), ")");
  };
  if (shape.rolled)
    return cat(barrier, "      for (var i = thread; i < ", fours, "u; i += THREADS) { staged[i] = ", four("i"), "; }\n",
               barrier);
  std::string text;
  const auto each = [&](const auto& statement) {
    for (uint32_t i = 0; i * shape.threads() < fours; ++i)
      text += statement(i, cat("thread + ", i * shape.threads(), "u"));
  };
  each([&](uint32_t i, const std::string& at) { return cat("      let staged_", i, " = ", four(at), ";\n"); });
  text += barrier;
  each([&](uint32_t i, const std::string& at) {
    const bool is_whole = (i + 1) * shape.threads() <= fours;
    return cat("      ", is_whole ? "" : cat("if (", at, " < ", fours, "u) { "), "staged[", at, "] = staged_", i, ";",
               is_whole ? "\n" : " }\n");
  });
  return text + barrier;
}

// WGSL that adds a batch of units of weights begin to end, which have the same units.
//
// Text that runs once costs a dispatch the fetching of it: some 5 us for 13 KB on an H200, between kernels that read
// much (docs/experiments.md). So lanes with many units loop over them, and load the next units when they have added the
// last ones. Few units are all loaded at once.
class UnitsText {
 public:
  UnitsText(const ProductShape& shape, const std::vector<RowsOf>& weights, size_t begin, size_t end)
      : shape_(shape), weights_(weights), begin_(begin), end_(end) {
    for (uint32_t e = 0; e < shape.units_each; ++e)
      for (size_t k = begin; k < end; ++k)
        for (uint32_t i = 0; i < shape.rows_each; ++i) loads_.push_back({e, i, k});
  }
  // Before the vector is staged, and behind that.
  std::string loaded() const { return shape_.rolled ? "" : is_looped() ? loaded_first() : loaded_at(0); }
  std::string added() const { return shape_.rolled ? added_rolled() : is_looped() ? added_looped() : added_at_once(); }

 private:
  // Number e of the lane's units, in row i of the team, of weight k.
  struct Load {
    uint32_t e = 0, i = 0;
    size_t k = 0;
  };
  static constexpr uint32_t kLeastLooped = 3;  // units of a lane in a batch

  bool is_looped() const { return shape_.units_each >= kLeastLooped; }
  const std::string& first() const { return weights_[begin_].weight; }
  static std::string name_of(const Load& load) { return cat("w", load.k, "_", load.e, "_", load.i); }
  std::string unit(const std::string& e) const {
    return cat("min((batch * UNITS_EACH + ", e, ") * LANES + thread % LANES, ", first(), "_UNITS - 1u)");
  }
  std::string columns(const std::string& e) const {
    return cat("columns_of(vector_of(thread), ", e, " * LANES + thread % LANES, ", first(), "_UNIT, ", first(),
               "_UNIT_STEP)");
  }
  std::string load_of(size_t k, const std::string& row, const std::string& unit) const {
    return cat(weights_[k].weight, "_unit(", row_of(weights_[k], row), ", ", unit, ")");
  }
  std::string each_row(const auto& statement) const {
    std::string made;
    for (size_t k = begin_; k < end_; ++k)
      for (uint32_t i = 0; i < shape_.rows_each; ++i) made += statement(k, i);
    return made;
  }

  // At most kMostLoads of all units from that one on.
  std::string loaded_at(size_t from) const {
    std::string made;
    for (size_t at = from; at < std::min(from + kMostLoads, loads_.size()); ++at) {
      const Load& load = loads_[at];
      made += cat("      let ", name_of(load), " = ", load_of(load.k, cat(load.i, "u"), unit(cat(load.e, "u"))), ";\n");
    }
    return made;
  }
  std::string added_at_once() const {
    std::string made;
    uint32_t columns_at = ~0u;
    for (size_t at = 0; at < loads_.size(); ++at) {
      if (at % kMostLoads == 0) made += loaded_at(at + kMostLoads);
      const Load& load = loads_[at];
      if (load.e != columns_at) made += cat("      let x", load.e, " = ", columns(cat(load.e, "u")), ";\n");
      columns_at = load.e;
      made += cat("      s", load.k, "[", load.i, "u] += ", weights_[load.k].weight, "_dot(", name_of(load), ", ",
                  unit(cat(load.e, "u")), ", x", load.e, ");\n");
    }
    return made;
  }

  std::string loaded_first() const {
    return each_row([&](size_t k, uint32_t i) {
      return cat("      var w", k, "_", i, " = ", load_of(k, cat(i, "u"), unit("0u")), ";\n");
    });
  }
  // The loop's length is UNITS_EACH. A compiler cannot know that, so it cannot unroll it.
  std::string added_looped() const {
    return cat(
        "      for (var e = 0u; e < min(UNITS_EACH, UNITS_EACH + last); e++) {\n      let own_unit = ", unit("e"),
        ";\n      let next_unit = ", unit("e + 1u"), ";\n      let x = ", columns("e"), ";\n",
        each_row([&](size_t k, uint32_t i) {
          return cat("      s", k, "[", i, "u] += ", weights_[k].weight, "_dot(w", k, "_", i, ", own_unit, x);\n");
        }),
        each_row([&](size_t k, uint32_t i) {
          return cat("      w", k, "_", i, " = ", load_of(k, cat(i, "u"), "next_unit"), ";\n");
        }),
        "      }\n");
  }

  // The inner loop's length depends on the rows, so a compiler cannot unroll it.
  std::string added_rolled() const {
    std::string made = cat("      for (var e = 0u; e < UNITS_EACH; e++) {\n      let unit = ", unit("e"),
                           ";\n      let x = ", columns("e"), ";\n");
    for (size_t k = begin_; k < end_; ++k)
      made += cat("      for (var o = 0u; o < min(ROWS_EACH, last + 1u - min(output, last)); o++) {\n        s", k,
                  "[o] += ", weights_[k].weight, "_dot(", load_of(k, "o", "unit"), ", unit, x);\n      }\n");
    return made + "      }\n";
  }

  const ProductShape& shape_;
  const std::vector<RowsOf>& weights_;
  size_t begin_, end_;
  std::vector<Load> loads_;
};

}  // namespace

uint32_t ProductShape::staged_bytes() const {
  return vectors * lanes * units_each * unit_parts * (integers ? kIntegerPart : kPart);
}

ProductShape product_shape(const Adapter& adapter, const ProductSize& size) {
  ProductShape shape{
      .unit_parts = size.unit_parts, .weights = size.weights, .integers = size.integers, .rolled = adapter.is_software};
  const uint32_t units = divide_up(divide_up(size.columns, 16), size.unit_parts);
  const uint32_t unit_bytes = size.unit_parts * (size.integers ? kIntegerPart : kPart);
  const bool in_subgroups = subgroup_lanes(adapter) > 0;
  const uint32_t most_lanes = adapter.is_software || !in_subgroups ? 32 : kMostLanes;
  shape.rows_each = adapter.is_software ? 4 : 2;
  shape.lanes = 4;
  const auto each = [&] { return divide_up(units, shape.lanes); };
  while (shape.lanes < most_lanes && each() > 1 && 2 * shape.lanes * unit_bytes <= kStagedBytes &&
         (each() > kMostUnitsEach || size.outputs * shape.lanes / shape.rows_each < kLeastOfAllThreads))
    shape.lanes *= 2;
  const uint32_t threads = in_subgroups ? std::min(kThreadsOfGroup, adapter.workgroup_threads) : 128;
  const uint32_t least_teams = 4 / shape.rows_each;  // for each vector, so that its outputs are whole fours
  shape.vectors = std::max(
      std::min({size.vectors, kStagedBytes / unit_bytes / shape.lanes, threads / shape.lanes / least_teams}), 1u);
  const uint32_t most_each = adapter.is_software ? 1 : kStagedBytes / unit_bytes / shape.lanes / shape.vectors;
  shape.units_each = divide_up(each(), divide_up(each(), most_each));
  const uint32_t teams = threads / shape.lanes / shape.vectors;
  shape.teams = shape.vectors * std::max(teams - teams % least_teams, least_teams);
  return shape;
}

void use_products(Kernel& kernel, const Adapter& adapter, const ProductShape& shape, bool of_row) {
  use_subgroups(kernel, adapter);
  const bool fours = is_in_fours(kernel);
  kernel.snippets.push_back(
      cat("const LANES = ", shape.lanes, "u;\nconst ROWS_EACH = ", shape.rows_each, "u;\nconst UNITS_EACH = ",
          shape.units_each, "u;\nconst UNIT_PARTS = ", shape.unit_parts, "u;\nconst KEPT = ", shape.weights,
          "u;\nconst VECTORS = ", shape.vectors, "u;\n", of_row ? kColumnsOfRow : kColumnsOfMemory,
          kernel.subgroups ? "" : "const SUBGROUP = 1u;\n", shape.integers ? cat(kRowsAsIntegers, kBytes) : kNumbers,
          kProducts, kernel.subgroups ? kKeepBySubgroups : kKeep, fours ? kStoreFours : kStoreSome));
}

std::string added_products(const ProductShape& shape, const std::vector<RowsOf>& weights, const std::string& x,
                           const std::string& columns, const AddedText& between) {
  std::string text = between.before;
  for (size_t k = 0; k < weights.size(); ++k) text += cat("    var s", k, " = array<f32, ROWS_EACH>();\n");
  for (size_t begin = 0, end = 0; begin < weights.size(); begin = end) {
    while (end < weights.size() && weights[end].units == weights[begin].units) ++end;
    const UnitsText units(shape, weights, begin, end);
    text += cat("    for (var batch = 0u; batch * UNITS_EACH * LANES < ", weights[begin].weight, "_UNITS; batch++) {\n",
                units.loaded(), begin == 0 ? between.behind_loads : "",
                staged(shape, weights[begin].units.parts, x, columns), units.added());
    text += "    }\n";
  }
  for (size_t k = 0; k < weights.size(); ++k) {
    if (shape.rolled)
      text +=
          cat("    for (var i = 0u; i < ROWS_EACH; i++) { keep(", k, "u * ROWS_EACH + i, s", k, "[i], thread); }\n");
    for (uint32_t i = 0; !shape.rolled && i < shape.rows_each; ++i)
      text += cat("    keep(", k * shape.rows_each + i, "u, s", k, "[", i, "u], thread);\n");
  }
  return text + between.at_end + "    workgroupBarrier();" + between.behind_sums;
}

}  // namespace sluice::webgpu
