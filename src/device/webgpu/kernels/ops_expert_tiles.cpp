// experts for prompts, if the weights have integers. One workgroup lists the choices expert by expert and cuts the
// lists into tiles of rows. One dispatch multiplies each tile by its expert's gate and up, and writes the activations
// as integers in the order of the lists. Another dispatch multiplies these by down. Only the GPU knows the number of
// tiles: workgroups are started for the most that there can be, and the rest return.
//
// An expert has few of a prompt's rows (about 32, if 512 rows choose 8 of 128 experts each). So tiles have 32 rows, and
// threads skip the missing ones.
#include <algorithm>
#include <array>

#include "device/webgpu/kernels/experts.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

// Workgroup memory that a wide tile needs, for the outputs of gate and up and for the activations. Some GPUs have only
// the 16 KB that WebGPU guarantees.
constexpr uint32_t kWideTileBytes = 24 << 10;

IntegerTile inward_tile(const Adapter& adapter) {
  if (adapter.is_software) return {.row_side = 8, .rows_each = 2, .output_side = 8, .outputs_each = 4, .few = true};
  const bool is_wide = adapter.workgroup_bytes >= kWideTileBytes;
  return {.row_side = 8, .rows_each = 4, .output_side = is_wide ? 32u : 16u, .outputs_each = 2, .few = true};
}
// The tile for down, with as many rows as inward_tile.
IntegerTile outward_tile(const Adapter& adapter) {
  IntegerTile tile = inward_tile(adapter);
  tile.outputs_each = 4;
  return tile;
}

// One workgroup writes the lists. At the word `lists` is the number of tiles, then four words for each tile (place,
// first index in `order`, rows), then `order`, the choices by expert. The choices of one expert are in no fixed order,
// because no result depends on a row's place in its tile.
constexpr const char* kList = R"(
const NOWHERE = 0xffffffffu;
var<workgroup> chosen_by: array<atomic<u32>, EXPERTS>;
var<workgroup> next_of: array<atomic<u32>, EXPERTS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  if (group_index(group, groups) > 0u) { return; }
  let choices = rows() * CHOSEN;
  for (var e = thread; e < EXPERTS; e += THREADS) { atomicStore(&chosen_by[e], 0u); }
  workgroupBarrier();
  for (var c = thread; c < choices; c += THREADS) {
    let expert = word(p.index + c);
    if (place_of(expert) != NOWHERE) { atomicAdd(&chosen_by[expert], 1u); }
  }
  workgroupBarrier();
  for (var e = thread; e < EXPERTS; e += THREADS) {
    var first = 0u;
    var tile = 0u;
    for (var before = 0u; before < e; before++) {
      let count = atomicLoad(&chosen_by[before]);
      first += count;
      tile += (count + TILE_ROWS - 1u) / TILE_ROWS;
    }
    atomicStore(&next_of[e], first);
    let count = atomicLoad(&chosen_by[e]);
    for (var i = 0u; i < count; i += TILE_ROWS) {
      put_four(p.lists + 4u + tile * 4u, vec4u(place_of(e), first + i, min(TILE_ROWS, count - i), 0u));
      tile++;
    }
    if (e == EXPERTS - 1u) { put_four(p.lists, vec4u(tile)); }
  }
  workgroupBarrier();
  for (var c = thread; c < choices; c += THREADS) {
    let expert = word(p.index + c);
    if (place_of(expert) != NOWHERE) { memory[p.order + atomicAdd(&next_of[expert], 1u)] = c; }
  }
}
)";

constexpr const char* kBegin = R"(
var<workgroup> shared_tile: vec4u;
fn choice_of(i: u32) -> u32 { return word(p.order + i); }
fn inner_row(i: u32) -> u32 { return p.inner + i * (WIDTH / 16u * 6u); }

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let g = group_index(group, groups);
  if (thread == 0u) {
    var own = vec4u();
    if (g / BLOCKS < word(p.lists)) { own = four(p.lists + 4u + g / BLOCKS * 4u); }
    shared_tile = own;
  }
  let tile = workgroupUniformLoad(&shared_tile);
  let place = tile.x;
  let first = tile.y;
  let count = tile.z;
  if (count == 0u || place < p.first || place >= p.end) { return; }
  let first_output = g % BLOCKS * TILE_OUTPUTS;
)";
constexpr const char* kInwardBegin = R"(
  const last_output = WIDTH - 1u;
  let gate_first = first_of_gate(place);
  let up_first = first_of_up(place);
)";
// A run of 32 outputs of a row becomes integers once all of them are there.
constexpr const char* kInwardEnd = R"(
  for (var j = 0u; j < ROWS_EACH; j++) {
    let row = r + ROW_SIDE * j;
    if (row < count) {
      let weight = load(p.weight + choice_of(first + row));
      let gate = ${gate};
      let up = ${up};
      for (var n = 0u; n < OUTPUTS_EACH; n++) {
        staged[row * STAGED + o * OUTPUTS_EACH + n] = activate(gate[n]) * up[n] * weight;
      }
    }
  }
  workgroupBarrier();
  for (var i = thread; i < count * RUNS; i += THREADS) {
    let row = i / RUNS;
    let pair = first_output / 32u + i % RUNS;
    if (pair * 32u < WIDTH) {
      let at = row * STAGED + i % RUNS * 32u;
      put_parts(inner_row(first + row), WIDTH / 16u, pair, staged_part(at), staged_part(at + 16u));
${keep_reals}    }
  }
}
fn x_of_row(i: u32) -> u32 { return p.x + choice_of(i) / CHOSEN * (HIDDEN / 16u * 6u); }
const RUNS = TILE_OUTPUTS / 32u;
const STAGED = TILE_OUTPUTS + 1u;
var<workgroup> staged: array<f32, TILE_ROWS * STAGED>;
fn staged_four(at: u32) -> vec4f { return vec4f(staged[at], staged[at + 1u], staged[at + 2u], staged[at + 3u]); }
fn staged_part(at: u32) -> Part {
  return part_of(staged_four(at), staged_four(at + 4u), staged_four(at + 8u), staged_four(at + 12u));
}
)";
constexpr const char* kKeepReals = R"(
      for (var n = 0u; n < 32u && pair * 32u + n < WIDTH; n += 4u) {
        store4(p.reals + choice_of(first + row) * WIDTH + pair * 32u + n, staged_four(at + n));
      }
)";
constexpr const char* kOutwardBegin = R"(
  const last_output = HIDDEN - 1u;
  let down_first = first_of_down(place);
)";
constexpr const char* kOutwardEnd = R"(
  for (var j = 0u; j < ROWS_EACH; j++) {
    let row = r + ROW_SIDE * j;
    let output = first_output + o * OUTPUTS_EACH;
    if (row < count && output < HIDDEN) {
      let sums = sums_down[j];
      store4(p.products + choice_of(first + row) * HIDDEN + output, vec4f(sums[0], sums[1], sums[2], sums[3]));
    }
  }
}
fn x_of_row(i: u32) -> u32 { return inner_row(i); }
)";

}  // namespace

