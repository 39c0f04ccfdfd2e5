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
  const kParts = (HIDDEN + 15u) / 16u;
  const kBlocks = (WIDTH + BLOCK_OUTPUTS - 1u) / BLOCK_OUTPUTS;
  let i = group_index(group, groups);
  let choice = i / kBlocks;
  if (choice >= rows() * CHOSEN) { return; }
  if (thread == 0u) { shared_expert = memory[p.index + choice]; }
  let expert = workgroupUniformLoad(&shared_expert);
  if (expert < p.first || expert >= p.end) { return; }
  let output = first_output(i % kBlocks, thread);
  let output_count = min(OUTPUTS_EACH, WIDTH - min(output, WIDTH));
  let gate_row = (expert - p.gate_first) * WIDTH;
  let up_row = (expert - p.up_first) * WIDTH;
  var gates: Sums;
  var ups: Sums;
  for (var begin = 0u; begin < kParts; begin += STAGED) {
    let count = min(STAGED, kParts - begin);
    workgroupBarrier();
    stage(p.x + choice / CHOSEN * HIDDEN, HIDDEN, begin, count, 0u, thread);
    workgroupBarrier();
    for (var part = thread % LANES; part < count; part += LANES) {
      for (var o = 0u; o < OUTPUTS_EACH; o++) {
        let row = min(output + o, WIDTH - 1u);
        let x = staged_part(part * 4u);
        gates[o] = add_part(gates[o], gate_16(gate_row + row, begin + part), x);
        ups[o] = add_part(ups[o], up_16(up_row + row, begin + part), x);
      }
    }
  }
  let gate = sum_lanes(gates, thread);
  let up = sum_lanes(ups, thread);
  let lane = thread % LANES;
  if (lane < output_count) {
    store(p.inner + choice * WIDTH + output + lane, activate(gate[lane]) * up[lane] * load(p.weight + choice));
  }
}
)";

// A workgroup: outputs of one row, over all its choices that are in the tile.
constexpr const char* kOutward = R"(
var<workgroup> order: array<vec2u, CHOSEN>;  // expert, choice

fn sort_choices(row: u32) {
  for (var i = 0u; i < CHOSEN; i++) {
    let one = vec2u(memory[p.index + row * CHOSEN + i], row * CHOSEN + i);
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
  const kParts = (WIDTH + 15u) / 16u;
  const kBlocks = (HIDDEN + BLOCK_OUTPUTS - 1u) / BLOCK_OUTPUTS;
  let i = group_index(group, groups);
  let row = i / kBlocks;
  if (row >= rows()) { return; }
  if (thread == 0u) { sort_choices(row); }
  let output = first_output(i % kBlocks, thread);
  let output_count = min(OUTPUTS_EACH, HIDDEN - min(output, HIDDEN));
  var sums: Sums;
  for (var e = 0u; e < CHOSEN; e++) {
    let one = workgroupUniformLoad(&order[e]);
    if (one.x < p.first || one.x >= p.end) { continue; }
    let first_row = (one.x - p.first) * HIDDEN;
    for (var begin = 0u; begin < kParts; begin += STAGED) {
      let count = min(STAGED, kParts - begin);
      workgroupBarrier();
      stage(p.inner + one.y * WIDTH, WIDTH, begin, count, 0u, thread);
      workgroupBarrier();
      for (var part = thread % LANES; part < count; part += LANES) {
        for (var o = 0u; o < OUTPUTS_EACH; o++) {
          sums[o] = add_part(sums[o], down_16(first_row + min(output + o, HIDDEN - 1u), begin + part),
                             staged_part(part * 4u));
        }
      }
    }
  }
  let sum = sum_lanes(sums, thread);
  let lane = thread % LANES;
  if (lane < output_count) {
    let to = p.out + row * HIDDEN + output + lane;
    var before = 0.0;
    if (p.first > 0u) { before = load(to); }
    store(to, before + sum[lane]);
  }
}
)";

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
  const auto kernel_of = [&](const char* name, const char* body, const ProductShape& shape, uint64_t times) {
    Kernel kernel{.name = name, .body = body, .extent = type(op.x).extent, .threads = kProductThreads};
    kernel.constants = {{"HIDDEN", hidden}, {"WIDTH", width}, {"CHOSEN", chosen}};
    kernel.params = {{"index", at(op.index)}, {"inner", inner}};
    kernel.bindings = {memory()};
    use_subgroups(kernel, adapter_);
    kernel.snippets = {staged_product(adapter_, shape)};
    kernel.grid = {.times = times};
    return kernel;
  };
  const auto use_weight = [&](Kernel& kernel, const char* name, WeightId id, uint32_t tile) {
    kernel.bindings.push_back(weight(name, id, tile));
    kernel.snippets.push_back(decoder(id, name));
  };

  const ProductShape in = product_shape(adapter_, uint64_t{chosen} * width);
  const ProductShape out = product_shape(adapter_, hidden);
  const std::vector<WeightTile>&gates = layout_.matrix(op.gate).tiles, &ups = layout_.matrix(op.up).tiles;
  for (uint32_t g = 0; g < gates.size(); ++g)
    for (uint32_t u = 0; u < ups.size(); ++u) {
      const ExpertRange gate = experts_of(gates[g], width), up = experts_of(ups[u], width);
      const ExpertRange both{std::max(gate.first, up.first), std::min(gate.end, up.end)};
      if (both.first >= both.end) continue;
      Kernel kernel = kernel_of("experts_inward", kInward, in, chosen * in.blocks(width));
      kernel.params.insert(kernel.params.end(), {{"x", at(op.x)},
                                                 {"weight", at(op.weight)},
                                                 {"first", both.first},
                                                 {"end", both.end},
                                                 {"gate_first", gate.first},
                                                 {"up_first", up.first}});
      kernel.snippets.insert(kernel.snippets.end(), {kMath, activation_text(op.kind)});
      use_weight(kernel, "gate", op.gate, g);
      use_weight(kernel, "up", op.up, u);
      add(kernel);
    }

  const std::vector<WeightTile>& downs = layout_.matrix(op.down).tiles;
  for (uint32_t tile = 0; tile < downs.size(); ++tile) {
    const ExpertRange range = experts_of(downs[tile], hidden);
    Kernel kernel = kernel_of("experts_outward", kOutward, out, out.blocks(hidden));
    kernel.params.insert(kernel.params.end(), {{"out", at(op.out)}, {"first", range.first}, {"end", range.end}});
    use_weight(kernel, "down", op.down, tile);
    add(kernel);
  }
}

}  // namespace sluice::webgpu
