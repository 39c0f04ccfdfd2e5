// gather, scatter, pool, slice: a thread for each element. embed: a thread for each 16.
#include "device/webgpu/emitter.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

constexpr const char* kByIndex = R"(
fn element(i: u32) -> f32 {
  let row = memory[p.index + i / WIDTH];
  if (row == NO_ROW) { return ${otherwise}; }
  return load(p.rows + row * WIDTH + i % WIDTH);
}
)";

// Embeds the ids whose rows are in this tile of the table.
constexpr const char* kEmbed = R"(
const PARTS = (WIDTH + 15u) / 16u;
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups) * THREADS + thread;
  if (i >= rows() * IDS * PARTS) { return; }
  let row = word(p.ids + i / PARTS) - p.first_row;
  if (row >= p.tile_rows) { return; }
  let part = i % PARTS;
  let x = w_16(row, part);
  let to = p.out + i / PARTS * WIDTH + part * 16u;
  for (var k = 0u; k < 16u && part * 16u + k < WIDTH; k++) { store(to + k, x[k / 4u][k % 4u] * p.scale); }
}
)";

}  // namespace

// With one id a row the host decodes the rows of the table, so there is nothing to emit.
void Emitter::emit(const Embed& op) {
  if (is_decoded_by_host(program_, op)) return;
  const uint32_t width = type(op.out).width, ids = type(op.ids).width;
  const std::vector<WeightTile>& tiles = layout_.matrix(op.weight).tiles;
  for (uint32_t tile = 0; tile < tiles.size(); ++tile) {
    Kernel kernel{.name = "embed", .body = kEmbed, .extent = type(op.out).extent};
    kernel.constants = {{"WIDTH", width}, {"IDS", ids}};
    kernel.params = {{"ids", at(op.ids)},
                     {"out", at(op.out)},
                     {"scale", op.scale},
                     {"first_row", static_cast<uint32_t>(tiles[tile].first_row)},
                     {"tile_rows", static_cast<uint32_t>(tiles[tile].rows)}};
    kernel.bindings = {memory(), weight("w", op.weight, tile)};
    kernel.snippets = {decoder(op.weight, "w")};
    kernel.grid = {.items = uint64_t{ids} * ((width + 15) / 16), .per = kThreads};
    add(kernel);
  }
}

void Emitter::emit(const Gather& op) {
  Kernel kernel = elementwise("gather", fill(kByIndex, {{"otherwise", "0.0"}}), op.out);
  use_index(kernel, op.x, op.index);
  add(kernel);
}

void Emitter::emit(const Scatter& op) {
  if (layout_.is_by_host(op)) return;
  Kernel kernel = elementwise("scatter", fill(kByIndex, {{"otherwise", "load(p.x + i)"}}), op.out);
  use_index(kernel, op.rows, op.index);
  kernel.params.push_back({"x", at(op.x)});
  add(kernel);
}

void Emitter::use_index(Kernel& kernel, ValueId rows, ValueId index) const {
  kernel.constants.insert(kernel.constants.end(), {{"WIDTH", columns(rows)}, {"NO_ROW", ~0u}});
  kernel.params.insert(kernel.params.end(), {{"rows", at(rows)}, {"index", at(index)}});
}

void Emitter::use_shares(Kernel& kernel, ValueId shares) const {
  if (shares == kNone) {
    kernel.snippets.emplace_back("fn share(at: u32) -> f32 { return 1.0; }\n");
    return;
  }
  kernel.params.push_back({"shares", at(shares)});
  kernel.snippets.emplace_back("fn share(at: u32) -> f32 { return load(p.shares + at); }\n");
}

void Emitter::emit(const Pool& op) {
  Kernel kernel = elementwise("pool", R"(
fn element(i: u32) -> f32 {
  let row = i / COLUMNS;
  var sum = 0.0;
  for (var head = 0u; head < HEADS; head++) {
    sum = fma(share(row * HEADS + head), load(p.x + (row * HEADS + head) * COLUMNS + i % COLUMNS), sum);
  }
  return sum * p.factor;
}
)",
                              op.out);
  kernel.constants.push_back({"HEADS", type(op.x).heads});
  kernel.params.insert(kernel.params.end(), {{"x", at(op.x)}, {"factor", op.factor}});
  use_shares(kernel, op.shares);
  add(kernel);
}

void Emitter::emit(const Slice& op) {
  Kernel kernel = elementwise("slice", R"(
fn element(i: u32) -> f32 {
  let head = i % COLUMNS / WIDTH;
  return load(p.x + i / COLUMNS * X_COLUMNS + (p.first_head + head * p.stride) * WIDTH + i % WIDTH);
}
)",
                              op.out);
  kernel.constants.insert(kernel.constants.end(), {{"WIDTH", type(op.x).width}, {"X_COLUMNS", columns(op.x)}});
  kernel.params.insert(kernel.params.end(), {{"x", at(op.x)}, {"first_head", op.first_head}, {"stride", op.stride}});
  add(kernel);
}

}  // namespace sluice::webgpu
