#include "device/webgpu/products.h"

namespace sluice::webgpu {

const char* const kStagedProduct = R"(
const LANES = 32u;
const STAGED = 128u;
var<workgroup> staged: array<vec4f, STAGED * 4u>;
const BLOCK_OUTPUTS = THREADS / LANES * OUTPUTS_EACH;
alias Sums = array<vec4f, OUTPUTS_EACH>;
var<workgroup> lane_sums: array<vec4f, THREADS>;

fn first_output(block: u32, thread: u32) -> u32 { return block * BLOCK_OUTPUTS + thread / LANES * OUTPUTS_EACH; }

fn stage(at: u32, columns: u32, begin: u32, count: u32, to: u32, thread: u32) {
  for (var i = thread; i < count * 4u; i += THREADS) {
    let column = begin * 16u + i * 4u;
    var x = vec4f();
    if (column + 4u <= columns) {
      x = vec4f(load(at + column), load(at + column + 1u), load(at + column + 2u), load(at + column + 3u));
    } else {
      for (var j = 0u; column + j < columns; j++) { x[j] = load(at + column + j); }
    }
    staged[to + i] = x;
  }
}
fn times_staged(weights: mat4x4f, at: u32) -> vec4f {
  return weights[0] * staged[at] + weights[1] * staged[at + 1u] + weights[2] * staged[at + 2u] +
         weights[3] * staged[at + 3u];
}
fn sum_lanes(own: Sums, thread: u32) -> vec4f {
  var x = vec4f();
  for (var o = 0u; o < OUTPUTS_EACH; o++) { x[o] = (own[o].x + own[o].y) + (own[o].z + own[o].w); }
  workgroupBarrier();
  lane_sums[thread] = x;
  for (var step = LANES / 2u; step > 0u; step = step / 2u) {
    workgroupBarrier();
    if (thread % LANES < step) { lane_sums[thread] += lane_sums[thread + step]; }
  }
  workgroupBarrier();
  return lane_sums[thread / LANES * LANES];
}
)";

}  // namespace sluice::webgpu
