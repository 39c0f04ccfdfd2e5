// Plays a routing trace against slots that hold one expert each, and counts the uses that find their expert in memory.
#pragma once

#include <cstdint>

#include "engine/experts/replacement.h"
#include "engine/experts/routing_trace.h"

namespace sluice {

struct Replay {
  uint64_t uses = 0, hits = 0;
  double hit_rate() const { return uses == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(uses); }
};

// Slots begin empty. Uses of the first `uncounted` tokens do not count. There must be at least as many slots as a token
// uses experts in a layer.
Replay replay(const RoutingTrace& trace, uint32_t slots, Replacement& replacement, size_t uncounted);
// The bound that no replacement can beat: evict the expert whose next use is farthest away (Belady 1966, "A study of
// replacement algorithms for a virtual-storage computer").
Replay replay_best(const RoutingTrace& trace, uint32_t slots, size_t uncounted);

}  // namespace sluice
