// Trained factors: their gradients are added up, the squares of these summed, and the weights changed by AdamW
// (device/trained_memory.h has the formula). A dispatch is of one piece of a factor (trained_layout.h), whose tables
// are bound as `tables`.
#include "device/webgpu/emitter.h"
#include "device/webgpu/trained_layout.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kFactorThreads = 256, kFactorNumbers = 4 * kFactorThreads;

// Calls number(i) for each number of the piece.
constexpr const char* kEachNumber = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let begin = group_index(group, groups) * NUMBERS;
  let end = min(begin + NUMBERS, p.count);
  for (var i = begin + thread; i < end; i += THREADS) { number(i); }
}
)";

// ADDS: whether the tables have gradients already.
constexpr const char* kAddGradient = R"(
fn number(i: u32) {
  var gradient = load(p.gradient + i);
  if (ADDS == 1u) { gradient += tables[i]; }
  tables[i] = gradient;
}
)";

constexpr const char* kSumSquares = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let part = group_index(group, groups);
  let begin = part * NUMBERS;
  if (begin >= p.count) { return; }
  let end = min(begin + NUMBERS, p.count);
  var own = 0.0;
  for (var i = begin + thread; i < end; i += THREADS) { own = fma(tables[i], tables[i], own); }
  let sum = sum_all(own, thread);
  if (thread == 0u) { sums[p.first_sum + part] = sum; }
}
)";

constexpr const char* kUpdate = R"(
fn number(i: u32) {
  let gradient = adam[CLIP] * tables[i];
  let mean_at = p.table * 2u + i;
  let mean = fma(1.0 - adam[BETA1], gradient - tables[mean_at], tables[mean_at]);
  let square_at = p.table * 3u + i;
  let square = fma(adam[BETA2], tables[square_at], (1.0 - adam[BETA2]) * gradient * gradient);
  let root = sqrt(square) / adam[ROOT] + adam[EPS];
  let w = fma(adam[DECAY], tables[p.table + i], -(adam[RATE] * mean / root));
  tables[p.table + i] = w;
  tables[mean_at] = mean;
  tables[square_at] = square;
  put_weight(i, w);
}
)";

// A weight that has the numbers of another one.
constexpr const char* kCopyNumber = R"(
fn number(i: u32) { put_weight(i, tables[p.table + i]); }
)";

constexpr const char* kPutWeight = R"(
fn put_weight(i: u32, x: f32) { weights[(p.first_row + i / p.columns) * p.row_words + i % p.columns] = x; }
)";

}  // namespace

// A kernel for one piece, each of whose workgroups takes `numbers` of it.
Kernel Emitter::of_piece(const char* name, const char* body, uint32_t piece, const TrainedLayout& trained,
                         uint32_t numbers, Access access) {
  const uint64_t count = trained.pieces[piece].count;
  Kernel kernel{.name = name, .body = body, .extent = {.symbol = Symbol::one}, .threads = kFactorThreads};
  kernel.constants = {{"NUMBERS", numbers}};
  kernel.params = {{"count", static_cast<uint32_t>(count)}};
  kernel.bindings = {memory(),
                     {.name = "tables", .slot = {SlotKind::trained, piece}, .access = access, .element = "f32"}};
  kernel.grid = {.items = count, .per = numbers};
  return kernel;
}

// The gradients of a factor's places are added in their order.
void Emitter::emit_gradients(uint32_t piece, const TrainedLayout& trained, bool is_first) {
  for (const TrainedFactor::Place& place : request_.trained[trained.pieces[piece].factor].places) {
    Kernel kernel = of_piece("trained_gradients", kEachNumber, piece, trained, kFactorNumbers, Access::read_write);
    kernel.snippets = {kAddGradient};
    kernel.constants.push_back({"ADDS", is_first ? 0u : 1u});
    kernel.params.push_back({"gradient", at(place.gradient) + static_cast<uint32_t>(trained.pieces[piece].first)});
    add(kernel);
    is_first = false;
  }
}

void Emitter::emit_squares(uint32_t piece, const TrainedLayout& trained) {
  Kernel kernel = of_piece("trained_squares", kSumSquares, piece, trained, kTrainedSumNumbers, Access::read);
  kernel.params.push_back({"first_sum", trained.pieces[piece].first_sum});
  kernel.bindings.push_back(
      {.name = "sums", .slot = {SlotKind::trained_sums}, .access = Access::read_write, .element = "f32"});
  use_reduce(kernel, adapter_);
  add(kernel);
}

// The first place's weight gets the new numbers from what computes them, the others copies.
void Emitter::emit_update(uint32_t piece_index, const TrainedLayout& trained) {
  const TrainedPiece& piece = trained.pieces[piece_index];
  bool is_first = true;
  for (const TrainedFactor::Place& place : request_.trained[piece.factor].places) {
    Kernel kernel = of_piece(is_first ? "trained_update" : "trained_copies", kEachNumber, piece_index, trained,
                             kFactorNumbers, is_first ? Access::read_write : Access::read);
    kernel.params.insert(kernel.params.end(),
                         {{"table", static_cast<uint32_t>(piece.table_words)},
                          {"first_row", static_cast<uint32_t>(piece.tile_row)},
                          {"columns", program_.weights[place.weight].shape.columns},
                          {"row_words", static_cast<uint32_t>(layout_.matrix(place.weight).row_words)}});
    kernel.bindings.push_back({.name = "weights",
                               .slot = {SlotKind::weight, place.weight, piece.tile},
                               .access = Access::read_write,
                               .element = "f32"});
    kernel.snippets = {kPutWeight, is_first ? kUpdate : kCopyNumber};
    if (is_first) {
      for (uint32_t n = 0; n < kTrainedStepNames.size(); ++n) kernel.constants.push_back({kTrainedStepNames[n], n});
      kernel.bindings.push_back({.name = "adam", .slot = {SlotKind::trained_step}, .element = "f32"});
    }
    add(kernel);
    is_first = false;
  }
}

Dispatches Emitter::emit_trained(TrainedWork work, const TrainedLayout& trained) {
  for (uint32_t piece = 0; piece < trained.pieces.size(); ++piece)
    if (work == TrainedWork::sum_squares)
      emit_squares(piece, trained);
    else if (work == TrainedWork::update)
      emit_update(piece, trained);
    else
      emit_gradients(piece, trained, work == TrainedWork::first_gradients);
  return std::move(dispatches_);
}

}  // namespace sluice::webgpu
