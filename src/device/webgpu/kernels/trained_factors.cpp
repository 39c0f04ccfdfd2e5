// Trained factors: their gradients are added up, the squares of these summed, and the weights changed by AdamW
// (device/trained_memory.h has the formula). A dispatch is of a run of entries (trained_layout.h), whose tables are
// bound as `tables`. A workgroup finds its entry in the table `entries`.
#include "device/webgpu/emitter.h"
#include "device/webgpu/trained_layout.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kFactorThreads = 256;

// Calls number(entry, i) for each number i of a workgroup's piece.
constexpr const char* kEachNumber = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let own = group_index(group, groups);
  if (own >= p.groups) { return; }
  let entry = entries[p.first_group + own];
  let begin = (p.first_group + own - entries[entry + FIRST_GROUP]) * NUMBERS;
  let end = min(begin + NUMBERS, entries[entry + COUNT]);
  for (var i = begin + thread; i < end; i += THREADS) { number(entry, i); }
}
)";

// ADDS: whether the tables have gradients already.
constexpr const char* kAddGradient = R"(
fn number(entry: u32, i: u32) {
  let at = entries[entry + TABLES] + i;
  var gradient = load(entries[entry + GRADIENT] + i);
  if (ADDS == 1u) { gradient += tables[at]; }
  tables[at] = gradient;
}
)";

constexpr const char* kSumSquares = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let own = group_index(group, groups);
  if (own >= p.sums) { return; }
  let sum_of = p.first_sum + own;
  let entry = entries[p.entry_of_sum + own];
  let begin = (sum_of - entries[entry + FIRST_SUM]) * NUMBERS;
  let end = min(begin + NUMBERS, entries[entry + COUNT]);
  let table = entries[entry + TABLES];
  var squares = 0.0;
  for (var i = begin + thread; i < end; i += THREADS) { squares = fma(tables[table + i], tables[table + i], squares); }
  let sum = sum_all(squares, thread);
  if (thread == 0u) { sums[sum_of] = sum; }
}
)";

constexpr const char* kUpdate = R"(
fn number(entry: u32, i: u32) {
  let words = entries[entry + TABLE_WORDS];
  let at = entries[entry + TABLES] + i;
  let gradient = adam[CLIP] * tables[at];
  let number_at = at + words;
  let mean_at = at + words * 2u;
  let mean = fma(1.0 - adam[BETA1], gradient - tables[mean_at], tables[mean_at]);
  let square_at = at + words * 3u;
  let square = fma(adam[BETA2], tables[square_at], (1.0 - adam[BETA2]) * gradient * gradient);
  let root = sqrt(square) / adam[ROOT] + adam[EPS];
  let w = fma(adam[DECAY], tables[number_at], -(adam[RATE] * mean / root));
  tables[number_at] = w;
  tables[mean_at] = mean;
  tables[square_at] = square;
  put_weight(entry, i, w);
}
)";

// A weight that has the numbers of another one.
constexpr const char* kCopyNumber = R"(
fn number(entry: u32, i: u32) {
  put_weight(entry, i, tables[entries[entry + TABLES] + entries[entry + TABLE_WORDS] + i]);
}
)";

constexpr const char* kPutWeight = R"(
fn put_weight(entry: u32, i: u32, x: f32) {
  let columns = entries[entry + COLUMNS];
  weights[entries[entry + WEIGHT] + i / columns * entries[entry + ROW_WORDS] + i % columns] = x;
}
)";

}  // namespace

