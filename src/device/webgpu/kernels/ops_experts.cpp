// experts: first gate, up, activation and the choice's weight for each choice of a row. Then a row's down products, one
// for each choice, are added in ascending expert index.
//
//   resident   two dispatches over the rows' chosen experts, in the order of `route`. Weights in several tiles of whole
//              experts have a dispatch for each tile.
//   streamed   computes the experts in slots, with one dispatch for each half and buffer of slots. Once all experts are
//              computed, another dispatch adds. Each number goes through the same operations.
//   prompts    if the weights have integers: choices are listed expert by expert, and both halves multiply tiles of an
//              expert's rows (ops_expert_tiles.cpp). Another dispatch adds.
#include <algorithm>

#include "device/webgpu/kernels/experts.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

// The place of an expert, and the row of the bound buffer at which an expert's matrix begins.
constexpr const char* kPlaces = R"(
fn place_of(expert: u32) -> u32 { return expert; }
)";
constexpr const char* kInwardPlaces = R"(
fn first_of_gate(place: u32) -> u32 { return (place - p.gate_first) * WIDTH; }
fn first_of_up(place: u32) -> u32 { return (place - p.up_first) * WIDTH; }
)";
constexpr const char* kOutwardPlaces = R"(
fn first_of_down(place: u32) -> u32 { return (place - p.first) * HIDDEN; }
)";
constexpr const char* kSlots = R"(
fn place_of(expert: u32) -> u32 { return word(p.table + expert); }
fn begin_of(slot: u32) -> u32 { return (slot - p.first) * SLOT_WORDS; }
)";
constexpr const char* kInwardSlots = R"(
fn first_of_gate(slot: u32) -> u32 {
  gate_begin_at(begin_of(slot) + GATE_IN_SLOT);
  return 0u;
}
fn first_of_up(slot: u32) -> u32 {
  up_begin_at(begin_of(slot) + UP_IN_SLOT);
  return 0u;
}
)";
constexpr const char* kOutwardSlots = R"(
fn first_of_down(slot: u32) -> u32 {
  down_begin_at(begin_of(slot) + DOWN_IN_SLOT);
  return 0u;
}
)";

// A workgroup: outputs of one choice of a row.
constexpr const char* kOfOneChoice = R"(
var<workgroup> shared_place: u32;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let g = group_index(group, groups);
  let choice = g / BLOCKS;
  if (choice >= rows() * CHOSEN) { return; }
  if (thread == 0u) { shared_place = place_of(word(p.index + choice)); }
  let place = workgroupUniformLoad(&shared_place);
  if (place < p.first || place >= p.end) { return; }
  let output = first_output(g % BLOCKS, thread);
  let stored = first_stored(g % BLOCKS, thread);
)";
constexpr const char* kInward = R"(
  const last = WIDTH - 1u;
  let gate_row = first_of_gate(place);
  let up_row = first_of_up(place);
${products}
  if (stores(thread) && stored < WIDTH) {
    let gate = ${gate};
    let up = ${up};
    var x: vec4f;
    for (var i = 0u; i < 4u; i++) { x[i] = activate(gate[i]) * up[i]; }
    store_some(p.inner + choice * WIDTH + stored, x * load(p.weight + choice), WIDTH - stored);
  }
}
)";
constexpr const char* kOutwardOfOne = R"(
  const last = HIDDEN - 1u;
  let first_row = first_of_down(place);
${products}
  if (stores(thread) && stored < HIDDEN) {
    store_some(p.products + choice * HIDDEN + stored, ${down}, HIDDEN - stored);
  }
}
)";

constexpr const char* kSortChoices = R"(
var<workgroup> unordered: array<u32, CHOSEN>;
var<workgroup> order: array<vec2u, CHOSEN>;  // expert, choice

// Sorts a row's choices by expert. Every thread of the workgroup calls it.
fn sort_choices(row: u32, thread: u32) {
  for (var i = thread; i < CHOSEN; i += THREADS) { unordered[i] = word(p.index + row * CHOSEN + i); }
  workgroupBarrier();
  for (var i = thread; i < CHOSEN; i += THREADS) {
    var before = 0u;
    for (var j = 0u; j < CHOSEN; j++) {
      before += select(0u, 1u, unordered[j] < unordered[i] || (unordered[j] == unordered[i] && j < i));
    }
    order[before] = vec2u(unordered[i], row * CHOSEN + i);
  }
  workgroupBarrier();
}
)";

