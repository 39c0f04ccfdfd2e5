// The adapters of products by matrix units, as further columns of these products.
//
// The dispatch that writes a row as halves also computes a x of every adapter of the products that follow, and leaves
// scale a x behind the row's columns. The tiles then multiply these columns by the rows of b, which follow those of the
// weight. So an adapter takes no dispatch, and its sums no pass through memory.
//
// A tile goes through the slots of the step's rows one by one.
#include <algorithm>
#include <bit>

#include "base/text.h"
#include "device/webgpu/emitter.h"
#include "device/webgpu/formats/weight_format.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kThreadsOfRows = 256;
constexpr uint32_t kSharingRows = 2;  // of a workgroup, which share what they load of a
constexpr uint32_t kRanks = 4;        // of a thread
// Columns that a workgroup keeps of each row in its memory, at most.
constexpr uint32_t kMostAddedColumns = 768;

// A workgroup: some rows. First its threads compute a x: a thread takes four ranks and some columns of all its rows,
// and the threads' sums are added as a tree. Then each row has a share of the threads, which write it.
constexpr const char* kAdaptedRows = R"(
const GROUPS = THREADS / LANES;
const PARTIALS = THREADS / TOGETHER;
const ROW_THREADS = THREADS / ROWS;
alias Sums = array<vec4f, ROWS>;
var<workgroup> thread_sums: array<vec4f, ROWS * PARTIALS>;
var<workgroup> added: array<f32, ROWS * ADDED>;
var<workgroup> largest: array<atomic<u32>, ROWS>;

fn x_four(row: u32, column: u32) -> vec4f { return four_of(p.x + row * COLUMNS, column, COLUMNS); }
fn four_of_row(row: u32, of_group: u32, column: u32) -> vec4f {
  if (column < ADDED_BEGIN) { return x_four(row, column); }
  let at = of_group * ADDED + column - ADDED_BEGIN;
  return vec4f(added[at], added[at + 1u], added[at + 2u], added[at + 3u]);
}
)";

// ${i}: which of the products. The loops have a constant length, so that a driver loads ahead.
constexpr const char* kInnerOfRows = R"(
fn row_adapter_${i}(row: u32) -> RowAdapter { return row_adapter(p.slots_${i}, p.scales_${i}, row); }
fn ranks_${i}(slot: u32, first: u32, rows: u32, rank: u32, lane: u32) -> Sums {
  const kEights = (COLUMNS + 7u) / 8u;
  var own = Sums();
  let begin = (slot - 1u) * RANK_${i};
  let r0 = begin + rank;
  let r1 = begin + min(rank + 1u, RANK_${i} - 1u);
  let r2 = begin + min(rank + 2u, RANK_${i} - 1u);
  let r3 = begin + min(rank + 3u, RANK_${i} - 1u);
  for (var k = 0u; k < (kEights + LANES - 1u) / LANES; k++) {
    let i = lane + k * LANES;
    let at = min(i, kEights - 1u);
    let w0 = a${i}_eight(r0, at);
    let w1 = a${i}_eight(r1, at);
    let w2 = a${i}_eight(r2, at);
    let w3 = a${i}_eight(r3, at);
    for (var j = 0u; j < ROWS; j++) {
      let row = first + min(j, rows - 1u);
      let x = mat2x4f(x_four(row, at * 8u), x_four(row, at * 8u + 4u));
      let before = own[j];
      let sums = vec4f(product_8(x, w0, before.x), product_8(x, w1, before.y), product_8(x, w2, before.z),
                       product_8(x, w3, before.w));
      own[j] = select(before, sums, i < kEights);
    }
  }
  return own;
}
fn inner_${i}(first: u32, rows: u32, rank: u32, lane: u32) -> Sums {
  if (counts.slot_count == 0u) { return Sums(); }
  if (counts.slot_count == 1u) { return ranks_${i}(step_slot(0u), first, rows, rank, lane); }
  var own = Sums();
  for (var j = 0u; j < ROWS; j++) {
    let row = first + min(j, rows - 1u);
    own[j] = ranks_${i}(max(row_adapter_${i}(row).slot, 1u), row, 1u, rank, lane)[0];
  }
  return own;
}
// The number that follows the row's columns. A row without an adapter gets 0: its sum may come from the factors of
// another row's adapter.
fn scaled_${i}(row: u32, rank: u32, sum: f32) -> f32 {
  let adapter = row_adapter_${i}(row);
  if (rank >= RANK_${i} || !has_adapter(adapter)) { return 0.0; }
  return sum * adapter.scale / FACTOR_SCALE_${i};
}
)";
constexpr const char* kAdaptedRowsMain = R"(
fn keep_inner(first: u32, rows: u32, thread: u32) {
  for (var begin = 0u; begin < ALL_FOURS; begin += GROUPS) {
    let four = begin + thread / LANES;
    let lane = thread % LANES;
    var own = Sums();
${calls}
    for (var j = 0u; j < ROWS; j++) {
      var sum = own[j];
${together}      if (thread % TOGETHER == 0u) { thread_sums[j * PARTIALS + thread / TOGETHER] = sum; }
    }
    workgroupBarrier();
    for (var n = thread; n < rows * GROUPS * 4u; n += THREADS) {
      let j = n / (GROUPS * 4u);
      let group = n / 4u % GROUPS;
      let own_sums = j * PARTIALS + group * (PARTIALS / GROUPS);
      var sum = thread_sums[own_sums][n % 4u];
      for (var k = 1u; k < PARTIALS / GROUPS; k++) { sum += thread_sums[own_sums + k][n % 4u]; }
      let of_four = begin + group;
      let to = j * ADDED;
${stores}
    }
    workgroupBarrier();
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let first = group_index(group, groups) * ROWS;
  if (first >= rows()) { return; }
  let count = min(ROWS, rows() - first);
  keep_inner(first, count, thread);
  let own = thread / ROW_THREADS;
  let row = first + own;
  var bits = 0u;
  if (own < count) {
    for (var i = thread % ROW_THREADS; i < ROW_WORDS / 2u; i += ROW_THREADS) {
      let four_bits = bitcast<vec4u>(abs(four_of_row(row, own, i * 4u)));
      let largest_two = max(four_bits.xy, four_bits.zw);
      bits = max(bits, max(largest_two.x, largest_two.y));
    }
    atomicMax(&largest[own], min(bits, 0x7f800000u));
  }
  workgroupBarrier();
  if (own >= count) { return; }
  let power = power_for(bitcast<f32>(atomicLoad(&largest[own])));
  let inverse = inverse_of(power);
  let to = p.to + row * BLOCK_WORDS;
  for (var i = thread % ROW_THREADS; i < ROW_WORDS / 4u; i += ROW_THREADS) {
    put_four(to + i / 4u * p.block + i % 4u * 4u,
             eight_halves(four_of_row(row, own, i * 8u) * inverse, four_of_row(row, own, i * 8u + 4u) * inverse));
  }
  if (thread % ROW_THREADS == 0u) {
    put_four(p.powers + row * POWER_WORDS, vec4u(bitcast<u32>(power), 0u, 0u, 0u));
  }
}
)";
constexpr const char* kTogether = R"(
      for (var step = TOGETHER / 2u; step > 0u; step = step / 2u) { sum += subgroupShuffleXor(sum, step); }
)";

