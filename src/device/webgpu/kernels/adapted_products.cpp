// The adapters of products in decode steps, added by the products' own kernels.
//
// Every workgroup computes a x of its row again where that reads little and the step has few rows. Otherwise a dispatch
// before the product computes it once (docs/experiments.md). Both have the same text: a thread takes four ranks and
// some of the columns; the threads' sums are added as a tree in each subgroup, then subgroup by subgroup. Every product
// and sum is an explicit fma or an addition, so the order of a row's sums depends on nothing but the shapes.
//
// A decode step mostly waits for memory. So the factors are loaded right behind the weights' first units, and the sums
// of a x are stored before the barrier that the product's own sums need anyway. Behind it, the threads that store
// outputs add scale b (a x) to them.
#include <algorithm>
#include <bit>

#include "base/text.h"
#include "device/webgpu/emitter.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kRanks = 4;               // of a thread
constexpr uint32_t kFewRows = 2;             // for which every workgroup computes a x
constexpr uint32_t kMostAgain = 65536;       // elements of the first factors that every workgroup may read
constexpr uint32_t kMostStagedB = 8 * 1024;  // bytes of the second factors in workgroup memory

constexpr const char* kAdded = R"(
const NO_MATRIX = 0xffffffffu;
var<workgroup> inner_sums: array<vec4f, INNER_SUMS>;
struct RowAdapter { matrix: u32, scale: f32 }
fn product_8(x: mat2x4f, w: mat2x4f, before: f32) -> f32 {
  let a = x[0];
  let b = w[0];
  let c = x[1];
  let d = w[1];
  let sum = fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, before))));
  return fma(c.w, d.w, fma(c.z, d.z, fma(c.y, d.y, fma(c.x, d.x, sum))));
}
)";

constexpr const char* kEightOfMemory = R"(
fn x_eight(row: u32, i: u32) -> mat2x4f {
  let at = p.x + row * COLUMNS + i * 8u;
  return mat2x4f(load4(at), load4(at + 4u));
}
)";
constexpr const char* kEightOfRow = R"(
fn x_eight(row: u32, i: u32) -> mat2x4f { return mat2x4f(x_four(i * 8u), x_four(i * 8u + 4u)); }
)";

// ${i}: which of the kernel's products; ${s}: the set of products that are computed at once.
constexpr const char* kAdapter = R"(
fn row_adapter_${i}(row: u32) -> RowAdapter {
  let scale = load(p.scales_${i} + step_row(row));
  return RowAdapter(select(word(p.slots_${i} + step_row(row)) - 1u, NO_MATRIX, scale == 0.0), scale);
}
fn inner_of_${i}(adapter: RowAdapter, row: u32, rank: u32, lane: u32) -> vec4f {
  const kEights = COLUMNS / 8u;
  var own = vec4f();
  if (adapter.matrix == NO_MATRIX) { return own; }
  a${i}_begin_at(p.a_${i});
  let first = adapter.matrix * RANK_${i};
  for (var k = 0u; k < (kEights + INNER_LANES_${s} - 1u) / INNER_LANES_${s}; k++) {
    let i = lane + k * INNER_LANES_${s};
    let at = min(i, kEights - 1u);
    let w0 = a${i}_eight(first + rank, at);
    let w1 = a${i}_eight(first + min(rank + 1u, RANK_${i} - 1u), at);
    let w2 = a${i}_eight(first + min(rank + 2u, RANK_${i} - 1u), at);
    let w3 = a${i}_eight(first + min(rank + 3u, RANK_${i} - 1u), at);
    let x = x_eight(row, at);
    if (i < kEights) {
      own = vec4f(product_8(x, w0, own.x), product_8(x, w1, own.y), product_8(x, w2, own.z), product_8(x, w3, own.w));
    }
  }
  return select(vec4f(), own, vec4u(rank, rank + 1u, rank + 2u, rank + 3u) < vec4u(RANK_${i}));
}
)";

// Of a kernel of products, for row `row`.
constexpr const char* kOuter = R"(
fn inner_four_${i}(four: u32) -> vec4f {
  if (four >= FOURS_${i}) { return vec4f(); }
  return kept_sum_${s}(FIRST_FOUR_${i} + four);
}
fn b_eight_${i}(adapter: RowAdapter, output: u32, i: u32) -> mat2x4f {
  b${i}_begin_at(p.b_${i});
  return b${i}_eight(adapter.matrix * B_ROWS_${i} + min(output, B_ROWS_${i} - 1u), i);
}
)";