// A workgroup: outputs of one row, over all its choices that are in the tile, VECTORS of them at once.
constexpr const char* kOutward = R"(
fn is_here(expert: u32) -> bool { return expert >= p.first && expert < p.end; }

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let g = group_index(group, groups);
  let row = g / BLOCKS;
  if (row >= rows()) { return; }
  sort_choices(row, thread);
  let output = first_output(g % BLOCKS, thread);
  let stored = first_stored(g % BLOCKS, thread);
  const last = HIDDEN - 1u;
  let to = p.out + row * HIDDEN + stored;
  let is_kept = stores(thread) && stored < HIDDEN;
  var x = vec4f();
  if (p.first > 0u && is_kept) { x = before(to, HIDDEN - stored); }
  for (var first = 0u; first < CHOSEN; first += VECTORS) {
    let expert = order[min(first + vector_of(thread), CHOSEN - 1u)].x;
    let first_row = first_of_down(select(p.first, expert, is_here(expert)));
${products}
    for (var v = 0u; v < VECTORS && is_kept; v++) {
      if (first + v < CHOSEN && is_here(order[min(first + v, CHOSEN - 1u)].x)) { x += ${down}; }
    }
  }
  if (is_kept) { store_some(to, x, HIDDEN - stored); }
}
fn before(at: u32, count: u32) -> vec4f {
  var x: vec4f;
  for (var i = 0u; i < min(count, 4u); i++) { x[i] = load(at + i); }
  return x;
}
)";
constexpr const char* kSums = "four_sums(thread, 0u, 0u)";
constexpr const char* kSumsOfUp = "four_sums(thread, 0u, 1u)";
constexpr const char* kOrderedChoice = "order[min(first + v, CHOSEN - 1u)].y";
constexpr const char* kOrderedInner = "p.inner + order[min(first + ${vector}, CHOSEN - 1u)].y * WIDTH";

// A workgroup: outputs of one row, EACH a thread.
constexpr const char* kAddChoices = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let g = group_index(group, groups);
  let row = g / BLOCKS;
  if (row >= rows()) { return; }
  sort_choices(row, thread);
  let output = (g % BLOCKS * THREADS + thread) * EACH;
  if (output >= HIDDEN) { return; }
  var x = ZERO;
  for (var e = 0u; e < CHOSEN; e++) { x += load_each(p.products + order[e].y * HIDDEN + output); }
  store_all(p.out + row * HIDDEN + output, x);
}
)";
constexpr const char* kAddFours = R"(
const EACH = 4u;
const ZERO = vec4f();
fn load_each(at: u32) -> vec4f { return load4(at); }
fn store_all(at: u32, x: vec4f) { store4(at, x); }
)";
constexpr const char* kAddOnes = R"(
const EACH = 1u;
const ZERO = 0.0f;
fn load_each(at: u32) -> f32 { return load(at); }
fn store_all(at: u32, x: f32) { store(at, x); }
)";

}  // namespace

Kernel Emitter::ExpertsKernels::plain(const char* name, uint64_t blocks, uint64_t times) const {
  Kernel kernel{.name = name, .extent = emitter.type(op.x).extent};
  kernel.constants = {
      {"HIDDEN", hidden}, {"WIDTH", width}, {"CHOSEN", chosen}, {"BLOCKS", static_cast<uint32_t>(blocks)}};
  kernel.params = {{"index", emitter.at(op.index)}};
  kernel.bindings = {memory()};
  kernel.grid = {.times = times * blocks};
  return kernel;
}

void Emitter::ExpertsKernels::use(Kernel& kernel, const ProductShape& shape, const PlaceRange& places) const {
  kernel.threads = shape.threads();
  kernel.params.insert(kernel.params.end(), {{"inner", inner}, {"first", places.first}, {"end", places.end}});
  if (fours()) kernel.bindings.front().element = kFours;
  use_products(kernel, emitter.adapter_, shape);
}

Kernel Emitter::ExpertsKernels::inward(const PlaceRange& places) const {
  if (in_tiles) return inward_tiles(places);
  Kernel kernel = plain("experts_inward", in.blocks(width), chosen);
  use(kernel, in, places);
  kernel.params.insert(kernel.params.end(), {{"x", emitter.at(op.x)}, {"weight", emitter.at(op.weight)}});
  kernel.snippets.insert(kernel.snippets.end(), {kMath, activation_text(op.kind)});
  const std::vector<RowsOf> rows = {{"gate", emitter.units_of(op.gate), "gate_row + min(${output}, last)"},
                                    {"up", emitter.units_of(op.up), "up_row + min(${output}, last)"}};
  const std::string sums = added_products(in, rows, "p.x + choice / CHOSEN * HIDDEN", "HIDDEN");
  kernel.body = kOfOneChoice + fill(kInward, {{"products", sums},
                                              {"gate", adapted_sums(inward_adapters, 0, "choice", "stored", kSums)},
                                              {"up", adapted_sums(inward_adapters, 1, "choice", "stored", kSumsOfUp)}});
  use_adapters(kernel, inward_adapters, inward_rows());
  return kernel;
}