// Of a tile: its steps behind the weight's (matrix_tiles.h).
constexpr const char* kMoreOfTile = R"(
fn more_steps() -> u32 { return counts.slot_count * RANK_STEPS; }
fn more_x(step: u32, row: u32, i: u32) -> vec4u {
  let x = four(x_of_row(row) + (p.added + step % RANK_STEPS) * x_block() + i * 4u);
  return select(vec4u(), x, has_slot(p.slots, row, step_slot(step / RANK_STEPS)));
}
fn more_w(step: u32, output: u32, i: u32) -> vec4u {
  let eight = step % RANK_STEPS * 4u + i;
  if (eight >= (RANK + 7u) / 8u) { return vec4u(); }
  let b = b_eight((step_slot(step / RANK_STEPS) - 1u) * B_ROWS + p.first_output + output, eight);
  return eight_halves(b[0] * FACTOR_SCALE, b[1] * FACTOR_SCALE);
}
)";

// Elements of b are often small, and f16 has fewer digits below 2^-14. So b in bf16 or f32 is multiplied by 64 before
// it becomes f16, and scale a x is divided by 64. b in f16 is taken as it is.
float factor_scale(Format b) { return b == Format::f16 ? 1.0f : 64.0f; }

uint32_t rank_steps(uint32_t rank) { return static_cast<uint32_t>(divide_up(rank, kMatrixColumns)); }

}  // namespace

bool Emitter::may_join_adapter(const Linear& op) const {
  if (!op.adapter || part_of_sum(type(op.x).extent, columns(op.out), columns(op.x)) > 0) return false;
  return std::ranges::all_of(std::array{op.adapter.a, op.adapter.b}, [&](WeightId id) {
    return layout_.matrix(id).tiles.size() == 1 && weight_format(layout_.matrix(id).format)->eight != nullptr;
  });
}

std::vector<Emitter::JoinedAdapter> Emitter::joined_adapters(ValueId x) const {
  std::vector<JoinedAdapter> joined;
  uint32_t blocks = 0;
  for (uint32_t op = op_; op < program_.ops.size(); ++op) {
    const auto* linear = std::get_if<Linear>(&program_.ops[op]);
    if (linear == nullptr || linear->x != x || !is_by_matrices(*linear)) break;
    if (!may_join_adapter(*linear)) continue;
    const uint32_t own = rank_steps(program_.weights[linear->adapter.a].shape.rows);
    if (joined.size() + 1 == kStorageBuffers || (blocks + own) * kMatrixColumns > kMostAddedColumns) continue;
    joined.push_back({.op = op, .first_block = half_words(columns(x)) / kBlockWords + blocks});
    blocks += own;
  }
  return joined;
}

