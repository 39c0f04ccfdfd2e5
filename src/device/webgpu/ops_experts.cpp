// experts: two dispatches, each over the rows' chosen experts as route left them. The first makes gate, up, activation
// and the choice's weight for each choice of a row; the second adds the choices' down products of a row in ascending
// expert index. Weights cut into tiles of whole experts are a dispatch a tile.
#include <algorithm>

#include "device/webgpu/emitter.h"
#include "device/webgpu/products.h"

namespace sluice::webgpu {
namespace {

// A workgroup: outputs of one choice of a row.
constexpr const char* kInward = R"(
var<workgroup> shared_expert: u32;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let g = group_index(group, groups);
  let choice = g / BLOCKS;
  if (choice >= rows() * CHOSEN) { return; }
  if (thread == 0u) { shared_expert = word(p.index + choice); }
  let expert = workgroupUniformLoad(&shared_expert);
  if (expert < p.first || expert >= p.end) { return; }
  let output = first_output(g % BLOCKS, thread);
  const last = WIDTH - 1u;
  let gate_row = (expert - p.gate_first) * WIDTH;
  let up_row = (expert - p.up_first) * WIDTH;
PRODUCTS
  if (thread % LANES == 0u && output < WIDTH) {
    let gate = team_sum(thread / LANES, 0u);
    let up = team_sum(thread / LANES, 1u);
    store_some(p.inner + choice * WIDTH + output,
               vec4f(activate(gate.x), activate(gate.y), activate(gate.z), activate(gate.w)) * up *
                   load(p.weight + choice), WIDTH - output);
  }
}
)";

// A workgroup: outputs of one row, over all its choices that are in the tile.
constexpr const char* kOutward = R"(
var<workgroup> order: array<vec2u, CHOSEN>;  // expert, choice

fn sort_choices(row: u32) {
  for (var i = 0u; i < CHOSEN; i++) {
    let one = vec2u(word(p.index + row * CHOSEN + i), row * CHOSEN + i);
    var at = i;
    while (at > 0u && order[at - 1u].x > one.x) {
      order[at] = order[at - 1u];
      at--;
    }
    order[at] = one;
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let g = group_index(group, groups);
  let row = g / BLOCKS;
  if (row >= rows()) { return; }
  if (thread == 0u) { sort_choices(row); }
  let output = first_output(g % BLOCKS, thread);
  const last = HIDDEN - 1u;
SUMS
  for (var e = 0u; e < CHOSEN; e++) {
    let one = workgroupUniformLoad(&order[e]);
    if (one.x < p.first || one.x >= p.end) { continue; }
    let first_row = (one.x - p.first) * HIDDEN;
PRODUCTS
  }
KEPT_SUMS
  if (thread % LANES == 0u && output < HIDDEN) {
    let to = p.out + row * HIDDEN + output;
    var x = team_sum(thread / LANES, 0u);
    if (p.first > 0u) { x += before(to, HIDDEN - output); }
    store_some(to, x, HIDDEN - output);
  }
}
fn before(at: u32, count: u32) -> vec4f {
  var x: vec4f;
  for (var i = 0u; i < min(count, 4u); i++) { x[i] = load(at + i); }
  return x;
}
)";

void replace(std::string& text, const char* what, const std::string& by) {
  text.replace(text.find(what), std::string_view(what).size(), by);
}

// Of all experts' rows, the tile's experts.
struct ExpertRange {
  uint32_t first = 0, end = 0;
};
ExpertRange experts_of(const WeightTile& tile, uint32_t rows) {
  return {static_cast<uint32_t>(tile.first_row / rows), static_cast<uint32_t>((tile.first_row + tile.rows) / rows)};
}

}  // namespace

