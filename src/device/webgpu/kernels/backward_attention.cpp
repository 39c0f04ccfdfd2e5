// attention_backward: tables of the scores of some queries and heads at a time, so that memory does not grow with the
// square of the rows.
//
//   seen      the rows that each query sees, and those that some query of a tile sees
//   products  for each block of queries and heads: the products of queries and keys, and those of the queries'
//             gradients and values, where a tile of queries sees some of a tile of keys
//   shares    a workgroup for each row of a head: the softmax. The first table's products become the gradients of those
//             products, and the second's shares
//   sums      d_q, and by head of queries d_k and d_v, whose sums go on in later blocks of queries
//   heads     d_k and d_v of a kv head are the sums of its heads, in ascending order
//
// A table has a row for each query of a head, with a column for each row of the step. What a query does not see is 0
// there, so no bit of a row depends on other sequences of the step.
#include <algorithm>

#include "base/check.h"
#include "device/webgpu/emitter.h"
#include "device/webgpu/kernels/tiled_products.h"

namespace sluice::webgpu {
namespace {

// The most of a block: words of a table, tiles of queries, heads. Smaller where the GPU is a processor, so that small
// tests have several blocks.
struct BlockLimits {
  uint64_t words = uint64_t{8} << 20, tiles = ~uint64_t{0}, heads = ~uint64_t{0};
};
BlockLimits block_limits(const Adapter& adapter) {
  return adapter.is_software ? BlockLimits{.tiles = 4, .heads = 2} : BlockLimits{};
}
constexpr uint64_t kManyRows = 1024;  // tiles are those of many rows and columns, so that one number describes all
constexpr uint32_t kShareThreads = 128;

// Rows begin to end - 1 of the step are seen by a row. `seen` has two words for each query, `tiles` for each tile of
// queries.
constexpr const char* kSeen = R"(
var<workgroup> begins: array<u32, TILE>;
var<workgroup> ends: array<u32, TILE>;

fn seen_by(row: u32) -> vec2u {
  let own = first_row(sequence(step_row(row)));
  let first_position = position(own);
  return vec2u(own + max(first_seen(row), first_position) - first_position, own + last_seen(row) - first_position + 1u);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let tile = group_index(group, groups);
  if (tile * TILE >= rows()) { return; }
  let row = tile * TILE + thread;
  var seen = vec2u(~0u, 0u);
  if (row < rows()) {
    seen = seen_by(row);
    memory[p.seen + row * 2u] = seen.x;
    memory[p.seen + row * 2u + 1u] = seen.y;
  }
  begins[thread] = seen.x;
  ends[thread] = seen.y;
  workgroupBarrier();
  if (thread > 0u) { return; }
  for (var r = 1u; r < TILE; r++) { seen = vec2u(min(seen.x, begins[r]), max(seen.y, ends[r])); }
  memory[p.tiles + tile * 2u] = seen.x;
  memory[p.tiles + tile * 2u + 1u] = seen.y;
}
)";

constexpr const char* kBlock = R"(
fn block_end() -> u32 { return min(query_rows(), p.first_row + BLOCK_ROWS); }
fn table_row(head: u32, row: u32) -> u32 { return ((head - p.first_head) * BLOCK_ROWS + row - p.first_row) * TABLE_STRIDE; }
fn tile_sees(row: u32) -> vec2u {
  let at = p.tiles + row / TILE * 2u;
  return vec2u(word(at), word(at + 1u));
}
)";

// A tile of queries (left) by keys (right), sums over their WIDTH elements.
constexpr const char* kProducts = R"(
fn job_of(group: u32) -> Job {
  const kBlocks = TABLE_STRIDE / TILE;
  let key = group % kBlocks * TILE;
  let row = p.first_row + group / kBlocks / BLOCK_HEADS * TILE;
  if (row >= block_end()) { return no_job(); }
  let sees = tile_sees(row);
  if (key >= sees.y || key + TILE <= sees.x) { return no_job(); }
  return Job(row, block_end(), key, key_rows(), 0u, WIDTH, p.first_head + group / kBlocks % BLOCK_HEADS);
}
fn left_at(job: Job, m: u32, k: u32) -> f32 { return load(p.left + (m * HEADS + job.place) * WIDTH + k); }
fn right_at(job: Job, k: u32, n: u32) -> f32 { return load(p.right + (n * KEY_HEADS + job.place / GROUP) * WIDTH + k); }
fn finish(job: Job, m: u32, n: u32, sum: f32) { store(p.table + table_row(job.place, m) + n, sum); }
)";

