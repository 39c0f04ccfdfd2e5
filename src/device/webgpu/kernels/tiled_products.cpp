#include "device/webgpu/kernels/tiled_products.h"

namespace sluice::webgpu {
namespace {

constexpr const char* kJob = R"(
struct Job { m: u32, end_m: u32, n: u32, end_n: u32, k: u32, end_k: u32, place: u32 }
fn no_job() -> Job { return Job(0u, 0u, 0u, 0u, 0u, 0u, 0u); }
const TILE_ROWS = SIDE * ROWS_EACH;
const TILE_COLUMNS = SIDE * COLUMNS_EACH;
const DEPTH = 16u;  // numbers of a row or column that are staged at once
const LEFT_STRIDE = TILE_ROWS + 1u;
const RIGHT_STRIDE = TILE_COLUMNS + 1u;
var<workgroup> left_tile: array<f32, DEPTH * LEFT_STRIDE>;
var<workgroup> right_tile: array<f32, DEPTH * RIGHT_STRIDE>;
)";

constexpr const char* kElements = R"(
fn stage_right(job: Job, first_k: u32, thread: u32) {
  for (var i = thread; i < DEPTH * TILE_COLUMNS; i += THREADS) {
    let k = i / TILE_COLUMNS;
    let n = i % TILE_COLUMNS;
    var x = 0.0;
    if (first_k + k < job.end_k && job.n + n < job.end_n) { x = right_at(job, first_k + k, job.n + n); }
    right_tile[k * RIGHT_STRIDE + n] = x;
  }
}
)";
constexpr const char* kAcross = R"(
fn stage_right(job: Job, first_k: u32, thread: u32) {
  const kParts = TILE_COLUMNS / 16u;
  for (var i = thread; i < DEPTH * kParts; i += THREADS) {
    let k = i / kParts;
    let n = i % kParts * 16u;
    var x = mat4x4f();
    if (first_k + k < job.end_k && job.n + n < job.end_n) {
      x = w_16(weight_row(job, first_k + k), (job.n + n) / 16u);
    }
    for (var j = 0u; j < 16u; j++) { right_tile[k * RIGHT_STRIDE + n + j] = x[j / 4u][j % 4u]; }
  }
}
)";
constexpr const char* kAlong = R"(
fn stage_right(job: Job, first_k: u32, thread: u32) {
  for (var n = thread; n < TILE_COLUMNS; n += THREADS) {
    var x = mat4x4f();
    if (job.n + n < job.end_n) { x = w_16(weight_row(job, job.n + n), first_k / 16u); }
    for (var j = 0u; j < 16u; j++) { right_tile[j * RIGHT_STRIDE + n] = x[j / 4u][j % 4u]; }
  }
}
)";

constexpr const char* kBody = R"(
var<workgroup> shared_job: Job;

fn stage_left(job: Job, first_k: u32, thread: u32) {
  for (var i = thread; i < DEPTH * TILE_ROWS; i += THREADS) {
    let k = select(i / TILE_ROWS, i % DEPTH, LEFT_ALONG_K == 1u);
    let m = select(i % TILE_ROWS, i / DEPTH, LEFT_ALONG_K == 1u);
    var x = 0.0;
    if (first_k + k < job.end_k && job.m + m < job.end_m) { x = left_at(job, job.m + m, first_k + k); }
    left_tile[k * LEFT_STRIDE + m] = x;
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  if (thread == 0u) { shared_job = job_of(group_index(group, groups)); }
  let job = workgroupUniformLoad(&shared_job);
  if (job.m >= job.end_m || job.n >= job.end_n) { return; }
  let row = thread / SIDE;
  let column = thread % SIDE;
  var sums: array<array<f32, COLUMNS_EACH>, ROWS_EACH>;
  for (var k = job.k; k < job.end_k; k += DEPTH) {
    stage_left(job, k, thread);
    stage_right(job, k, thread);
    workgroupBarrier();
    for (var i = 0u; i < DEPTH; i++) {
      var right: array<f32, COLUMNS_EACH>;
      for (var n = 0u; n < COLUMNS_EACH; n++) { right[n] = right_tile[i * RIGHT_STRIDE + column + SIDE * n]; }
      for (var m = 0u; m < ROWS_EACH; m++) {
        let left = left_tile[i * LEFT_STRIDE + row + SIDE * m];
        for (var n = 0u; n < COLUMNS_EACH; n++) { sums[m][n] = fma(left, right[n], sums[m][n]); }
      }
    }
    workgroupBarrier();
  }
  for (var j = 0u; j < ROWS_EACH; j++) {
    let m = job.m + row + SIDE * j;
    for (var i = 0u; i < COLUMNS_EACH; i++) {
      let n = job.n + column + SIDE * i;
      if (m < job.end_m && n < job.end_n) { finish(job, m, n, sums[j][i]); }
    }
  }
}
)";

}  // namespace

// On processors tiles are smaller, because their drivers compile unrolled loops slowly.
ProductTile product_tile(const Adapter& adapter, const TiledProduct& product) {
  ProductTile tile;
  if (adapter.is_software) tile = {.side = 8, .rows_each = 2, .columns_each = 2};
  if (product.rows <= tile.side) tile.rows_each = 1;
  // A decoder makes 16 columns at once.
  if (product.columns <= tile.side && tile.side % 16 == 0) tile.columns_each = 1;
  return tile;
}

void use_tiled_product(Kernel& kernel, const Adapter& adapter, const TiledProduct& product) {
  const ProductTile tile = product_tile(adapter, product);
  kernel.threads = tile.side * tile.side;
  kernel.constants.insert(kernel.constants.end(), {{"SIDE", tile.side},
                                                   {"ROWS_EACH", tile.rows_each},
                                                   {"COLUMNS_EACH", tile.columns_each},
                                                   {"LEFT_ALONG_K", product.left_along_k ? 1u : 0u}});
  kernel.snippets.emplace_back(kJob);
  kernel.body = product.right == RightTable::elements ? kElements
                : product.right == RightTable::across ? kAcross
                                                      : kAlong;
  kernel.body += kBody;
}

}  // namespace sluice::webgpu
