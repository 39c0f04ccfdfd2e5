// Text that kernels of matrix times vector share.
//
// A workgroup is TEAMS teams of LANES threads. A team makes four numbers, of as many rows of the weight; its lanes
// share the columns, a unit of the weight's format each (weight_format.h). A lane loads its unit of all four rows, and
// the vector is staged in workgroup memory meanwhile, a batch of LANES units at a time. The lanes' sums, over all
// batches, are added as a tree in each subgroup, then subgroup by subgroup: an order that follows from the weight's
// shape and formats alone.
//
// Tried, and slower on an H200: columns straight from `memory`, which a GPU reads past its nearest cache; 8 and 16 rows
// a team, whose longer text costs more where other kernels come in between than it saves (docs/experiments.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/webgpu/host.h"
#include "device/webgpu/kernel.h"
#include "device/webgpu/weight_format.h"

namespace sluice::webgpu {

struct ProductShape {
  static constexpr uint32_t kRowsEach = 4;
  uint32_t lanes = 0, teams = 1;
  uint32_t unit_parts = 1;  // the most of its weights' formats
  bool rolled = false;      // one row after another: for drivers that take long over long texts
  uint32_t threads() const { return lanes * teams; }
  // Workgroups for so many outputs.
  uint64_t blocks(uint64_t outputs) const {
    const uint64_t of_one = uint64_t{teams} * kRowsEach;
    return (outputs + of_one - 1) / of_one;
  }
};
// `unit_parts`: the most of its weights' formats.
ProductShape product_shape(const Adapter& adapter, uint32_t columns, uint32_t unit_parts);

// What the functions of a kernel of that shape are made of, for sums of `weights` weights at once:
//   first_output(block, thread)   of the thread's team, in that block of a workgroup's outputs
//   team_sum(team, k)             four sums of a team's, k in the order of `kept_sums`
//   store_some(at, x, count)      the first `count` of them, at most four
void use_products(Kernel& kernel, const Adapter& adapter, const ProductShape& shape, size_t weights);

// Rows of a weight: its binding's name, and which row output '#' is made of.
struct RowsOf {
  std::string weight{};
  UnitShape units{};
  std::string row{};
};
// Statements, with `output`, `last` and `thread` in scope: sums that begin as zeros; what adds the products of each
// weight's rows with the vector of `columns` at the word `x`; and what leaves them for team_sum().
std::string declared_sums(size_t weights);
std::string added_products(const ProductShape& shape, const std::vector<RowsOf>& weights, const std::string& x,
                           const std::string& columns);
std::string kept_sums(size_t weights);

}  // namespace sluice::webgpu