constexpr const char* kShares = R"(
struct Score { score: f32, slope: f32 }
// The slope is that of the soft cap, with the scale.
fn scored(product: f32) -> Score {
  let score = product * p.scale;
  if (p.softcap <= 0.0) { return Score(score, p.scale); }
  let capped = exact_tanh(score / p.softcap);
  return Score(p.softcap * capped, p.scale * (1.0 - capped * capped));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let row = p.first_row + i / BLOCK_HEADS;
  if (row >= block_end()) { return; }
  let begin = word(p.seen + row * 2u);
  let end = word(p.seen + row * 2u + 1u);
  let at = table_row(p.first_head + i % BLOCK_HEADS, row);
  let products = p.products + at;
  let shares = p.shares + at;
  var own = -3.0e38;
  for (var k = begin + thread; k < end; k += THREADS) { own = max(own, scored(load(products + k)).score); }
  let largest = max_all(own, thread);
  var part = 0.0;
  var mixed = 0.0;
  for (var k = begin + thread; k < end; k += THREADS) {
    let share = exact_exp(scored(load(products + k)).score - largest);
    part += share;
    mixed = fma(share, load(shares + k), mixed);
  }
  let sum = sum_all(part, thread);
  let mean = sum_all(mixed, thread) / sum;
  for (var k = thread; k < key_rows(); k += THREADS) {
    var share = 0.0;
    var d = 0.0;
    if (k >= begin && k < end) {
      let score = scored(load(products + k));
      share = exact_exp(score.score - largest) / sum;
      d = share * (load(shares + k) - mean) * score.slope;
    }
    store(products + k, d);
    store(shares + k, select(share, d, is_nan(d)));
  }
}
)";

// A row that is not finite must not reach those that do not see it, by a product with 0. Those that see it have scores
// that are not finite.
constexpr const char* kIfFinite = R"(
fn if_finite(x: f32) -> f32 { return select(0.0, x, is_finite(x)); }
)";

// A tile of queries by elements, sums over keys.
constexpr const char* kSumsOfQueries = R"(
fn job_of(group: u32) -> Job {
  const kBlocks = (WIDTH + TILE - 1u) / TILE;
  let row = p.first_row + group / kBlocks / BLOCK_HEADS * TILE;
  if (row >= block_end()) { return no_job(); }
  let sees = tile_sees(row);
  return Job(row, block_end(), group % kBlocks * TILE, WIDTH, sees.x, sees.y,
             p.first_head + group / kBlocks % BLOCK_HEADS);
}
fn left_at(job: Job, m: u32, k: u32) -> f32 { return load(p.table + table_row(job.place, m) + k); }
fn right_at(job: Job, k: u32, n: u32) -> f32 {
  return if_finite(load(p.right + (k * KEY_HEADS + job.place / GROUP) * WIDTH + n));
}
fn finish(job: Job, m: u32, n: u32, sum: f32) { store(p.out + (m * HEADS + job.place) * WIDTH + n, sum); }
)";

// A tile of keys by elements, sums over the block's queries from the first tile that sees some of the keys to the last.
constexpr const char* kSumsOfKeys = R"(
fn job_of(group: u32) -> Job {
  const kBlocks = (WIDTH + TILE - 1u) / TILE;
  let key = group / kBlocks / BLOCK_HEADS * TILE;
  if (key >= key_rows()) { return no_job(); }
  var begin = block_end();
  var end = 0u;
  for (var row = p.first_row; row < block_end(); row += TILE) {
    let sees = tile_sees(row);
    if (key < sees.y && key + TILE > sees.x) {
      begin = min(begin, row);
      end = min(row + TILE, block_end());
    }
  }
  if (begin >= end) {
    if (p.first_row > 0u) { return no_job(); }
    begin = end;
  }
  return Job(key, key_rows(), group % kBlocks * TILE, WIDTH, begin, end, p.first_head + group / kBlocks % BLOCK_HEADS);
}
fn left_at(job: Job, m: u32, k: u32) -> f32 { return load(p.table + table_row(job.place, k) + m); }
fn right_at(job: Job, k: u32, n: u32) -> f32 {
  return if_finite(load(p.right + (k * HEADS + job.place) * WIDTH + n));
}
fn begin_of(job: Job, m: u32, n: u32) -> f32 {
  if (p.first_row == 0u) { return 0.0; }
  return load(p.out + (m * HEADS + job.place) * WIDTH + n);
}
fn finish(job: Job, m: u32, n: u32, sum: f32) { store(p.out + (m * HEADS + job.place) * WIDTH + n, sum); }
)";