uint32_t Emitter::added_words(std::span<const JoinedAdapter> joined) const {
  uint32_t words = 0;
  for (const JoinedAdapter& one : joined)
    words += half_words(program_.weights[std::get<Linear>(program_.ops[one.op]).adapter.a].shape.rows);
  return words;
}

void Emitter::emit_adapted_halves(const Halves& of, std::span<const JoinedAdapter> joined) {
  Kernel kernel{.name = "adapted_rows_as_halves", .extent = of.extent, .threads = kThreadsOfRows};
  kernel.params = {{"x", of.x}, {"to", of.to.first}, {"powers", of.to.power}, {"block", of.to.block}};
  kernel.bindings = {memory()};
  if ((of.columns | of.x) % 4 == 0) kernel.bindings.front().element = kFours;
  use_subgroups(kernel, adapter_);
  use_row_adapters(kernel);
  kernel.snippets.insert(kernel.snippets.end(), {kAsHalves, kFourOf, kProduct8, kAdaptedRows});
  const uint32_t added = added_words(joined) * 2, begin_added = half_words(of.columns) * 2;
  uint32_t fours = 0;
  std::string calls, stores;
  for (size_t i = 0; i < joined.size(); ++i) {
    const AdapterOperand& adapter = std::get<Linear>(program_.ops[joined[i].op]).adapter;
    const uint32_t rank = program_.weights[adapter.a].shape.rows, first = fours;
    fours += static_cast<uint32_t>(divide_up(rank, kRanks));
    kernel.constants.insert(
        kernel.constants.end(),
        {{cat("RANK_", i), rank}, {cat("FACTOR_SCALE_", i), factor_scale(layout_.matrix(adapter.b).format)}});
    kernel.params.insert(kernel.params.end(),
                         {{cat("slots_", i), at(adapter.slots)}, {cat("scales_", i), at(adapter.scales)}});
    const std::string a = cat("a", i);
    kernel.bindings.push_back(weight(a, adapter.a, 0));
    kernel.snippets.insert(kernel.snippets.end(),
                           {decoder(adapter.a, a), eight_snippet(layout_.matrix(adapter.a).format, a),
                            fill(kInnerOfRows, {{"i", cat(i)}})});
    const char* const begin = i == 0 ? "if" : "else if";
    calls += cat("    ", begin, " (four < ", fours, "u) { own = inner_", i, "(first, rows, (four - ", first,
                 "u) * 4u, lane); }\n");
    const std::string rank_text = cat("(of_four - ", first, "u) * 4u + n % 4u");
    stores += cat("      ", begin, " (of_four < ", fours, "u) {\n        let rank = ", rank_text,
                  ";\n        added[to + ", joined[i].first_block * kMatrixColumns - begin_added, "u + rank] = scaled_",
                  i, "(first + j, rank, sum);\n      }\n");
  }
  const uint32_t lanes =
      std::min(std::bit_floor(kernel.threads / std::min(fours, kernel.threads)), std::bit_ceil((of.columns + 7) / 8));
  const uint32_t together = kernel.subgroups ? std::min(lanes, subgroup_lanes(adapter_)) : 1;
  kernel.constants.insert(kernel.constants.end(), {{"COLUMNS", of.columns},
                                                   {"ROWS", kSharingRows},
                                                   {"ROW_WORDS", (begin_added + added) / 2},
                                                   {"ADDED_BEGIN", begin_added},
                                                   {"ADDED", added},
                                                   {"ALL_FOURS", fours},
                                                   {"LANES", lanes},
                                                   {"TOGETHER", together},
                                                   {"BLOCK_WORDS", kBlockWords},
                                                   {"POWER_WORDS", kPowerWords}});
  kernel.body =
      fill(kAdaptedRowsMain, {{"calls", calls}, {"stores", stores}, {"together", together > 1 ? kTogether : ""}});
  kernel.grid = {.per = kSharingRows};
  add(kernel);
}

void Emitter::use_joined_adapter(Kernel& kernel, const AdapterOperand& adapter, uint32_t first_block) const {
  const WeightShape &a = program_.weights[adapter.a].shape, &b = program_.weights[adapter.b].shape;
  const Format format = layout_.matrix(adapter.b).format;
  kernel.constants.insert(kernel.constants.end(), {{"RANK", a.rows},
                                                   {"RANK_STEPS", rank_steps(a.rows)},
                                                   {"B_ROWS", b.rows},
                                                   {"FACTOR_SCALE", factor_scale(format)}});
  kernel.params.insert(kernel.params.end(), {{"added", first_block}, {"slots", at(adapter.slots)}});
  kernel.bindings.push_back(weight("b", adapter.b, 0));
  kernel.snippets.insert(kernel.snippets.end(),
                         {kAsHalves, decoder(adapter.b, "b"), eight_snippet(format, "b"), kMoreOfTile});
  use_row_adapters(kernel);
}

}  // namespace sluice::webgpu
