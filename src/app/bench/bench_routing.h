// How a model with experts routes. It is measured, because the bytes that a batch reads depend on it.
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

// How often the experts of a layer are chosen, the most used first, averaged over the layers by rank.
struct RoutingShares {
  std::vector<double> chosen;  // the share of tokens that choose the expert; empty: the model has no experts
  uint32_t used = 0;           // experts that a token uses in a layer
  uint32_t tokens = 0;         // tokens that were counted

  // The share of choices that the most used eighth of the experts gets.
  double favourites() const;
};

// From a recorded trace. Each expert counts once more than it was chosen.
RoutingShares shares_of(const RoutingTrace& trace);
// From a trace of random tokens.
Result<RoutingShares> measure_routing(const Model& model, Device& device, Budget& budget, Arithmetic arithmetic);

// From the decoded tokens of a meter that kept the uses. There are no tokens if every expert lay in memory.
RoutingTrace recorded_routing(const Meter& meter);

}  // namespace sluice
