// A routing trace played against slots that hold an expert each: how many uses find their expert in memory.
#pragma once

#include <cstdint>

#include "engine/experts/replacement.h"
#include "engine/experts/routing_trace.h"

namespace sluice {

struct Replay {
  uint64_t uses = 0, hits = 0;
  double hit_rate() const { return uses == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(uses); }
};

// The slots are empty at first; the uses of the first `uncounted` tokens do not count. `slots` hold at least what a
// token uses of a layer.
Replay replay(const RoutingTrace& trace, uint32_t slots, Replacement& replacement, size_t uncounted);
// What no replacement can beat: the slot is taken whose expert is used again last (Belady 1966, "A study of replacement
// algorithms for a virtual-storage computer").
Replay replay_best(const RoutingTrace& trace, uint32_t slots, size_t uncounted);

}  // namespace sluice
