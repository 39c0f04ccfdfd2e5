// How much memory may be taken, and how firmly: what opening a model keeps to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/budget.h"
#include "engine/plan/memory_plan.h"

namespace sluice {

struct MemoryBound {
  enum class By : uint8_t {
    nobody,   // nobody says how much there is: what does not fit fails when it is taken
    share,    // a part of the host's memory: the system takes back pages of mapped files beyond it
    size,     // what a GPU or a page has: nothing can lie beyond it
    request,  // the user's word
  };
  By by = By::nobody;
  uint64_t bytes = UINT64_MAX;
  std::string note = {};  // ends the sentence about a model that does not fit: how the bound came about

  // A model is made to fit: experts beyond are read as they are chosen, and mapped pages count.
  bool strict() const { return by == By::size || by == By::request; }
};

struct MemoryBounds {
  MemoryBound host;
  std::optional<MemoryBound> device = {};  // of a device with memory of its own
  // Rows of the host's tables are read from the file as tokens name them, so that the tables need no room.
  bool lease_rows = false;
  uint64_t most_expert_bytes = UINT64_MAX;  // of experts in the host's memory, which is one allocation

  const MemoryBound& of(Domain domain) const { return domain == Domain::host || !device ? host : *device; }
  // Sets the budget's limits. `domain`: of the device's memory.
  void limit(Budget& budget, Domain domain) const;
};

// check_floor() with the bound's note.
Status check_room(const MemoryPlan& plan, const MemoryBound& bound);

}  // namespace sluice