// kept_sum_${s}: a x of four ranks, behind keep_inner_${s}() and a barrier.
constexpr const char* kKept = R"(
fn kept_sum_${s}(four: u32) -> vec4f {
  var sum = inner_sums[four * INNER_KEPT_${s}];
  if (is_computed_before()) { return sum; }
  for (var part = 1u; part < INNER_KEPT_${s}; part++) { sum += inner_sums[four * INNER_KEPT_${s} + part]; }
  return sum;
}
fn keep_parts_${s}(part: vec4f, is_kept: bool, thread: u32) {
  var own = part;
${together}
  if (thread % INNER_TOGETHER_${s} == 0u && is_kept) { inner_sums[thread / INNER_TOGETHER_${s}] = own; }
}
)";
constexpr const char* kTogether = R"(
  for (var step = INNER_TOGETHER_${s} / 2u; step > 0u; step = step / 2u) { own += subgroupShuffleXor(own, step); }
)";

constexpr const char* kInner = R"(
fn inner_${s}(row: u32, thread: u32${parameters}) -> vec4f {
  var own = vec4f();
  if (is_computed_before()) {
${loads}
    return own;
  }
  let four = thread / INNER_LANES_${s};
  let lane = thread % INNER_LANES_${s};
${calls}
  return own;
}
fn keep_inner_${s}(own: vec4f, thread: u32) {
  if (is_computed_before()) {
    if (thread < ALL_FOURS_${s}) { inner_sums[thread * INNER_KEPT_${s}] = own; }
  } else {
    keep_parts_${s}(own, thread / INNER_LANES_${s} < ALL_FOURS_${s}, thread);
  }
}
)";
constexpr const char* kLoad = R"(
    if (thread >= FIRST_FOUR_${i} && thread < FIRST_FOUR_${i} + FOURS_${i}) {
      own = load4(p.inner_${i} + (row * FOURS_${i} + thread - FIRST_FOUR_${i}) * 4u);
    }
)";

// The dispatch before a product: a workgroup takes a row and four ranks of all products'.
constexpr const char* kInnerMain = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let r = i / GROUPS_OF_ROW;
  let four = i % GROUPS_OF_ROW;
  if (r >= rows()) { return; }
${make_row}${sets}
}
)";
constexpr const char* kInnerSet = R"(
  if (four >= ${first}u && four < ${end}u) {
    var own = vec4f();
    var at = 0u;
${products}
    keep_parts_${s}(own, thread < INNER_LANES_${s}, thread);
    workgroupBarrier();
    if (thread == 0u) { store4(at, kept_sum_${s}(0u)); }
  }
)";
constexpr const char* kInnerProduct = R"(
    if (four >= ${first}u && four < ${first}u + FOURS_${i}) {
      at = p.inner_${i} + (r * FOURS_${i} + four - ${first}u) * 4u;
      if (thread < INNER_LANES_${s}) { own = inner_of_${i}(row_adapter_${i}(r), r, (four - ${first}u) * 4u, thread); }
    }
)";

// The rows of b of a workgroup's outputs, eight ranks an item. A thread has the items `thread`, `thread` + THREADS, ...
constexpr const char* kStagedB = R"(
const ITEMS_${i} = OF_GROUP * EIGHTS_${i};
const ITEMS_EACH_${i} = (ITEMS_${i} + THREADS - 1u) / THREADS;
alias Items${i} = array<mat2x4f, ITEMS_EACH_${i}>;
var<workgroup> staged_b_${i}: array<vec4f, ITEMS_${i} * 2u>;
fn b_items_${i}(adapter: RowAdapter, first: u32, thread: u32) -> Items${i} {
  var items = Items${i}();
  if (adapter.matrix == NO_MATRIX) { return items; }
  for (var k = 0u; k < ITEMS_EACH_${i}; k++) {
    let item = thread + k * THREADS;
    if (item < ITEMS_${i}) { items[k] = b_eight_${i}(adapter, first + item / EIGHTS_${i}, item % EIGHTS_${i}); }
  }
  return items;
}
fn stage_b_${i}(items: Items${i}, thread: u32) {
  for (var k = 0u; k < ITEMS_EACH_${i}; k++) {
    let item = thread + k * THREADS;
    if (item < ITEMS_${i}) {
      staged_b_${i}[item * 2u] = items[k][0];
      staged_b_${i}[item * 2u + 1u] = items[k][1];
    }
  }
}
fn staged_b_eight_${i}(thread: u32, j: u32, e: u32) -> mat2x4f {
  let item = (thread * 4u + j) * EIGHTS_${i} + e;
  return mat2x4f(staged_b_${i}[item * 2u], staged_b_${i}[item * 2u + 1u]);
}
)";
constexpr const char* kAddedSum = R"(
fn adapted_${i}(adapter: RowAdapter, thread: u32, output: u32, plain: vec4f) -> vec4f {
  if (adapter.matrix == NO_MATRIX) { return plain; }
  var sums = vec4f();
  for (var e = 0u; e < EIGHTS_${i}; e++) {
    let x = mat2x4f(inner_four_${i}(e * 2u), inner_four_${i}(e * 2u + 1u));
    sums = vec4f(product_8(x, ${b0}, sums.x), product_8(x, ${b1}, sums.y), product_8(x, ${b2}, sums.z),
                 product_8(x, ${b3}, sums.w));
  }
  return fma(vec4f(adapter.scale), sums, plain);
}
)";