// `times`: the choices of a row, if each has its own workgroups.
Kernel Emitter::ExpertsKernels::outward_products(const PlaceRange& places, const ProductShape& shape, uint64_t times,
                                                 const OutwardText& text) const {
  Kernel kernel = plain("experts_outward", shape.blocks(hidden), times);
  use(kernel, shape, places);
  const std::vector<RowsOf> rows = {{"down", emitter.units_of(op.down), "first_row + min(${output}, last)"}};
  kernel.body = fill(text.body, {{"products", added_products(shape, rows, text.x, "WIDTH")},
                                 {"down", adapted_sums(outward_adapter, 0, text.choice, "stored", text.sums)}});
  use_adapters(kernel, outward_adapter, outward_rows());
  return kernel;
}

Kernel Emitter::ExpertsKernels::outward_added(const PlaceRange& places) const {
  Kernel kernel = outward_products(
      places, out_at_once, 1,
      {.body = kOutward, .x = kOrderedInner, .choice = kOrderedChoice, .sums = "four_sums(thread, v, 0u)"});
  kernel.params.push_back({"out", emitter.at(op.out)});
  kernel.snippets.emplace_back(kSortChoices);
  return kernel;
}

Kernel Emitter::ExpertsKernels::outward(const PlaceRange& places) const {
  if (in_tiles) return outward_tiles(places);
  Kernel kernel = outward_products(
      places, out, chosen,
      {.body = cat(kOfOneChoice, kOutwardOfOne), .x = "p.inner + choice * WIDTH", .choice = "choice", .sums = kSums});
  kernel.params.push_back({"products", products});
  return kernel;
}

Kernel Emitter::ExpertsKernels::added() const {
  const bool fours = hidden % 4 == 0 && emitter.at(op.out) % 4 == 0;
  const uint32_t of_one = kThreads * (fours ? 4 : 1);
  Kernel kernel = plain("experts_add", (uint64_t{hidden} + of_one - 1) / of_one, 1);
  kernel.body = kAddChoices;
  kernel.params.insert(kernel.params.end(), {{"products", products}, {"out", emitter.at(op.out)}});
  if (fours) kernel.bindings.front().element = kFours;
  kernel.snippets = {kSortChoices, fours ? kAddFours : kAddOnes};
  return kernel;
}

std::string Emitter::ExpertsKernels::weight_decoder(WeightId id, const char* name, Rows rows) const {
  if (!in_tiles) return emitter.product_decoder(id, name, rows);
  return emitter.decoder(id, name, rows) + integer_snippet(emitter.layout_.matrix(id).format, name);
}

void Emitter::emit(const Experts& op) {
  const bool in_tiles =
      !has_few_rows(type(op.x).extent) && has_integers(op.gate) && has_integers(op.up) && has_integers(op.down);
  const bool streamed = layout_.is_streamed(op.gate);
  const uint32_t hidden = columns(op.x), chosen = columns(op.index), width = program_.weights[op.gate].shape.rows;
  const uint64_t choices = most_rows(type(op.x).extent) * chosen;
  ExpertsKernels kernels{.emitter = *this,
                         .op = op,
                         .hidden = hidden,
                         .chosen = chosen,
                         .width = width,
                         .experts = program_.weights[op.gate].shape.experts,
                         .in_tiles = in_tiles,
                         .inner = scratch(choices * (in_tiles ? integer_words(width) : width)),
                         .products = in_tiles || streamed ? scratch(choices * hidden) : 0,
                         .inward_adapters = {adapted(op.adapters.gate(), choices), adapted(op.adapters.up(), choices)},
                         .outward_adapter = {adapted(op.adapters.down(), choices)},
                         .reals = in_tiles && op.adapters.down() ? scratch(choices * width) : 0};
  kernels.in = product_shape(adapter_, {.columns = hidden,
                                        .outputs = uint64_t{width} * chosen,
                                        .unit_parts = std::max(units_of(op.gate).parts, units_of(op.up).parts),
                                        .weights = 2,
                                        .integers = kernels.fours() && has_integers(op.gate) && has_integers(op.up)});
  ProductSize out{.columns = width,
                  .outputs = uint64_t{hidden} * chosen,
                  .unit_parts = units_of(op.down).parts,
                  .integers = kernels.fours() && has_integers(op.down)};
  kernels.out = product_shape(adapter_, out);
  out.vectors = chosen;
  kernels.out_at_once = product_shape(adapter_, out);
  if (in_tiles) {
    kernels.integers = scratch_for_integers(op.x);
    kernels.lists = scratch(kernels.list_words(choices));
  }
  if (streamed)
    emit_streamed(kernels);
  else
    emit_resident(kernels);
}

