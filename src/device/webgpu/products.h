// Text that kernels of matrix times vector share.
//
// A workgroup is kProductThreads threads in teams of 32 (LANES); a team makes OUTPUTS_EACH numbers, of as many rows of
// the weight: one on processors, whose drivers take long over unrolled loops.
// The vector is staged in workgroup memory, at most STAGED parts of 16 columns at a time. Lane l takes parts l, l + 32,
// ... in ascending order, and the lanes are added as a tree: one order, whatever is computed beside it.
#pragma once

#include <cstdint>

#include "device/webgpu/host.h"

namespace sluice::webgpu {

inline constexpr uint32_t kProductThreads = 128;
inline uint32_t product_outputs_each(const Adapter& adapter) { return adapter.is_software ? 1 : 4; }
// Workgroups for so many outputs.
inline uint64_t product_blocks(const Adapter& adapter, uint64_t outputs) {
  const uint64_t of_one = kProductThreads / 32 * product_outputs_each(adapter);
  return (outputs + of_one - 1) / of_one;
}

// stage(at, columns, begin, count, to, thread): parts [begin, begin + count) of the vector of `columns` at that word of
//   memory, from staged[to] on, 0 behind its end; barriers are the caller's.
// times_staged(weights, at): a part times staged[at] to staged[at + 3], in four sums.
// Sums: OUTPUTS_EACH of four sums each; sum_lanes(sums, thread): added up, over the team's lanes, too. Every thread of
//   the workgroup calls it.
// first_output(block, thread): of the team, in that block of a workgroup's outputs.
extern const char* const kStagedProduct;

}  // namespace sluice::webgpu