uint32_t fours_of(const WeightShape& a) { return (a.rows + kRanks - 1) / kRanks; }
uint32_t eights_of(const WeightShape& a) { return (a.rows + 7) / 8; }

// The threads that share four ranks, of a set with as many fours.
uint32_t inner_lanes(uint32_t threads, uint32_t fours, uint32_t columns) {
  return std::min(std::bit_floor(threads / fours), std::bit_ceil(columns / 8));
}

}  // namespace

uint32_t Emitter::all_fours(std::span<const Linear* const> set) const {
  uint32_t fours = 0;
  for (const Linear* op : set)
    if (op->adapter) fours += fours_of(program_.weights[op->adapter.a].shape);
  return fours;
}

bool Emitter::adds_adapters(const AddedSets& sets, const Kernel& kernel, const ProductShape& shape, bool of_row) const {
  if (!is_in_fours(kernel)) return false;
  uint32_t buffer = kNone, most_fours = 0, columns = 0;
  size_t products = 0;
  uint64_t bytes = shape.staged_bytes() + uint64_t{16} * shape.threads();
  for (const std::span<const Linear* const> set : sets) {
    most_fours = std::max(most_fours, all_fours(set));
    products += set.size();
    for (const Linear* op : set) {
      columns = program_.weights[op->weight].shape.columns;
      if (!op->adapter) continue;
      bytes += staged_b_bytes(*op, shape);
      for (const WeightId id : {op->adapter.a, op->adapter.b}) {
        const uint32_t own = layout_.shared(id).buffer;
        if (own == kNone || (buffer != kNone && own != buffer)) return false;
        if (weight_format(layout_.matrix(id).format)->eight == nullptr) return false;
        buffer = own;
      }
    }
  }
  // Besides the weights: memory, factors of the row that the kernel makes, and the adapters.
  if (products + 3 > kStorageBuffers || columns % 8 != 0) return false;
  if (most_fours == 0 || most_fours > shape.threads()) return false;
  if (of_row) bytes += uint64_t{4} * columns;
  return bytes + kOtherWorkgroupBytes <= adapter_.workgroup_bytes;
}

uint32_t Emitter::staged_b_bytes(const Linear& op, const ProductShape& shape) const {
  const uint64_t bytes = uint64_t{32} * shape.outputs() * eights_of(program_.weights[op.adapter.a].shape);
  return bytes <= kMostStagedB ? static_cast<uint32_t>(bytes) : 0;
}

Emitter::AddedAdapters Emitter::added_adapters(const AddedSets& sets, const Kernel& kernel, const ProductShape& shape,
                                               bool of_row) {
  AddedAdapters added{.sets = sets, .shape = shape, .of_row = of_row};
  uint64_t read = 0, outputs = 0;
  for (const std::span<const Linear* const> set : sets) {
    uint64_t of_set = 0;
    for (const Linear* op : set) {
      outputs += program_.weights[op->weight].shape.rows;
      if (op->adapter) of_set += program_.weights[op->adapter.a].shape.rows;
      added.inner.push_back(adapted(op->adapter, most_rows(kernel.extent)).inner);
    }
    read = std::max(read, of_set * program_.weights[set.front()->weight].shape.columns);
  }
  added.few_rows = read <= kMostAgain && outputs <= kFusionLimits.outputs_of_rows ? kFewRows : 0;
  return added;
}

