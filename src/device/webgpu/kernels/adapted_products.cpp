// The adapters of products in decode steps, added by the products' own kernels. Those that another kernel adds are in
// deferred_adapters.cpp.
//
// Every workgroup computes a x of its row again where that reads little and the step has few rows. Otherwise a dispatch
// before the product computes it once (docs/experiments.md). Both have the same text: a thread takes four ranks and
// some of the columns; the threads' sums are added as a tree in each subgroup, then subgroup by subgroup. Where the
// dispatch serves all steps, several workgroups share the columns of four ranks, and the product's kernel adds up their
// parts. Every product and sum is an explicit fma or an addition, so the order of a row's sums depends on nothing but
// the shapes.
//
// A decode step mostly waits for memory. So the first factors are loaded right behind the weights' first units, and
// where there is room for one adapter only, before it is known whether the row has it. The sums of a x are stored
// before the barrier that the product's own sums need anyway. Before it each thread also loads the row of b of one
// output; behind it, it computes b (a x) of that output, and the threads that store outputs add it.
#include <algorithm>
#include <bit>

#include "base/text.h"
#include "device/webgpu/emitter.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kMostAgain = 65536;   // elements of the first factors that every workgroup may read
constexpr uint32_t kMostHeldEights = 4;  // of a row of the second factors
constexpr uint32_t kMostParts = 8;       // of the columns, each a workgroup's

constexpr const char* kAdded = R"(
var<workgroup> inner_sums: array<vec4f, INNER_SUMS>;
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
fn row_adapter_${i}(row: u32) -> RowAdapter { return row_adapter(p.slots_${i}, p.scales_${i}, row); }
${first_matrix}
fn inner_of_${i}(adapter: RowAdapter, row: u32, rank: u32, lane: u32, part: u32) -> vec4f {
  const kEights = COLUMNS / 8u;
  var own = vec4f();
  ${skip}
  a${i}_begin_at(p.a_${i});
  let first = first_matrix_${i}(adapter) * RANK_${i};
  let r0 = first + rank;
  let r1 = first + min(rank + 1u, RANK_${i} - 1u);
  let r2 = first + min(rank + 2u, RANK_${i} - 1u);
  let r3 = first + min(rank + 3u, RANK_${i} - 1u);
  for (var k = part * PART_ROUNDS_${s}; k < (part + 1u) * PART_ROUNDS_${s}; k++) {
    let i = lane + k * INNER_LANES_${s};
    let at = min(i, kEights - 1u);
    let w0 = a${i}_eight(r0, at);
    let w1 = a${i}_eight(r1, at);
    let w2 = a${i}_eight(r2, at);
    let w3 = a${i}_eight(r3, at);
    let x = x_eight(row, at);
    if (i < kEights) {
      own = vec4f(product_8(x, w0, own.x), product_8(x, w1, own.y), product_8(x, w2, own.z), product_8(x, w3, own.w));
    }
  }
  let ranks = vec4u(rank, rank + 1u, rank + 2u, rank + 3u);
  return select(vec4f(), own, (ranks < vec4u(RANK_${i})) & vec4<bool>(has_adapter(adapter)));
}
)";

// The matrix whose factors are loaded. With room for one adapter they need not wait for the row's slot.
constexpr const char* kOneMatrix = R"(
fn first_matrix_${i}(adapter: RowAdapter) -> u32 { return 0u; })";
constexpr const char* kRowMatrix = R"(
fn first_matrix_${i}(adapter: RowAdapter) -> u32 { return max(adapter.slot, 1u) - 1u; })";

// Of a kernel of products, for row `row`.
constexpr const char* kOuter = R"(
fn inner_four_${i}(four: u32) -> vec4f {
  if (four >= FOURS_${i}) { return vec4f(); }
  return kept_sum_${s}(FIRST_FOUR_${i} + four);
}
fn b_eight_${i}(adapter: RowAdapter, output: u32, i: u32) -> mat2x4f {
  b${i}_begin_at(p.b_${i});
  return b${i}_eight(first_matrix_${i}(adapter) * B_ROWS_${i} + min(output, B_ROWS_${i} - 1u), i);
}
)";

