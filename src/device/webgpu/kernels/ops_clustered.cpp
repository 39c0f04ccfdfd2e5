// clustered_logits: one workgroup for each row finds its clusters, as route does; a thread for each of their tokens
// computes its logit in place of a mark; and the tokens that still have the mark get the rest.
#include <algorithm>
#include <bit>

#include "device/webgpu/emitter.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kMostThreads = 256;
constexpr uint32_t kChunk = 4096;  // tokens of a workgroup
constexpr float kMark = -3.0e38f;  // no logit

constexpr const char* kChoose = R"(
const FOURS = (CLUSTERS + 3u) / 4u;
var<workgroup> keys: array<vec4u, FOURS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let row = group_index(group, groups);
  if (row >= rows()) { return; }
  for (var four = thread; four < FOURS; four += THREADS) {
    var own = vec4u();
    for (var i = 0u; i < 4u; i++) {
      let cluster = four * 4u + i;
      if (cluster < CLUSTERS) { own[i] = key_of(load(p.scores + row * CLUSTERS + cluster)); }
    }
    keys[four] = own;
  }
  workgroupBarrier();
  for (var cluster = thread; cluster < CLUSTERS; cluster += THREADS) {
    let own = keys[cluster / 4u][cluster % 4u];
    var before = vec4u();
    for (var four = 0u; four < FOURS; four++) {
      let others = keys[four];
      let is_equal = (others == vec4u(own)) & (vec4u(0u, 1u, 2u, 3u) + four * 4u < vec4u(cluster));
      before += select(vec4u(0u), vec4u(1u), (others > vec4u(own)) | is_equal);
    }
    let place = before.x + before.y + before.z + before.w;
    if (place < CHOSEN) { memory[p.chosen + row * CHOSEN + place] = cluster; }
  }
}
)";

// token_at(row, i): the i-th token of the row's clusters.
constexpr const char* kTokens = R"(
fn token_at(row: u32, i: u32) -> u32 {
  let cluster = word(p.chosen + row * CHOSEN + i / OF_CLUSTER);
  return u32(factors[p.order + cluster * OF_CLUSTER + i % OF_CLUSTER] + 0.5);
}
)";

constexpr const char* kProducts = R"(
const PARTS = (WIDTH + 15u) / 16u;
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups) * THREADS + thread;
  if (i >= rows() * CHOSEN * OF_CLUSTER) { return; }
  let row = i / (CHOSEN * OF_CLUSTER);
  let token = token_at(row, i % (CHOSEN * OF_CLUSTER));
  let in_tile = token - p.first_row;
  if (in_tile >= p.tile_rows) { return; }
  var sum = 0.0;
  for (var part = 0u; part < PARTS; part++) {
    let w = w_16(in_tile, part);
    for (var k = 0u; k < 16u && part * 16u + k < WIDTH; k++) {
      sum = fma(w[k / 4u][k % 4u], load(p.x + row * WIDTH + part * 16u + k), sum);
    }
  }
  store(p.out + row * TOKENS + token, sum);
}
)";

constexpr const char* kRest = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let number = group_index(group, groups);
  let row = number / CHUNKS;
  if (row >= rows()) { return; }
  let begin = p.out + row * TOKENS;
  var negative = p.mark;
  for (var i = thread; i < CHOSEN * OF_CLUSTER; i += THREADS) {
    negative = max(negative, -load(begin + token_at(row, i)));
  }
  let rest = -max_all(negative, thread) - 1.0;
  let chunk = number % CHUNKS * CHUNK;
  for (var token = chunk + thread; token < min(chunk + CHUNK, TOKENS); token += THREADS) {
    if (load(begin + token) == p.mark) { store(begin + token, rest); }
  }
}
)";

}  // namespace

void Emitter::emit(const ClusteredLogits& op) {
  const uint32_t clusters = columns(op.scores), tokens = columns(op.out);
  const uint32_t of_cluster = program_.weights[op.order].shape.columns;
  const uint32_t chosen = scratch(most_rows(type(op.out).extent) * op.k);
  const Extent extent = type(op.out).extent;
  const uint32_t threads = std::clamp(std::bit_ceil(clusters), kThreads, kMostThreads);
  Kernel choose{.name = "clustered_choose", .body = kChoose, .extent = extent, .threads = threads};
  choose.constants = {{"CLUSTERS", clusters}, {"CHOSEN", op.k}};
  choose.params = {{"scores", at(op.scores)}, {"chosen", chosen}};
  choose.bindings = {memory()};
  choose.snippets = {kMath, kSortKeys};
  add(choose);

  Kernel mark = elementwise("clustered_mark", "fn element(i: u32) -> f32 { return p.mark; }\n", op.out);
  mark.params.push_back({"mark", kMark});
  add(mark);

  const std::vector<Number> sizes = {{"CHOSEN", op.k}, {"OF_CLUSTER", of_cluster}, {"TOKENS", tokens}};
  const std::vector<Number> places = {{"chosen", chosen}, {"order", layout_.factor(op.order)}, {"out", at(op.out)}};
  const std::vector<WeightTile>& tiles = layout_.matrix(op.table).tiles;
  for (uint32_t tile = 0; tile < tiles.size(); ++tile) {
    Kernel products{.name = "clustered_products", .body = kProducts, .extent = extent};
    products.constants = sizes;
    products.constants.push_back({"WIDTH", columns(op.x)});
    products.params = places;
    products.params.insert(products.params.end(), {{"x", at(op.x)},
                                                   {"first_row", static_cast<uint32_t>(tiles[tile].first_row)},
                                                   {"tile_rows", static_cast<uint32_t>(tiles[tile].rows)}});
    products.bindings = {memory(), factors(), weight("w", op.table, tile)};
    products.snippets = {decoder(op.table, "w"), kTokens};
    products.grid = {.items = uint64_t{op.k} * of_cluster, .per = kThreads};
    add(products);
  }

  const auto chunks = static_cast<uint32_t>(divide_up(tokens, kChunk));
  Kernel rest{.name = "clustered_rest", .body = kRest, .extent = extent, .threads = kMostThreads};
  rest.constants = sizes;
  rest.constants.insert(rest.constants.end(), {{"CHUNKS", chunks}, {"CHUNK", kChunk}});
  rest.params = places;
  rest.params.push_back({"mark", kMark});
  rest.bindings = {memory(), factors()};
  rest.snippets = {kTokens};
  use_reduce(rest, adapter_);
  rest.grid = {.items = chunks, .per = 1};
  add(rest);
}

}  // namespace sluice::webgpu
