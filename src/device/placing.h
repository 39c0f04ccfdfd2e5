// What every device does when it plans, places a plan and plays it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "graph/weights.h"

namespace sluice {

// The name by which DeviceInfo::missing lists the adapter operand of linear, and what of an op that table lists: its
// name, its operand's, or nothing.
inline constexpr const char* kLinearAdapter = "linear.adapter";
std::string lacking_of(const std::vector<std::string>& missing, const Op& op);

// What plan() refuses on every device: an op of DeviceInfo::missing, slots for experts where it has none, and weights
// with another shape than the program's, a format that `takes` does not, or rows that are not whole blocks. `wanted`
// ends the sentence about a format: "one that the CPU computes with".
Status check_planned(const DeviceInfo& info, const PlanRequest& request, const char* wanted,
                     const std::function<bool(WeightId)>& takes);
// Whether a step of that plan may be asked for the value.
bool may_read(const PlanRequest& request, ValueId value);

// The weights of the request's program, in its order; an error where one is not as it was planned for.
Result<std::vector<TensorSource>> find_planned(const PlanRequest& request, const WeightSource& weights);
// Room for every line of Plan::memory().
Result<std::vector<Reservation>> reserve_planned(Budget& budget, const std::vector<MemoryLine>& lines);

}  // namespace sluice
