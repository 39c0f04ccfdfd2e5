// How many layers of a training step are kept (train/training_program.h), by the memory that there is.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/budget.h"
#include "base/result.h"

namespace sluice {

// How far a training's memory may grow beyond what it needs without kept layers.
enum class KeptMemory : uint8_t {
  by_half,   // in each domain
  to_limit,  // of the budget
};

// The lines of a training that keeps so many layers.
using MemoryOfKept = std::function<Result<std::vector<MemoryLine>>(uint32_t kept)>;

// The most of `layers` for which there is room; 0 also where the budget has no room for a training that keeps none.
// Fails as `memory` does for no layer.
Result<uint32_t> most_kept_layers(uint32_t layers, const Budget& budget, KeptMemory most, const MemoryOfKept& memory);

}  // namespace sluice
