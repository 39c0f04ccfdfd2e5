// WGSL for products of a matrix and a vector.
//
// A workgroup is TEAMS teams of LANES threads. A team computes ROWS_EACH outputs, one for each of its weight rows. Its
// lanes share the columns in units of the weight's format (weight_format.h), LANES apart. Lanes load their units, of
// many the first, while the vector is staged in workgroup memory, whole or in batches. The lanes' sums are added as a
// tree in each subgroup, then subgroup by subgroup. That order depends only on the weight's shape and formats.
//
// Fast arithmetic stages the vector as integers if all weights' formats have integers (integer_tiles.h): products of 16
// columns are exact, and a lane reads a quarter as much of the vector. Tried, and slower on an H200: columns straight
// from `memory`, which bypasses the nearest cache; 8 and 16 rows a team (docs/experiments.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/webgpu/formats/weight_format.h"
#include "device/webgpu/host.h"
#include "device/webgpu/kernel.h"

namespace sluice::webgpu {

struct ProductSize {
  uint32_t columns = 0;
  uint64_t outputs = 0;     // of all weights together, for one row of the step
  uint32_t unit_parts = 1;  // the largest among the weights' formats
  uint32_t weights = 1;     // multiplied at once
  uint32_t vectors = 1;     // with weight rows of their own; as many are multiplied at once as there is room for
  bool integers = false;
};

struct ProductShape {
  uint32_t lanes = 0, teams = 1, rows_each = 4;
  uint32_t units_each = 1;  // of a lane in a batch
  uint32_t vectors = 1;     // multiplied at once, each by teams of its own
  uint32_t unit_parts = 1, weights = 1;
  bool integers = false;
  bool rolled = false;  // one row after another: for drivers that compile long texts slowly
  uint32_t threads() const { return lanes * teams; }
  uint32_t outputs() const { return teams / vectors * rows_each; }  // of a workgroup: a multiple of four
  uint32_t staged_bytes() const;                                    // of workgroup memory
  uint64_t blocks(uint64_t all_outputs) const { return (all_outputs + outputs() - 1) / outputs(); }
};
ProductShape product_shape(const Adapter& adapter, const ProductSize& size);

// Declares, for a kernel of that shape:
//   first_output(block, thread)   of the thread's team, in that block of a workgroup's outputs
//   first_stored(block, thread)   the first of four outputs that a thread stores, if stores(thread)
//   vector_of(thread)             of the thread's team
//   four_sums(thread, v, k)       these four outputs, for the v-th vector and weight k
//   store_some(at, x, count)      stores the first `count` elements of x, at most four
// `of_row`: the vector is in row_x, from word 0 on, which the kernel fills (ops_rows.cpp); otherwise in memory.
void use_products(Kernel& kernel, const Adapter& adapter, const ProductShape& shape, bool of_row = false);

// Rows of a weight: its binding's name, its units, and the weight row of output ${output}.
struct RowsOf {
  std::string weight{};
  UnitShape units{};
  std::string row{};
};
// Statements of a kernel between those of a product. `behind_loads` follows the loads of each batch of units, of which
// `batch` is the number.
struct AddedText {
  std::string before{}, behind_loads{};
  std::string at_end{}, behind_sums{};  // before and behind the last barrier
};
// Statements that set sums to zero, add the products of each weight's rows and the vector of `columns` columns at the
// word `x`, and leave the sums for four_sums(). `output`, `last` and `thread` must be in scope. If a row has several
// vectors, ${vector} in `x` is the vector's number.
std::string added_products(const ProductShape& shape, const std::vector<RowsOf>& weights, const std::string& x,
                           const std::string& columns, const AddedText& between = {});

}  // namespace sluice::webgpu