// kept_sum_${s}: a x of four ranks, behind keep_inner_${s}() and a barrier.
constexpr const char* kKept = R"(
fn kept_sum_${s}(four: u32) -> vec4f {
  var sum = inner_sums[four * INNER_KEPT_${s}];
  // Two loops, because a compiler unrolls those of constant length.
  if (is_computed_before()) {
    for (var part = 1u; part < INNER_PARTS_${s}; part++) { sum += inner_sums[four * INNER_KEPT_${s} + part]; }
  } else {
    for (var part = 1u; part < INNER_KEPT_${s}; part++) { sum += inner_sums[four * INNER_KEPT_${s} + part]; }
  }
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
    if (thread < ALL_FOURS_${s} * INNER_PARTS_${s}) {
      inner_sums[thread / INNER_PARTS_${s} * INNER_KEPT_${s} + thread % INNER_PARTS_${s}] = own;
    }
  } else {
    keep_parts_${s}(own, thread / INNER_LANES_${s} < ALL_FOURS_${s}, thread);
  }
}
)";
constexpr const char* kLoad = R"(
    if (thread >= FIRST_FOUR_${i} * INNER_PARTS_${s} && thread < (FIRST_FOUR_${i} + FOURS_${i}) * INNER_PARTS_${s}) {
      own = load4(p.inner_${i} + ((row * FOURS_${i} - FIRST_FOUR_${i}) * INNER_PARTS_${s} + thread) * 4u);
    }
)";

// The workgroups of a row's sums, in the dispatch before a product or in a dispatch of their product: each takes four
// ranks of all products' and a part of the columns.
constexpr const char* kInnerGroups = R"(
fn is_computed_before() -> bool { return false; }
fn inner_group(group_of_row: u32, r: u32, thread: u32) {${sets}}
)";
constexpr const char* kInnerMain = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let r = i / GROUPS_OF_ROW;
  if (r >= rows()) { return; }
${make_row}  inner_group(i % GROUPS_OF_ROW, r, thread);
}
)";
constexpr const char* kInnerSet = R"(
  if (group_of_row >= ${first}u && group_of_row < ${end}u) {
    let part = (group_of_row - ${first}u) % INNER_PARTS_${s};
    let four = (group_of_row - ${first}u) / INNER_PARTS_${s};
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
      at = p.inner_${i} + ((r * FOURS_${i} + four - ${first}u) * INNER_PARTS_${s} + part) * 4u;
      if (thread < INNER_LANES_${s}) {
        own = inner_of_${i}(row_adapter_${i}(r), r, (four - ${first}u) * 4u, thread, part);
      }
    }
)";

// The outputs of a workgroup have a thread each, from FIRST_OUTER_${i} on. A thread holds its output's row of b, or
// loads it when it is needed.
constexpr const char* kHoldB = R"(
    if (thread - FIRST_OUTER_${i} < OF_GROUP) {
      let output = ${first} + thread - FIRST_OUTER_${i};
${loads}    }
)";
constexpr const char* kSumsOfMemory = R"(
  for (var e = 0u; e < EIGHTS_${i}; e++) {
    let x = mat2x4f(inner_four_${i}(e * 2u), inner_four_${i}(e * 2u + 1u));
    sum = product_8(x, b_eight_${i}(adapter, first + output, e), sum);
  }
)";
constexpr const char* kOuterSum = R"(
fn keep_outer_${i}(adapter: RowAdapter, ${parameters}, thread: u32) {
  let output = thread - FIRST_OUTER_${i};
  if (output >= OF_GROUP || !has_adapter(adapter)) { return; }
  var sum = 0.0;
${sums}  outer_sums[OUTER_${i} + output] = sum;
}
fn adapted_${i}(adapter: RowAdapter, thread: u32, plain: vec4f) -> vec4f {
  if (!has_adapter(adapter)) { return plain; }
  let at = OUTER_${i} + thread * 4u;
  let sums = vec4f(outer_sums[at], outer_sums[at + 1u], outer_sums[at + 2u], outer_sums[at + 3u]);
  return fma(vec4f(adapter.scale), sums, plain);
}
)";

