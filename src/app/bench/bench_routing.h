// How a model with experts routes: measured, since the bytes that a batch reads depend on it.
#pragma once

#include <cstdint>
#include <vector>

#include "app/bench/metered_device.h"
#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "engine/experts/routing_trace.h"
#include "model/model.h"

namespace sluice {

// How often the experts of a layer are chosen, the favourite first; averaged over the layers by rank.
struct RoutingShares {
  std::vector<double> chosen;  // by so many of the tokens; none: the model has no experts
  uint32_t used = 0;           // by a token
  uint32_t tokens = 0;         // that were looked at

  // Of all choices, those of the favourite eighth of the experts.
  double favourites() const;
};

// Of a recorded trace, each expert counted once more than it was chosen.
RoutingShares shares_of(const RoutingTrace& trace);
// By a trace of random tokens.
Result<RoutingShares> measure_routing(const Model& model, Device& device, Budget& budget, Arithmetic arithmetic);

// What the decoded tokens chose, of a meter that kept the uses; no tokens where every expert lay in memory.
RoutingTrace recorded_routing(const Meter& meter);

}  // namespace sluice