void Emitter::emit_resident(const ExpertsKernels& kernels) {
  const Experts& op = kernels.op;
  const auto use_weight = [&](Kernel& kernel, const char* name, WeightId id, uint32_t tile) {
    kernel.bindings.push_back(weight(name, id, tile));
    kernel.snippets.push_back(kernels.weight_decoder(id, name, Rows::at_begin));
  };
  if (kernels.in_tiles) {
    emit_integers(op.x, kernels.integers);
    Kernel lists = kernels.listed();
    lists.snippets.emplace_back(kPlaces);
    add(lists);
  }
  if (op.adapters.gate() || op.adapters.up()) emit_adapter_inner(kernels.inward_adapters, kernels.inward_rows());
  const std::vector<WeightTile>&gates = layout_.matrix(op.gate).tiles, &ups = layout_.matrix(op.up).tiles;
  for (uint32_t g = 0; g < gates.size(); ++g)
    for (uint32_t u = 0; u < ups.size(); ++u) {
      const PlaceRange gate = experts_of(gates[g], kernels.width), up = experts_of(ups[u], kernels.width);
      const PlaceRange both{std::max(gate.first, up.first), std::min(gate.end, up.end)};
      if (both.first >= both.end) continue;
      Kernel kernel = kernels.inward(both);
      kernel.params.insert(kernel.params.end(), {{"gate_first", gate.first}, {"up_first", up.first}});
      use_weight(kernel, "gate", op.gate, g);
      use_weight(kernel, "up", op.up, u);
      kernel.snippets.insert(kernel.snippets.end(), {kPlaces, kInwardPlaces});
      add(kernel);
    }

  if (op.adapters.down()) emit_adapter_inner(kernels.outward_adapter, kernels.outward_rows());
  const std::vector<WeightTile>& downs = layout_.matrix(op.down).tiles;
  for (uint32_t tile = 0; tile < downs.size(); ++tile) {
    const PlaceRange places = experts_of(downs[tile], kernels.hidden);
    Kernel kernel = kernels.in_tiles ? kernels.outward(places) : kernels.outward_added(places);
    use_weight(kernel, "down", op.down, tile);
    kernel.snippets.emplace_back(kOutwardPlaces);
    add(kernel);
  }
  if (kernels.in_tiles) add(kernels.added());
}

void Emitter::emit_streamed(const ExpertsKernels& kernels) {
  const Experts& op = kernels.op;
  const uint32_t table = scratch(kernels.experts);
  dispatches_.streamed.push_back({.op = op_, .table = table});
  const SlotsLayout& all = layout_.slots();
  const auto add_of_present = [&](Kernel kernel) {
    kernel.constants.push_back({"SLOT_WORDS", static_cast<uint32_t>(all.words)});
    kernel.params.push_back({"table", table});
    kernel.snippets.emplace_back(kSlots);
    add(kernel).of_present = true;
  };
  const auto use_weight = [&](Kernel& kernel, const char* name, const char* in_slot, WeightId id, uint32_t buffer) {
    kernel.constants.push_back({in_slot, layout_.in_slot(id)});
    kernel.bindings.push_back(slots(name, buffer));
    kernel.snippets.push_back(kernels.weight_decoder(id, name, Rows::anywhere));
  };
  if (kernels.in_tiles) {
    emit_integers(op.x, kernels.integers).of_present = true;
    Kernel lists = kernels.listed();
    lists.params.push_back({"first", 0u});
    add_of_present(std::move(lists));
  }
  if (op.adapters.gate() || op.adapters.up())
    emit_adapter_inner(kernels.inward_adapters, kernels.inward_rows()).of_present = true;
  for (uint32_t buffer = 0; buffer < all.buffers(); ++buffer) {
    Kernel kernel = kernels.inward({all.first(buffer), all.end(buffer)});
    use_weight(kernel, "gate", "GATE_IN_SLOT", op.gate, buffer);
    use_weight(kernel, "up", "UP_IN_SLOT", op.up, buffer);
    kernel.snippets.emplace_back(kInwardSlots);
    add_of_present(std::move(kernel));
  }
  if (op.adapters.down()) emit_adapter_inner(kernels.outward_adapter, kernels.outward_rows()).of_present = true;
  for (uint32_t buffer = 0; buffer < all.buffers(); ++buffer) {
    Kernel kernel = kernels.outward({all.first(buffer), all.end(buffer)});
    use_weight(kernel, "down", "DOWN_IN_SLOT", op.down, buffer);
    kernel.snippets.emplace_back(kOutwardSlots);
    add_of_present(std::move(kernel));
  }
  add(kernels.added());
}

}  // namespace sluice::webgpu