// A row that has no adapter needs no factors. With room for one adapter they are loaded all the same.
std::string skip_text(const WeightShape& factor) {
  return factor.experts == 1 ? "" : "if (!has_adapter(adapter)) { return own; }";
}

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

bool Emitter::adds_adapters(const AddedSets& sets, const Kernel& kernel, const ProductShape& shape, bool of_row,
                            bool defers) const {
  if (!is_in_fours(kernel)) return false;
  uint32_t buffer = kNone, most_fours = 0, columns = 0;
  size_t products = 0, at_once = 0;
  uint64_t bytes = shape.staged_bytes();
  for (const std::span<const Linear* const> set : sets) {
    most_fours = std::max(most_fours, all_fours(set));
    products += set.size();
    at_once = std::max(at_once, set.size());
    for (const Linear* op : set) {
      columns = program_.weights[op->weight].shape.columns;
      if (!op->adapter) continue;
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
  if (!defers) bytes += uint64_t{16} * shape.threads() + uint64_t{4} * at_once * shape.outputs();
  if (of_row) bytes += uint64_t{4} * columns;
  return bytes + kOtherWorkgroupBytes <= adapter_.workgroup_bytes;
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
    }
    read = std::max(read, of_set * program_.weights[set.front()->weight].shape.columns);
  }
  added.few_rows = read <= kMostAgain && outputs <= kFusionLimits.outputs_of_rows ? kFewRows : 0;
  for (const std::span<const Linear* const> set : sets) {
    const uint32_t columns = program_.weights[set.front()->weight].shape.columns, all = all_fours(set);
    uint32_t parts = 1;
    // A thread of the product's kernel takes one part of four ranks.
    if (added.few_rows == 0 && all > 0)
      parts = std::clamp<uint32_t>(divide_up(columns / 8, inner_lanes(kernel.threads, 1, columns)), 1,
                                   std::min(kMostParts, kernel.threads / all));
    added.parts.push_back(parts);
    for (const Linear* op : set) added.inner.push_back(adapted(op->adapter, most_rows(kernel.extent), parts).inner);
  }
  return added;
}

void Emitter::use_added_buffer(Kernel& kernel, uint32_t buffer) {
  const Binding binding{.name = "added", .slot = {SlotKind::shared, buffer}, .element = kFours};
  const auto found = std::ranges::find(kernel.bindings, binding.name, &Binding::name);
  if (found == kernel.bindings.end())
    kernel.bindings.push_back(binding);
  else
    CHECK(found->slot == binding.slot);
}

// What both kernels have: a x of four ranks.
std::string Emitter::use_inner(Kernel& kernel, const AddedAdapters& added, bool is_before) const {
  use_subgroups(kernel, adapter_);
  use_row_adapters(kernel);
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
    const uint32_t kept = added.few_rows == 0 && !is_before ? added.parts[s] : lanes / together;
    const uint32_t rounds = divide_up(columns / 8, lanes * added.parts[s]);  // of a part
    inner_sums = std::max(inner_sums, (is_before ? 1 : all) * kept);
    kernel.constants.insert(kernel.constants.end(), {{cat("INNER_LANES_", s), lanes},
                                                     {cat("INNER_TOGETHER_", s), together},
                                                     {cat("INNER_KEPT_", s), kept},
                                                     {cat("INNER_PARTS_", s), added.parts[s]},
                                                     {cat("PART_ROUNDS_", s), rounds}});
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
              eight_snippet(format, cat("a", at_i)) +
              fill(kAdapter, {{"i", cat(at_i)},
                              {"s", cat(s)},
                              {"first_matrix", fill(a.experts == 1 ? kOneMatrix : kRowMatrix, {{"i", cat(at_i)}})},
                              {"skip", skip_text(a)}});
    }
  }
  kernel.constants.push_back({"INNER_SUMS", inner_sums});
  use_added_buffer(kernel, buffer);
  use_snippet(kernel, kProduct8);
  kernel.snippets.insert(kernel.snippets.end(), {kAdded, added.of_row ? kEightOfRow : kEightOfMemory});
  return text;
}