// A kernel of a run's workgroups, each of which takes kTrainedGroupNumbers numbers.
Kernel Emitter::of_factors(const char* name, const TrainedLayout& trained, const TrainedRun& run, Access access) {
  const uint32_t first_group = trained.entries[run.first].first_group;
  const uint32_t groups = trained.end_group(run.end - 1) - first_group;
  const uint32_t buffer = trained.pieces[trained.entries[run.first].piece].buffer;
  Kernel kernel{.name = name, .body = kEachNumber, .extent = {.symbol = Symbol::one}, .threads = kFactorThreads};
  kernel.constants = {{"NUMBERS", kTrainedGroupNumbers}};
  for (uint32_t n = 0; n < kTrainedWordNames.size(); ++n) kernel.constants.push_back({kTrainedWordNames[n], n});
  kernel.params = {{"first_group", first_group}, {"groups", groups}};
  kernel.bindings = {memory(),
                     {.name = "tables", .slot = {SlotKind::trained, buffer}, .access = access, .element = "f32"},
                     {.name = "entries", .slot = {SlotKind::trained_table}}};
  kernel.grid = {.items = groups, .per = 1};
  return kernel;
}

// The gradients of a factor's places are added in their order.
void Emitter::emit_gradients(const TrainedLayout& trained, const TrainedRun& run, bool is_first) {
  const bool adds = !is_first || trained.entries[run.first].place > 0;
  Kernel kernel = of_factors("trained_gradients", trained, run, Access::read_write);
  kernel.snippets = {kAddGradient};
  kernel.constants.push_back({"ADDS", adds ? 1u : 0u});
  add(kernel);
}

// Of the first places' entries, which are those of all pieces.
void Emitter::emit_squares(const TrainedLayout& trained, const TrainedRun& run) {
  if (trained.entries[run.first].place > 0) return;
  const uint32_t after = trained.entries[run.end - 1].piece + 1;
  const uint32_t first_sum = trained.pieces[trained.entries[run.first].piece].first_sum;
  const uint32_t end_sum = after == trained.pieces.size() ? trained.sums : trained.pieces[after].first_sum;
  Kernel kernel = of_factors("trained_squares", trained, run, Access::read);
  kernel.body = kSumSquares;
  kernel.constants[0] = {"NUMBERS", kTrainedSumNumbers};
  kernel.params = {
      {"first_sum", first_sum}, {"sums", end_sum - first_sum}, {"entry_of_sum", trained.groups + first_sum}};
  kernel.bindings.push_back(
      {.name = "sums", .slot = {SlotKind::trained_sums}, .access = Access::read_write, .element = "f32"});
  kernel.grid = {.items = end_sum - first_sum, .per = 1};
  use_reduce(kernel, adapter_);
  add(kernel);
}

// The first place's weight gets the new numbers from what computes them, the others copies.
void Emitter::emit_update(const TrainedLayout& trained, const TrainedRun& run) {
  const TrainedEntry& entry = trained.entries[run.first];
  const bool is_first = entry.place == 0;
  const Slot weights = entry.shared == kNone ? Slot{SlotKind::weight, entry.weight, trained.pieces[entry.piece].tile}
                                             : Slot{SlotKind::shared, entry.shared};
  Kernel kernel = of_factors(is_first ? "trained_update" : "trained_copies", trained, run,
                             is_first ? Access::read_write : Access::read);
  kernel.bindings.push_back({.name = "weights", .slot = weights, .access = Access::read_write, .element = "f32"});
  kernel.snippets = {kPutWeight, is_first ? kUpdate : kCopyNumber};
  if (is_first) {
    for (uint32_t n = 0; n < kTrainedStepNames.size(); ++n) kernel.constants.push_back({kTrainedStepNames[n], n});
    kernel.bindings.push_back({.name = "adam", .slot = {SlotKind::trained_step}, .element = "f32"});
  }
  add(kernel);
}

Dispatches Emitter::emit_trained(TrainedWork work, const TrainedLayout& trained) {
  for (const TrainedRun& run : trained.runs(work == TrainedWork::update))
    if (work == TrainedWork::sum_squares)
      emit_squares(trained, run);
    else if (work == TrainedWork::update)
      emit_update(trained, run);
    else
      emit_gradients(trained, run, work == TrainedWork::first_gradients);
  return std::move(dispatches_);
}

}  // namespace sluice::webgpu