// What both kernels have: a x of four ranks.
std::string Emitter::use_inner(Kernel& kernel, const AddedAdapters& added, bool is_before) const {
  use_subgroups(kernel, adapter_);
  use_step_row(kernel);
  const uint32_t together_most = kernel.subgroups ? subgroup_lanes(adapter_) : 1;
  uint32_t inner_sums = 0, buffer = kNone;
  size_t i = 0;
  std::string text;
  for (size_t s = 0; s < added.sets.size(); ++s) {
    const uint32_t all = all_fours(added.sets[s]);
    if (all == 0) {
      i += added.sets[s].size();
      continue;
    }
    const uint32_t columns = program_.weights[added.sets[s].front()->weight].shape.columns;
    const uint32_t lanes = inner_lanes(kernel.threads, added.few_rows == 0 ? 1 : all, columns);
    const uint32_t together = std::min(lanes, together_most);
    inner_sums = std::max({inner_sums, all, (is_before ? 1 : all) * (lanes / together)});
    kernel.constants.insert(kernel.constants.end(), {{cat("INNER_LANES_", s), lanes},
                                                     {cat("INNER_TOGETHER_", s), together},
                                                     {cat("INNER_KEPT_", s), lanes / together}});
    text += fill(kKept, {{"s", cat(s)}, {"together", together > 1 ? fill(kTogether, {{"s", cat(s)}}) : ""}});
    for (const Linear* op : added.sets[s]) {
      const size_t at_i = i++;
      if (!op->adapter) continue;
      const AdapterOperand& adapter = op->adapter;
      const WeightShape& a = program_.weights[adapter.a].shape;
      kernel.constants.insert(kernel.constants.end(),
                              {{cat("RANK_", at_i), a.rows}, {cat("FOURS_", at_i), fours_of(a)}});
      kernel.params.insert(kernel.params.end(),
                           {{cat("slots_", at_i), at(adapter.slots)},
                            {cat("scales_", at_i), at(adapter.scales)},
                            {cat("a_", at_i), static_cast<uint32_t>(layout_.shared(adapter.a).word)},
                            {cat("inner_", at_i), added.inner[at_i]}});
      buffer = layout_.shared(adapter.a).buffer;
      const Format format = layout_.matrix(adapter.a).format;
      text += weight_snippet(format, columns, cat("a", at_i), Rows::anywhere, "added") +
              eight_snippet(format, cat("a", at_i)) + fill(kAdapter, {{"i", cat(at_i)}, {"s", cat(s)}});
    }
  }
  kernel.constants.push_back({"INNER_SUMS", inner_sums});
  kernel.bindings.push_back({.name = "added", .slot = {SlotKind::shared, buffer}, .element = kFours});
  kernel.snippets.insert(kernel.snippets.end(), {kAdded, added.of_row ? kEightOfRow : kEightOfMemory});
  return text;
}

void Emitter::emit_inner_before(Kernel kernel, const AddedAdapters& added) {
  kernel.name = "adapter_inner";
  std::erase_if(kernel.bindings, [](const Binding& one) { return one.slot.kind == SlotKind::weight; });
  std::string text = use_inner(kernel, added, true);
  std::string all;
  uint32_t end = 0;
  size_t i = 0;
  for (size_t s = 0; s < added.sets.size(); ++s) {
    const uint32_t first = end;
    std::string products;
    for (const Linear* op : added.sets[s]) {
      const size_t at_i = i++;
      if (!op->adapter) continue;
      products += fill(kInnerProduct, {{"i", cat(at_i)}, {"s", cat(s)}, {"first", cat(end)}});
      end += fours_of(program_.weights[op->adapter.a].shape);
    }
    if (end > first)
      all += fill(kInnerSet, {{"s", cat(s)}, {"first", cat(first)}, {"end", cat(end)}, {"products", products}});
  }
  kernel.constants.push_back({"GROUPS_OF_ROW", end});
  kernel.snippets.push_back("fn is_computed_before() -> bool { return false; }\n" + text);
  kernel.body = fill(kInnerMain, {{"make_row", added.of_row ? "  make_row(r, thread, false);\n" : ""}, {"sets", all}});
  kernel.grid = {.times = end, .least_count = added.few_rows + 1};
  add(kernel);
}