uint64_t Emitter::ExpertsKernels::most_tiles(uint64_t choices) const {
  const uint32_t rows = inward_tile(emitter.adapter_).rows();
  return std::min((choices + rows - 1) / rows + experts, choices);
}

uint64_t Emitter::ExpertsKernels::list_words(uint64_t choices) const { return 4 + 4 * most_tiles(choices) + choices; }

Kernel Emitter::ExpertsKernels::listed() const {
  constexpr uint32_t kListThreads = 256;
  Kernel kernel = plain("experts_list", 1, 1);
  kernel.body = kList;
  kernel.threads = kListThreads;
  kernel.constants.insert(kernel.constants.end(),
                          {{"EXPERTS", experts}, {"TILE_ROWS", inward_tile(emitter.adapter_).rows()}});
  kernel.params.insert(kernel.params.end(), {{"lists", lists}, {"order", order()}});
  kernel.grid = {.per = ~uint32_t{0}};
  return kernel;
}

uint32_t Emitter::ExpertsKernels::order() const {
  const uint64_t choices = emitter.most_rows(emitter.type(op.x).extent) * chosen;
  return static_cast<uint32_t>(lists + 4 + 4 * most_tiles(choices));
}

Kernel Emitter::ExpertsKernels::of_tiles(const char* name, const IntegerTile& tile, uint32_t outputs,
                                         const PlaceRange& places) const {
  Kernel kernel = plain(name, tile.blocks(outputs), 1);
  kernel.bindings.front().element = kFours;
  kernel.params.insert(
      kernel.params.end(),
      {{"inner", inner}, {"first", places.first}, {"end", places.end}, {"lists", lists}, {"order", order()}});
  kernel.grid = {.items = chosen, .per = tile.rows(), .lists = experts, .times = tile.blocks(outputs)};
  return kernel;
}

Kernel Emitter::ExpertsKernels::inward_tiles(const PlaceRange& places) const {
  const IntegerTile tile = inward_tile(emitter.adapter_);
  Kernel kernel = of_tiles("experts_inward_tiles", tile, width, places);
  kernel.constants.push_back({"COLUMNS", hidden});
  kernel.params.insert(kernel.params.end(), {{"x", integers}, {"weight", emitter.at(op.weight)}});
  kernel.snippets.insert(kernel.snippets.end(), {kMath, activation_text(op.kind), kRowsAsIntegers});
  const auto sums = [&](const char* name) {
    std::string text = "vec4f(";
    for (uint32_t n = 0; n < 4; ++n)
      text += cat(n == 0 ? "" : ", ", n < tile.outputs_each ? cat("sums_", name, "[j][", n, "u]") : "0.0");
    return text + ")";
  };
  const std::string end =
      fill(kInwardEnd,
           {{"gate", sums("gate")}, {"up", sums("up")}, {"keep_reals", outward_adapter[0].adapter ? kKeepReals : ""}});
  if (outward_adapter[0].adapter) kernel.params.push_back({"reals", reals});
  constexpr std::array kNames = {"gate", "up"};
  const std::vector<const char*> more = use_tile_adapters(kernel, inward_adapters, kNames, inward_rows());
  use_integer_tile(kernel, tile, kNames, cat(kBegin, kInwardBegin), end, more);
  return kernel;
}

Kernel Emitter::ExpertsKernels::outward_tiles(const PlaceRange& places) const {
  const IntegerTile tile = outward_tile(emitter.adapter_);
  Kernel kernel = of_tiles("experts_outward_tiles", tile, hidden, places);
  kernel.constants.push_back({"COLUMNS", width});
  kernel.params.push_back({"products", products});
  constexpr std::array kNames = {"down"};
  const std::vector<const char*> more = use_tile_adapters(kernel, outward_adapter, kNames, outward_rows());
  use_integer_tile(kernel, tile, kNames, cat(kBegin, kOutwardBegin), kOutwardEnd, more);
  return kernel;
}

}  // namespace sluice::webgpu
