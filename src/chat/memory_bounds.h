// The limits on memory for opening a model, and how strict they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/budget.h"
#include "engine/plan/memory_plan.h"

namespace sluice {

struct MemoryBound {
  enum class By : uint8_t {
    nobody,   // the amount is unknown: an allocation that does not fit fails
    share,    // a part of the host's memory: beyond it the system drops pages of mapped files
    size,     // the memory of a GPU or a page: nothing can lie beyond it
    request,  // the user's limit
  };
  By by = By::nobody;
  uint64_t bytes = UINT64_MAX;
  std::string note = {};  // the origin of the bound; it ends the sentence about a model that does not fit

  // A model is made to fit: experts without room are read as they are chosen, and mapped pages count.
  bool strict() const { return by == By::size || by == By::request; }
};

struct MemoryBounds {
  MemoryBound host;
  std::optional<MemoryBound> device = {};  // of a device with memory of its own
  // Rows of the host's tables are read from the file when tokens name them, so the tables need no room.
  bool lease_rows = false;
  uint64_t most_expert_bytes = UINT64_MAX;  // of experts in the host's memory, which is one allocation

  const MemoryBound& of(Domain domain) const { return domain == Domain::host || !device ? host : *device; }
  // Sets the budget's limits. `domain`: of the device's memory.
  void limit(Budget& budget, Domain domain) const;
};

// check_floor() with the bound's note.
Status check_room(const MemoryPlan& plan, const MemoryBound& bound);

}  // namespace sluice