void Emitter::emit(const Experts& op) {
  const uint32_t hidden = columns(op.x), chosen = columns(op.index);
  const uint32_t width = program_.weights[op.gate].shape.rows;
  const uint32_t inner = scratch(most_rows(type(op.x).extent) * chosen * width);
  const bool fours = hidden % 4 == 0 && width % 4 == 0 && at(op.x) % 4 == 0 && at(op.out) % 4 == 0;
  const auto kernel_of = [&](const char* name, const ProductShape& shape, size_t weights, uint64_t blocks) {
    Kernel kernel{.name = name, .extent = type(op.x).extent, .threads = shape.threads()};
    kernel.constants = {
        {"HIDDEN", hidden}, {"WIDTH", width}, {"CHOSEN", chosen}, {"BLOCKS", static_cast<uint32_t>(blocks)}};
    kernel.params = {{"index", at(op.index)}, {"inner", inner}};
    kernel.bindings = {memory()};
    if (fours) kernel.bindings.front().element = kFours;
    use_products(kernel, adapter_, shape, weights);
    return kernel;
  };
  const auto use_weight = [&](Kernel& kernel, const char* name, WeightId id, uint32_t tile) {
    kernel.bindings.push_back(weight(name, id, tile));
    kernel.snippets.push_back(product_decoder(id, name));
  };

  const UnitShape gate_units = units_of(op.gate), up_units = units_of(op.up), down_units = units_of(op.down);
  const ProductShape in = product_shape(adapter_, hidden, std::max(gate_units.parts, up_units.parts));
  const ProductShape out = product_shape(adapter_, width, down_units.parts);
  const std::vector<WeightTile>&gates = layout_.matrix(op.gate).tiles, &ups = layout_.matrix(op.up).tiles;
  for (uint32_t g = 0; g < gates.size(); ++g)
    for (uint32_t u = 0; u < ups.size(); ++u) {
      const ExpertRange gate = experts_of(gates[g], width), up = experts_of(ups[u], width);
      const ExpertRange both{std::max(gate.first, up.first), std::min(gate.end, up.end)};
      if (both.first >= both.end) continue;
      Kernel kernel = kernel_of("experts_inward", in, 2, in.blocks(width));
      kernel.params.insert(kernel.params.end(), {{"x", at(op.x)},
                                                 {"weight", at(op.weight)},
                                                 {"first", both.first},
                                                 {"end", both.end},
                                                 {"gate_first", gate.first},
                                                 {"up_first", up.first}});
      kernel.snippets.insert(kernel.snippets.end(), {kMath, activation_text(op.kind)});
      use_weight(kernel, "gate", op.gate, g);
      use_weight(kernel, "up", op.up, u);
      kernel.body = kInward;
      replace(kernel.body, "PRODUCTS",
              cat(declared_sums(2),
                  added_products(
                      in, {{"gate", gate_units, "gate_row + min(#, last)"}, {"up", up_units, "up_row + min(#, last)"}},
                      "p.x + choice / CHOSEN * HIDDEN", "HIDDEN"),
                  kept_sums(2)));
      kernel.grid = {.times = chosen * in.blocks(width)};
      add(kernel);
    }

  const std::vector<WeightTile>& downs = layout_.matrix(op.down).tiles;
  for (uint32_t tile = 0; tile < downs.size(); ++tile) {
    const ExpertRange range = experts_of(downs[tile], hidden);
    Kernel kernel = kernel_of("experts_outward", out, 1, out.blocks(hidden));
    kernel.params.insert(kernel.params.end(), {{"out", at(op.out)}, {"first", range.first}, {"end", range.end}});
    use_weight(kernel, "down", op.down, tile);
    kernel.body = kOutward;
    replace(kernel.body, "KEPT_SUMS", kept_sums(1));
    replace(kernel.body, "SUMS", declared_sums(1));
    replace(
        kernel.body, "PRODUCTS",
        added_products(out, {{"down", down_units, "first_row + min(#, last)"}}, "p.inner + one.y * WIDTH", "WIDTH"));
    kernel.grid = {.times = out.blocks(hidden)};
    add(kernel);
  }
}

}  // namespace sluice::webgpu
