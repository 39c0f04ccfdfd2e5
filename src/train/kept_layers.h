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

// The most of `layers` for which there is room. `memory` gives the lines of a training that keeps so many. Fails as
// `memory` does for no layer; whether the budget has room for that is not asked.
Result<uint32_t> most_kept_layers(uint32_t layers, const Budget& budget, KeptMemory most,
                                  const std::function<Result<std::vector<MemoryLine>>(uint32_t kept)>& memory);

}  // namespace sluice
