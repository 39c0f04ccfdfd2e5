// A trace: every named intermediate of one prompt, for `verify` to find the first that differs.
//
// The tokens are run once, as one prompt, on a plan of their own that keeps every named value for all rows; what is
// fused where users are answered may be unfused here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "model/model.h"

namespace sluice {

// [rows, columns]; heads side by side. Of the two lists the one of its element type is filled.
struct TracedValue {
  std::string name;
  size_t rows = 0;
  size_t columns = 0;
  std::vector<float> floats;
  std::vector<int32_t> integers;
};

// In the order of the program; logits come last, named "logits".
using Trace = std::vector<TracedValue>;

Result<Trace> trace(const Model& model, Device& device, Budget& budget, Arithmetic arithmetic,
                    std::span<const int32_t> tokens);
// Of any text program.
Result<Trace> trace(const Program& program, const WeightSource& weights, Device& device, Budget& budget,
                    Arithmetic arithmetic, std::span<const int32_t> tokens);

}  // namespace sluice