constexpr const char* kAddHeads = R"(
fn element(i: u32) -> f32 {
  var sum = 0.0;
  for (var own = 0u; own < GROUP; own++) { sum += load(p.parts + (i / WIDTH * GROUP + own) * WIDTH + i % WIDTH); }
  return sum;
}
)";

}  // namespace

struct Emitter::ScoreBlock {
  const AttentionBackward& op;
  uint32_t heads = 0, key_heads = 0;
  uint32_t tile = 0;    // rows and columns
  uint32_t stride = 0;  // of a table's rows
  uint32_t rows = 0, first_row = 0, own_heads = 0, first_head = 0;
  uint32_t products = 0, shares = 0, seen = 0, tiles = 0;  // words of scratch
};

struct Emitter::ScoreProduct {
  const char* name = "";
  const char* job = "";
  uint32_t table = 0, left = 0, right = 0, out = 0;
  uint32_t width = 0;    // of rows on the right
  bool of_keys = false;  // the tiles' rows are keys
  bool sums = true;      // over rows, else over their elements
};

Kernel Emitter::of_scores(const char* name, const ScoreBlock& block, const Extent& extent) const {
  Kernel kernel{.name = name, .extent = extent};
  kernel.constants = {
      {"HEADS", block.heads},     {"KEY_HEADS", block.key_heads},   {"GROUP", block.heads / block.key_heads},
      {"BLOCK_ROWS", block.rows}, {"BLOCK_HEADS", block.own_heads}, {"TABLE_STRIDE", block.stride},
      {"TILE", block.tile}};
  kernel.params = {
      {"first_row", block.first_row}, {"first_head", block.first_head}, {"seen", block.seen}, {"tiles", block.tiles}};
  kernel.bindings = {memory()};
  kernel.snippets = {kMath, rows_function("query_rows", type(block.op.q).extent),
                     rows_function("key_rows", type(block.op.k).extent), kBlock};
  return kernel;
}

void Emitter::emit_seen(const ScoreBlock& block) {
  Kernel kernel{
      .name = "attention_backward_seen", .body = kSeen, .extent = type(block.op.q).extent, .threads = block.tile};
  kernel.constants = {{"TILE", block.tile}};
  kernel.params = {{"seen", block.seen}, {"tiles", block.tiles}};
  kernel.bindings = {memory()};
  kernel.snippets = {kMath};
  use_step_rows(kernel);
  use_sequence_rows(kernel);
  use_seen(kernel, block.op.forward());
  kernel.grid.per = block.tile;
  add(kernel);
}

void Emitter::emit_score_product(const ScoreBlock& block, const ScoreProduct& of) {
  Kernel kernel = of_scores(of.name, block, of.of_keys ? type(block.op.k).extent : type(block.op.q).extent);
  kernel.constants.push_back({"WIDTH", of.width});
  kernel.params.insert(kernel.params.end(),
                       {{"table", of.table}, {"left", of.left}, {"right", of.right}, {"out", of.out}});
  use_tiled_product(kernel, adapter_,
                    {.rows = kManyRows,
                     .columns = kManyRows,
                     .right = RightTable::elements,
                     .left_along_k = !of.of_keys,
                     .right_along_k = !of.sums,
                     .goes_on = of.of_keys});
  kernel.snippets.insert(kernel.snippets.end(), {kIfFinite, of.job});
  const uint64_t blocks = of.sums ? divide_up(of.width, block.tile) : block.stride / block.tile;
  kernel.grid = {.per = block.tile, .times = blocks * block.own_heads};
  if (!of.of_keys) {
    kernel.grid.first_row = block.first_row;
    kernel.grid.most_rows = block.rows;
  }
  add(kernel);
}