void Emitter::use_added(Kernel& kernel, const AddedAdapters& added) const {
  std::string text = use_inner(kernel, added, false);
  size_t i = 0;
  for (size_t s = 0; s < added.sets.size(); ++s) {
    const uint32_t all = all_fours(added.sets[s]);
    std::string calls, parameters, loads;
    uint32_t end = 0;
    for (const Linear* op : added.sets[s]) {
      const size_t at_i = i++;
      if (!op->adapter) continue;
      const AdapterOperand& adapter = op->adapter;
      const WeightShape &a = program_.weights[adapter.a].shape, &b = program_.weights[adapter.b].shape;
      const uint32_t first = end;
      end += fours_of(a);
      kernel.constants.insert(
          kernel.constants.end(),
          {{cat("FIRST_FOUR_", at_i), first}, {cat("EIGHTS_", at_i), eights_of(a)}, {cat("B_ROWS_", at_i), b.rows}});
      kernel.params.push_back({cat("b_", at_i), static_cast<uint32_t>(layout_.shared(adapter.b).word)});
      const Format format = layout_.matrix(adapter.b).format;
      text += weight_snippet(format, b.columns, cat("b", at_i), Rows::anywhere, "added") +
              eight_snippet(format, cat("b", at_i)) + fill(kOuter, {{"i", cat(at_i)}, {"s", cat(s)}}) +
              outer_text(*op, at_i, added.shape);
      parameters += cat(", adapter_", at_i, ": RowAdapter");
      loads += fill(kLoad, {{"i", cat(at_i)}});
      calls += cat(calls.empty() ? "  if" : " else if", " (four < ", end, "u) { own = inner_of_", at_i, "(adapter_",
                   at_i, ", row, (four - ", first, "u) * 4u, lane); }");
    }
    if (all == 0) continue;
    kernel.constants.push_back({cat("ALL_FOURS_", s), all});
    // Where every step has its sums computed before, the kernel has no text that computes them.
    text += fill(
        kInner,
        {{"s", cat(s)}, {"parameters", parameters}, {"loads", loads}, {"calls", added.few_rows == 0 ? "" : calls}});
  }
  const std::string before = added.few_rows == 0 ? "true" : cat("rows() > ", added.few_rows, "u");
  kernel.snippets.push_back(cat("fn is_computed_before() -> bool { return ", before, "; }\n", text));
}

// The functions that add to the outputs of the i-th product.
std::string Emitter::outer_text(const Linear& op, size_t i, const ProductShape& shape) const {
  const bool staged = staged_b_bytes(op, shape) > 0;
  const auto b = [&](int j) {
    return staged ? cat("staged_b_eight_", i, "(thread, ", j, "u, e)")
                  : cat("b_eight_", i, "(adapter, output + ", j, "u, e)");
  };
  return (staged ? fill(kStagedB, {{"i", cat(i)}}) : "") +
         fill(kAddedSum, {{"i", cat(i)}, {"b0", b(0)}, {"b1", b(1)}, {"b2", b(2)}, {"b3", b(3)}});
}

Emitter::AdaptedText Emitter::adapted_text(const AddedAdapters& added, size_t s, size_t first_product,
                                           std::string_view first_output) const {
  AdaptedText text;
  std::string arguments, rows, stages;
  for (size_t k = 0; k < added.sets[s].size(); ++k) {
    const Linear& op = *added.sets[s][k];
    const size_t i = first_product + k;
    std::string sums = cat("four_sums(thread, 0u, ", k, "u)");
    if (op.adapter) {
      text.before += cat("    let adapter_", i, " = row_adapter_", i, "(r);\n");
      if (staged_b_bytes(op, added.shape) > 0) {
        rows += cat("        let b_", i, " = b_items_", i, "(adapter_", i, ", ", first_output,
                    " + first_stored(block, 0u), thread);\n");
        stages += cat("        stage_b_", i, "(b_", i, ", thread);\n");
      }
      arguments += cat(", adapter_", i);
      sums = cat("adapted_", i, "(adapter_", i, ", thread, ", first_output, " + stored, ", sums, ")");
    }
    text.sums.push_back(std::move(sums));
  }
  if (arguments.empty()) return text;
  // The threads that store may still read what the row before has left; make_row() has barriers.
  const std::string own = cat("inner_", s, "_own");
  text.between = {.before = cat(added.of_row ? "" : "    workgroupBarrier();\n", "    var ", own, " = vec4f();\n"),
                  .behind_loads = cat("      if (batch == 0u) {\n", rows, "        ", own, " = inner_", s, "(r, thread",
                                      arguments, ");\n", stages, "      }\n"),
                  .at_end = cat("    keep_inner_", s, "(", own, ", thread);\n")};
  return text;
}

}  // namespace sluice::webgpu
