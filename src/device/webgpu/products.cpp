#include "device/webgpu/products.h"

#include <algorithm>

#include "base/text.h"
#include "device/webgpu/kernel.h"

namespace sluice::webgpu {
namespace {

constexpr uint64_t kEnoughWorkgroups = 512;  // a few for each processor of a large GPU

constexpr const char* kStagedProduct = R"(
const STAGED = 128u;
var<workgroup> staged: array<vec4f, STAGED * 4u>;
const BLOCK_OUTPUTS = THREADS / LANES * OUTPUTS_EACH;
alias Sums = array<vec4f, OUTPUTS_EACH>;

fn first_output(block: u32, thread: u32) -> u32 { return block * BLOCK_OUTPUTS + thread / LANES * OUTPUTS_EACH; }

fn stage(at: u32, columns: u32, begin: u32, count: u32, to: u32, thread: u32) {
  for (var n = 0u; n < STAGED * 4u / THREADS; n++) {
    let i = thread + n * THREADS;
    if (i >= count * 4u) { continue; }
    let column = begin * 16u + i * 4u;
    var x = vec4f();
    if (columns % 16u == 0u || column + 4u <= columns) {
      x = vec4f(load(at + column), load(at + column + 1u), load(at + column + 2u), load(at + column + 3u));
    } else {
      for (var j = 0u; column + j < columns; j++) { x[j] = load(at + column + j); }
    }
    staged[to + i] = x;
  }
}
struct Part { a: vec4f, b: vec4f, c: vec4f, d: vec4f }
fn staged_part(at: u32) -> Part { return Part(staged[at], staged[at + 1u], staged[at + 2u], staged[at + 3u]); }
fn add_part(sum: vec4f, weights: mat4x4f, x: Part) -> vec4f {
  return fma(weights[3], x.d, fma(weights[2], x.c, fma(weights[1], x.b, fma(weights[0], x.a, sum))));
}
fn total(x: vec4f) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn sum_lanes(own: Sums, thread: u32) -> vec4f {
  var x = vec4f();
  for (var o = 0u; o < OUTPUTS_EACH; o++) { x[o] = total(own[o]); }
  return sum_team(x, thread);
}
)";

// Steps of at least SUBGROUP lanes apart in workgroup memory, the others, where there are, within subgroups.
constexpr const char* kStepsInMemory = R"(
var<workgroup> lane_sums: array<vec4f, THREADS>;
fn sum_far(x: vec4f, thread: u32) -> vec4f {
  workgroupBarrier();
  lane_sums[thread] = x;
  for (var step = LANES / 2u; step >= SUBGROUP; step = step / 2u) {
    workgroupBarrier();
    if (thread % LANES < step) { lane_sums[thread] += lane_sums[thread + step]; }
  }
  workgroupBarrier();
  return lane_sums[thread / LANES * LANES + thread % SUBGROUP];
}
)";
constexpr const char* kNoFarSteps = R"(
fn sum_far(x: vec4f, thread: u32) -> vec4f { return x; }
)";
constexpr const char* kStepsInSubgroup = R"(
fn sum_team(own: vec4f, thread: u32) -> vec4f {
  var x = sum_far(own, thread);
  for (var step = min(LANES, SUBGROUP) / 2u; step > 0u; step = step / 2u) { x += subgroupShuffleXor(x, step); }
  return x;
}
)";
constexpr const char* kNoNearSteps = R"(
fn sum_team(own: vec4f, thread: u32) -> vec4f { return sum_far(own, thread); }
)";

}  // namespace

ProductShape product_shape(const Adapter& adapter, uint64_t outputs) {
  ProductShape shape;
  if (adapter.is_software) return shape;  // whose drivers take long over unrolled loops
  for (const uint32_t each : {2u, 4u})
    if (outputs / (kProductThreads / kProductLanes * each) >= kEnoughWorkgroups) shape.outputs_each = each;
  return shape;
}

std::string staged_product(const Adapter& adapter, const ProductShape& shape) {
  const uint32_t subgroup = subgroup_lanes(adapter);
  return cat("const LANES = ", kProductLanes, "u;\nconst OUTPUTS_EACH = ", shape.outputs_each, "u;\n", kStagedProduct,
             subgroup == 0 ? "const SUBGROUP = 1u;\n" : "", subgroup < kProductLanes ? kStepsInMemory : kNoFarSteps,
             subgroup == 0 ? kNoNearSteps : kStepsInSubgroup);
}

}  // namespace sluice::webgpu
