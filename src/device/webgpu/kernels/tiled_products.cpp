#include "device/webgpu/kernels/tiled_products.h"

#include "base/check.h"
#include "base/text.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

// A thread's rows and columns are neighbours, so that it reads each of both as one vector.
constexpr const char* kJob = R"(
struct Job { m: u32, end_m: u32, n: u32, end_n: u32, k: u32, end_k: u32, place: u32 }
fn no_job() -> Job { return Job(0u, 0u, 0u, 0u, 0u, 0u, 0u); }
const TILE_ROWS = SIDE * ROWS_EACH;
const TILE_COLUMNS = SIDE * COLUMNS_EACH;
const DEPTH = 16u;  // numbers of a row or column that are staged at once
const STRIDE = SIDE + 1u;
alias Left = ${left};
alias Right = ${right};
var<workgroup> left_tile: array<Left, DEPTH * STRIDE>;
var<workgroup> right_tile: array<Right, DEPTH * STRIDE>;
fn keep_left(k: u32, m: u32, x: f32) { left_tile[k * STRIDE + m / ROWS_EACH]${of_row} = x; }
fn keep_right(k: u32, n: u32, x: f32) { right_tile[k * STRIDE + n / COLUMNS_EACH]${of_column} = x; }
)";

constexpr const char* kElements = R"(
fn stage_right(job: Job, first_k: u32, thread: u32) {
  for (var i = thread; i < DEPTH * TILE_COLUMNS; i += THREADS) {
    let k = i / TILE_COLUMNS;
    let n = i % TILE_COLUMNS;
    var x = 0.0;
    if (first_k + k < job.end_k && job.n + n < job.end_n) { x = right_at(job, first_k + k, job.n + n); }
    keep_right(k, n, x);
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
${keep_sixteen}
  }
}
)";
// Sixteen neighbouring numbers, as fours where a thread has four columns.
constexpr const char* kKeepFours = R"(
    let at = k * STRIDE + n / 4u;
    for (var j = 0u; j < 4u; j++) { right_tile[at + j] = x[j]; }
)";
constexpr const char* kKeepSingly = R"(
    for (var j = 0u; j < 16u; j++) { keep_right(k, n + j, x[j / 4u][j % 4u]); }
)";
constexpr const char* kAlong = R"(
fn stage_right(job: Job, first_k: u32, thread: u32) {
  for (var n = thread; n < TILE_COLUMNS; n += THREADS) {
    var x = mat4x4f();
    if (job.n + n < job.end_n) { x = w_16(weight_row(job, job.n + n), first_k / 16u); }
    for (var j = 0u; j < 16u; j++) { keep_right(j, n, x[j / 4u][j % 4u]); }
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
    keep_left(k, m, x);
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
  var sums: array<Right, ROWS_EACH>;
  for (var k = job.k; k < job.end_k; k += DEPTH) {
    stage_left(job, k, thread);
    stage_right(job, k, thread);
    workgroupBarrier();
    for (var i = 0u; i < DEPTH; i++) {
      let left = left_tile[i * STRIDE + row];
      let right = right_tile[i * STRIDE + column];
      for (var m = 0u; m < ROWS_EACH; m++) { sums[m] = fma(Right(left${of_m}), right, sums[m]); }
    }
    workgroupBarrier();
  }
  for (var j = 0u; j < ROWS_EACH; j++) {
    let m = job.m + row * ROWS_EACH + j;
    for (var i = 0u; i < COLUMNS_EACH; i++) {
      let n = job.n + column * COLUMNS_EACH + i;
      if (m < job.end_m && n < job.end_n) { finish(job, m, n, sums[j]${of_i}); }
    }
  }
}
)";

const char* vector_of(uint32_t numbers) {
  CHECK(numbers == 1 || numbers == 2 || numbers == 4);
  return numbers == 1 ? "f32" : numbers == 2 ? "vec2f" : "vec4f";
}
std::string element_of(uint32_t numbers, const char* index) { return numbers == 1 ? "" : cat('[', index, ']'); }

}  // namespace

// On processors tiles are smaller, because their drivers compile unrolled loops slowly.
ProductTile product_tile(const Adapter& adapter, const TiledProduct& product) {
  ProductTile tile;
  if (adapter.is_software) tile = {.side = 8, .rows_each = 2, .columns_each = 2};
  // With one narrow side there are few tiles, so they are small along the other side, too. A decoder makes 16 columns
  // at once.
  const bool narrow_columns = product.columns <= tile.side && tile.side % 16 == 0;
  if (product.rows <= tile.side || narrow_columns) tile.rows_each = 1;
  if ((product.rows <= tile.side && tile.side % 16 == 0) || narrow_columns) tile.columns_each = 1;
  return tile;
}

void use_tiled_product(Kernel& kernel, const Adapter& adapter, const TiledProduct& product) {
  const ProductTile tile = product_tile(adapter, product);
  kernel.threads = tile.side * tile.side;
  kernel.constants.insert(kernel.constants.end(), {{"SIDE", tile.side},
                                                   {"ROWS_EACH", tile.rows_each},
                                                   {"COLUMNS_EACH", tile.columns_each},
                                                   {"LEFT_ALONG_K", product.left_along_k ? 1u : 0u}});
  const uint32_t rows = tile.rows_each, columns = tile.columns_each;
  std::string right = product.right == RightTable::elements ? kElements : kAlong;
  if (product.right == RightTable::across)
    right = fill(kAcross, {{"keep_sixteen", columns == 4 ? kKeepFours : kKeepSingly}});
  kernel.snippets.push_back(fill(kJob, {{"left", vector_of(rows)},
                                        {"right", vector_of(columns)},
                                        {"of_row", element_of(rows, "m % ROWS_EACH")},
                                        {"of_column", element_of(columns, "n % COLUMNS_EACH")}}));
  kernel.body = right + fill(kBody, {{"of_m", element_of(rows, "m")}, {"of_i", element_of(columns, "i")}});
}

}  // namespace sluice::webgpu