uint32_t Emitter::use_inner_groups(Kernel& kernel, const AddedAdapters& added) const {
  kernel.snippets.push_back(use_inner(kernel, added, true));
  std::string all;
  uint32_t end = 0;
  size_t i = 0;
  for (size_t s = 0; s < added.sets.size(); ++s) {
    const uint32_t first = end;
    uint32_t fours = 0;
    std::string products;
    for (const Linear* op : added.sets[s]) {
      const size_t at_i = i++;
      if (!op->adapter) continue;
      products += fill(kInnerProduct, {{"i", cat(at_i)}, {"s", cat(s)}, {"first", cat(fours)}});
      fours += fours_of(program_.weights[op->adapter.a].shape);
    }
    end += fours * added.parts[s];
    if (end > first)
      all += fill(kInnerSet, {{"s", cat(s)}, {"first", cat(first)}, {"end", cat(end)}, {"products", products}});
  }
  kernel.snippets.push_back(fill(kInnerGroups, {{"sets", all}}));
  return end;
}

void Emitter::emit_inner_before(Kernel kernel, const AddedAdapters& added) {
  kernel.name = "adapter_inner";
  std::erase_if(kernel.bindings, [](const Binding& one) { return one.slot.kind == SlotKind::weight; });
  const uint32_t groups = use_inner_groups(kernel, added);
  kernel.constants.push_back({"GROUPS_OF_ROW", groups});
  kernel.body =
      fill(kInnerMain, {{"make_row", added.of_row ? "  make_row(r, thread, false, i % GROUPS_OF_ROW);\n" : ""}});
  kernel.grid = {.times = groups, .least_count = added.few_rows + 1};
  add(kernel);
}

void Emitter::use_added(Kernel& kernel, const AddedAdapters& added) const {
  std::string text = use_inner(kernel, added, false);
  size_t i = 0;
  uint32_t outer_sums = 0;
  for (size_t s = 0; s < added.sets.size(); ++s) {
    const uint32_t all = all_fours(added.sets[s]);
    std::string calls, parameters, loads;
    uint32_t end = 0, outer = 0;
    const uint32_t outputs = added.shape.outputs(), most_outer = added.shape.threads() / outputs * outputs;
    for (const Linear* op : added.sets[s]) {
      const size_t at_i = i++;
      const uint32_t own_outer = outer;
      outer += outputs;
      if (!op->adapter) continue;
      const AdapterOperand& adapter = op->adapter;
      const WeightShape &a = program_.weights[adapter.a].shape, &b = program_.weights[adapter.b].shape;
      const uint32_t first = end;
      end += fours_of(a);
      kernel.constants.insert(kernel.constants.end(), {{cat("FIRST_FOUR_", at_i), first},
                                                       {cat("EIGHTS_", at_i), eights_of(a)},
                                                       {cat("B_ROWS_", at_i), b.rows},
                                                       {cat("OUTER_", at_i), own_outer},
                                                       {cat("FIRST_OUTER_", at_i), own_outer % most_outer}});
      kernel.params.push_back({cat("b_", at_i), static_cast<uint32_t>(layout_.shared(adapter.b).word)});
      const Format format = layout_.matrix(adapter.b).format;
      text += weight_snippet(format, b.columns, cat("b", at_i), Rows::anywhere, "added") +
              eight_snippet(format, cat("b", at_i)) + fill(kOuter, {{"i", cat(at_i)}, {"s", cat(s)}}) +
              outer_text(*op, at_i);
      parameters += cat(", adapter_", at_i, ": RowAdapter");
      loads += fill(kLoad, {{"i", cat(at_i)}, {"s", cat(s)}});
      calls += cat(calls.empty() ? "  if" : " else if", " (four < ", end, "u) { own = inner_of_", at_i, "(adapter_",
                   at_i, ", row, (four - ", first, "u) * 4u, lane, 0u); }");
    }
    outer_sums = std::max(outer_sums, outer);
    if (all == 0) continue;
    kernel.constants.push_back({cat("ALL_FOURS_", s), all});
    // Where every step has its sums computed before, the kernel has no text that computes them.
    text += fill(
        kInner,
        {{"s", cat(s)}, {"parameters", parameters}, {"loads", loads}, {"calls", added.few_rows == 0 ? "" : calls}});
  }
  kernel.constants.push_back({"OUTER_SUMS", outer_sums});
  const std::string before = added.few_rows == 0 ? "true" : cat("rows() > ", added.few_rows, "u");
  kernel.snippets.push_back(cat("fn is_computed_before() -> bool { return ", before,
                                "; }\nvar<workgroup> outer_sums: array<f32, OUTER_SUMS>;\n", text));
}

