#include "device/webgpu/kernels/tiled_products.h"

#include "base/check.h"
#include "base/text.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

// A thread's rows and columns are neighbours, so that it reads each of both as one vector. A tile of numbers along k in
// memory is read in pieces of 8, for 4 rows at once, so that neighbouring threads write to different memory banks.
constexpr const char* kJob = R"(
struct Job { m: u32, end_m: u32, n: u32, end_n: u32, k: u32, end_k: u32, place: u32 }
fn no_job() -> Job { return Job(0u, 0u, 0u, 0u, 0u, 0u, 0u); }
const TILE_ROWS = SIDE * ROWS_EACH;
const TILE_COLUMNS = SIDE * COLUMNS_EACH;
const STRIDE = SIDE + 1u;
alias Left = ${left};
alias Right = ${right};
var<workgroup> left_tile: array<Left, DEPTH * STRIDE>;
var<workgroup> right_tile: array<Right, DEPTH * STRIDE>;
fn keep_left(k: u32, m: u32, x: f32) { left_tile[k * STRIDE + m / ROWS_EACH]${of_row} = x; }
fn keep_right(k: u32, n: u32, x: f32) { right_tile[k * STRIDE + n / COLUMNS_EACH]${of_column} = x; }

struct Place { k: u32, side: u32 }
fn place_of(i: u32, sides: u32, along_k: bool) -> Place {
  if (!along_k) { return Place(i / sides, i % sides); }
  return Place(i / 4u % 8u + i / 32u % (DEPTH / 8u) * 8u, i % 4u + i / 32u / (DEPTH / 8u) * 4u);
}
)";

constexpr const char* kElements = R"(
const RIGHT_LOADS = DEPTH * TILE_COLUMNS / THREADS;
var<private> next_right: array<f32, RIGHT_LOADS>;
fn fetch_right(job: Job, first_k: u32, thread: u32) {
  for (var l = 0u; l < RIGHT_LOADS; l++) {
    let at = place_of(thread + l * THREADS, TILE_COLUMNS, RIGHT_ALONG_K == 1u);
    var x = 0.0;
    if (first_k + at.k < job.end_k && job.n + at.side < job.end_n) { x = right_at(job, first_k + at.k, job.n + at.side); }
    next_right[l] = x;
  }
}
fn stage_right(thread: u32) {
  for (var l = 0u; l < RIGHT_LOADS; l++) {
    let at = place_of(thread + l * THREADS, TILE_COLUMNS, RIGHT_ALONG_K == 1u);
    keep_right(at.k, at.side, next_right[l]);
  }
}
)";
// Units of sixteen decoded numbers.
constexpr const char* kUnits = R"(
const UNITS = DEPTH * TILE_COLUMNS / 16u;
const RIGHT_LOADS = (UNITS + THREADS - 1u) / THREADS;
var<private> next_right: array<mat4x4f, RIGHT_LOADS>;
fn fetch_right(job: Job, first_k: u32, thread: u32) {
  for (var l = 0u; l < RIGHT_LOADS; l++) { next_right[l] = unit_at(job, first_k, thread + l * THREADS); }
}
fn stage_right(thread: u32) {
  for (var l = 0u; l < RIGHT_LOADS; l++) {
    if (thread + l * THREADS < UNITS) { keep_unit(thread + l * THREADS, next_right[l]); }
  }
}
)";
constexpr const char* kAcross = R"(
const kParts = TILE_COLUMNS / 16u;
fn unit_at(job: Job, first_k: u32, unit: u32) -> mat4x4f {
  let k = first_k + unit / kParts;
  let n = job.n + unit % kParts * 16u;
  if (unit >= UNITS || k >= job.end_k || n >= job.end_n) { return mat4x4f(); }
  return w_16(weight_row(job, k), n / 16u);
}
fn keep_unit(unit: u32, numbers: mat4x4f) {
  var x = numbers;
  let k = unit / kParts;
  let n = unit % kParts * 16u;
${keep_sixteen}
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
fn unit_at(job: Job, first_k: u32, unit: u32) -> mat4x4f {
  let n = job.n + unit % TILE_COLUMNS;
  let k = first_k + unit / TILE_COLUMNS * 16u;
  if (unit >= UNITS || k >= job.end_k || n >= job.end_n) { return mat4x4f(); }
  return w_16(weight_row(job, n), k / 16u);
}
fn keep_unit(unit: u32, numbers: mat4x4f) {
  var x = numbers;
  let k = unit / TILE_COLUMNS * 16u;
  for (var j = 0u; j < 16u; j++) { keep_right(k + j, unit % TILE_COLUMNS, x[j / 4u][j % 4u]); }
}
)";

