// Text that kernels of matrix times vector share.
//
// A workgroup is kProductThreads threads in teams of 32 (LANES); a team makes OUTPUTS_EACH numbers, of as many rows of
// the weight: more than one where there are workgroups enough for every part of the GPU.
// The vector is staged in workgroup memory, at most STAGED parts of 16 columns at a time. Lane l takes parts l, l + 32,
// ... in ascending order, and the lanes are added as a tree: one order, whatever is computed beside it, and however a
// tree's steps are made, by subgroups or in workgroup memory.
#pragma once

#include <cstdint>
#include <string>

#include "device/webgpu/host.h"

namespace sluice::webgpu {

inline constexpr uint32_t kProductThreads = 128, kProductLanes = 32;

struct ProductShape {
  uint32_t outputs_each = 1;
  // Workgroups for so many outputs.
  uint64_t blocks(uint64_t outputs) const {
    const uint64_t of_one = kProductThreads / kProductLanes * outputs_each;
    return (outputs + of_one - 1) / of_one;
  }
};
// `outputs`: of a dispatch in all.
ProductShape product_shape(const Adapter& adapter, uint64_t outputs);

// stage(at, columns, begin, count, to, thread): parts [begin, begin + count) of the vector of `columns` at that word of
//   memory, from staged[to] on, 0 behind its end; barriers are the caller's.
// staged_part(at): a part, staged[at] to staged[at + 3].
// add_part(sum, weights, x): four sums, and a part's products; total(sum): them added up.
// Sums: OUTPUTS_EACH of four sums each; sum_lanes(sums, thread): their totals, added over the team's lanes;
// sum_team(totals, thread): the same of totals. Every thread of the workgroup calls these two.
// first_output(block, thread): of the team, in that block of a workgroup's outputs.
std::string staged_product(const Adapter& adapter, const ProductShape& shape);

}  // namespace sluice::webgpu