void Emitter::emit_shares(const ScoreBlock& block) {
  Kernel kernel = of_scores("attention_backward_shares", block, type(block.op.q).extent);
  kernel.params.insert(kernel.params.end(), {{"products", block.products},
                                             {"shares", block.shares},
                                             {"softcap", block.op.softcap},
                                             {"scale", block.op.scale}});
  kernel.threads = kShareThreads;
  use_reduce(kernel, adapter_);
  kernel.body = kShares;
  kernel.grid = {.items = block.own_heads, .first_row = block.first_row, .most_rows = block.rows};
  add(kernel);
}

void Emitter::emit(const AttentionBackward& op) {
  const ValueType &q = type(op.q), &k = type(op.k), &v = type(op.v);
  const ProductTile side = product_tile(adapter_, {.rows = kManyRows, .columns = kManyRows});
  CHECK(side.rows() == side.columns());
  const uint64_t queries = most_rows(q.extent), keys = most_rows(k.extent), tile = side.rows();
  const uint64_t stride = std::max<uint64_t>(divide_up(keys, tile), 1) * tile;
  const BlockLimits limits = block_limits(adapter_);
  const uint64_t tiles = std::max<uint64_t>(divide_up(queries, tile), 1);
  const uint64_t rows = std::clamp<uint64_t>(std::min(limits.words / stride / tile, limits.tiles), 1, tiles) * tile;
  const uint64_t at_once = std::clamp<uint64_t>(std::min(limits.words / stride / rows, limits.heads), 1, q.heads);
  ScoreBlock block{.op = op,
                   .heads = q.heads,
                   .key_heads = k.heads,
                   .tile = side.rows(),
                   .stride = static_cast<uint32_t>(stride),
                   .rows = static_cast<uint32_t>(rows)};
  block.products = scratch(at_once * rows * stride);
  block.shares = scratch(at_once * rows * stride);
  block.seen = scratch(queries * 2);
  block.tiles = scratch(divide_up(queries, tile) * 2);
  const uint32_t of_keys = scratch(keys * q.heads * k.width), of_values = scratch(keys * q.heads * v.width);
  emit_seen(block);
  for (; block.first_head < q.heads; block.first_head += block.own_heads) {
    block.own_heads = static_cast<uint32_t>(std::min<uint64_t>(at_once, q.heads - block.first_head));
    for (block.first_row = 0; block.first_row < queries; block.first_row += block.rows) {
      const auto product = [&](const char* name, const char* job, ScoreProduct of) {
        of.name = name;
        of.job = job;
        emit_score_product(block, of);
      };
      product("attention_backward_products", kProducts,
              {.table = block.products, .left = at(op.q), .right = at(op.k), .width = k.width, .sums = false});
      product("attention_backward_products", kProducts,
              {.table = block.shares, .left = at(op.d_out), .right = at(op.v), .width = v.width, .sums = false});
      emit_shares(block);
      product("attention_backward_queries", kSumsOfQueries,
              {.table = block.products, .right = at(op.k), .out = at(op.d_q), .width = k.width});
      product("attention_backward_keys", kSumsOfKeys,
              {.table = block.products, .right = at(op.q), .out = of_keys, .width = k.width, .of_keys = true});
      product("attention_backward_keys", kSumsOfKeys,
              {.table = block.shares, .right = at(op.d_out), .out = of_values, .width = v.width, .of_keys = true});
    }
  }
  const auto add_heads = [&](ValueId out, uint32_t parts) {
    Kernel sums = elementwise("attention_backward_heads", kAddHeads, out);
    sums.constants.insert(sums.constants.end(), {{"GROUP", q.heads / k.heads}, {"WIDTH", type(out).width}});
    sums.params.push_back({"parts", parts});
    add(sums);
  };
  add_heads(op.d_k, of_keys);
  add_heads(op.d_v, of_values);
}

}  // namespace sluice::webgpu
