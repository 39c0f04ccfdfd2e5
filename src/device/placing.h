// What every device does when it places a plan.
#pragma once

#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "graph/weights.h"

namespace sluice {

// The weights of the request's program, in its order; an error where one is not as it was planned for.
Result<std::vector<TensorSource>> find_planned(const PlanRequest& request, const WeightSource& weights);
// Room for every line of Plan::memory().
Result<std::vector<Reservation>> reserve_planned(Budget& budget, const std::vector<MemoryLine>& lines);

}  // namespace sluice