// While a tile is multiplied, the threads prefetch the next DEPTH numbers of its rows and columns.
constexpr const char* kBody = R"(
var<workgroup> shared_job: Job;
const LEFT_LOADS = DEPTH * TILE_ROWS / THREADS;
var<private> next_left: array<f32, LEFT_LOADS>;

fn fetch_left(job: Job, first_k: u32, thread: u32) {
  for (var l = 0u; l < LEFT_LOADS; l++) {
    let at = place_of(thread + l * THREADS, TILE_ROWS, LEFT_ALONG_K == 1u);
    var x = 0.0;
    if (first_k + at.k < job.end_k && job.m + at.side < job.end_m) { x = left_at(job, job.m + at.side, first_k + at.k); }
    next_left[l] = x;
  }
}
fn stage_left(thread: u32) {
  for (var l = 0u; l < LEFT_LOADS; l++) {
    let at = place_of(thread + l * THREADS, TILE_ROWS, LEFT_ALONG_K == 1u);
    keep_left(at.k, at.side, next_left[l]);
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
${begin}  fetch_left(job, job.k, thread);
  fetch_right(job, job.k, thread);
  for (var k = job.k; k < job.end_k; k += DEPTH) {
    stage_left(thread);
    stage_right(thread);
    workgroupBarrier();
    if (k + DEPTH < job.end_k) {
      fetch_left(job, k + DEPTH, thread);
      fetch_right(job, k + DEPTH, thread);
    }
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

constexpr const char* kBegin = R"(
  for (var j = 0u; j < ROWS_EACH; j++) {
    let m = job.m + row * ROWS_EACH + j;
    for (var i = 0u; i < COLUMNS_EACH; i++) {
      let n = job.n + column * COLUMNS_EACH + i;
      if (m < job.end_m && n < job.end_n) { sums[j]${of_i} = begin_of(job, m, n); }
    }
  }
)";

// Bytes of both tiles in workgroup memory.
uint64_t staged_bytes(const ProductTile& tile, uint32_t depth) {
  return uint64_t{depth} * (tile.side + 1) * (tile.rows_each + tile.columns_each) * sizeof(float);
}

// Numbers of a row or column that are staged at once: several for each thread, so that as many loads are under way.
uint32_t depth_of(const Adapter& adapter, const ProductTile& tile) {
  constexpr uint64_t kOtherBytes = 64;
  uint32_t depth = 16;
  if (adapter.is_software) return depth;
  const bool is_narrow = tile.rows_each == 1 && tile.columns_each == 1;
  while (depth < (is_narrow ? 64 : 32) && staged_bytes(tile, 2 * depth) + kOtherBytes <= adapter.workgroup_bytes)
    depth *= 2;
  return depth;
}

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
  const uint32_t depth = depth_of(adapter, tile);
  kernel.threads = tile.side * tile.side;
  CHECK(depth * tile.rows() % kernel.threads == 0 && depth * tile.columns() % kernel.threads == 0);
  kernel.constants.insert(kernel.constants.end(), {{"SIDE", tile.side},
                                                   {"DEPTH", depth},
                                                   {"ROWS_EACH", tile.rows_each},
                                                   {"COLUMNS_EACH", tile.columns_each},
                                                   {"LEFT_ALONG_K", product.left_along_k ? 1u : 0u},
                                                   {"RIGHT_ALONG_K", product.right_along_k ? 1u : 0u}});
  const uint32_t rows = tile.rows_each, columns = tile.columns_each;
  std::string right = kElements;
  if (product.right == RightTable::along) right = cat(kUnits, kAlong);
  if (product.right == RightTable::across)
    right = kUnits + fill(kAcross, {{"keep_sixteen", columns == 4 ? kKeepFours : kKeepSingly}});
  kernel.snippets.push_back(fill(kJob, {{"left", vector_of(rows)},
                                        {"right", vector_of(columns)},
                                        {"of_row", element_of(rows, "m % ROWS_EACH")},
                                        {"of_column", element_of(columns, "n % COLUMNS_EACH")}}));
  const std::string of_i = element_of(columns, "i");
  const std::string begin = product.goes_on ? fill(kBegin, {{"of_i", of_i}}) : "";
  kernel.body = right + fill(kBody, {{"of_m", element_of(rows, "m")}, {"of_i", of_i}, {"begin", begin}});
}

}  // namespace sluice::webgpu