bool Emitter::holds_b(const Linear& op) const {
  return eights_of(program_.weights[op.adapter.a].shape) <= kMostHeldEights;
}

// The functions that add to the outputs of the i-th product.
std::string Emitter::outer_text(const Linear& op, size_t i) const {
  std::string parameters, sums;
  if (holds_b(op)) {
    for (uint32_t e = 0; e < eights_of(program_.weights[op.adapter.a].shape); ++e) {
      parameters += cat(e == 0 ? "b" : ", b", e, ": mat2x4f");
      sums += cat("  sum = product_8(mat2x4f(inner_four_", i, "(", 2 * e, "u), inner_four_", i, "(", 2 * e + 1,
                  "u)), b", e, ", sum);\n");
    }
  } else {
    parameters = "first: u32";
    sums = fill(kSumsOfMemory, {{"i", cat(i)}});
  }
  return fill(kOuterSum, {{"i", cat(i)}, {"parameters", parameters}, {"sums", sums}});
}

Emitter::AdaptedText Emitter::adapted_text(const AddedAdapters& added, size_t s, size_t first_product,
                                           std::string_view first_output) const {
  AdaptedText text;
  std::string arguments, before, last, outer;
  for (size_t k = 0; k < added.sets[s].size(); ++k) {
    const Linear& op = *added.sets[s][k];
    const size_t i = first_product + k;
    std::string sums = cat("four_sums(thread, 0u, ", k, "u)");
    if (op.adapter) {
      const std::string adapter = cat("adapter_", i), first = cat(first_output, " + first_stored(block, 0u)");
      text.before += cat("    let ", adapter, " = row_adapter_", i, "(r);\n");
      std::string b = first, loads;
      if (holds_b(op)) {
        b.clear();
        for (uint32_t e = 0; e < eights_of(program_.weights[op.adapter.a].shape); ++e) {
          const std::string own = cat("b_", i, "_", e);
          before += cat("    var ", own, " = mat2x4f();\n");
          loads += cat("      ", own, " = b_eight_", i, "(", adapter, ", output, ", e, "u);\n");
          b += cat(b.empty() ? "" : ", ", own);
        }
        last += fill(kHoldB, {{"i", cat(i)}, {"first", first}, {"loads", loads}});
      }
      outer += cat("\n    keep_outer_", i, "(", adapter, ", ", b, ", thread);");
      arguments += cat(", ", adapter);
      sums = cat("adapted_", i, "(", adapter, ", thread, ", sums, ")");
    }
    text.sums.push_back(std::move(sums));
  }
  if (arguments.empty()) return text;
  const std::string own = cat("inner_", s, "_own");
  text.between = {.before = cat(before, "    var ", own, " = vec4f();\n"),
                  .behind_loads = cat("      if (batch == 0u) {\n        ", own, " = inner_", s, "(r, thread",
                                      arguments, ");\n      }\n"),
                  .at_end = cat(last, "    keep_inner_", s, "(", own, ", thread);\n"),
                  .behind_sums = outer + "\n    workgroupBarrier();"};
  return text;
}

}  // namespace sluice::webgpu
