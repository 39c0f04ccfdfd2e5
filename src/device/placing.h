// Checks and reservations that all devices share when they plan, place and play.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "graph/weights.h"

namespace sluice {

// The names of adapter operands in DeviceInfo::missing. lacking_of(): the entry of that list
// that names the op or one of its operands; empty: none.
inline constexpr const char* kEmbedAdapter = "embed.adapter";
inline constexpr const char* kLinearAdapter = "linear.adapter";
inline constexpr const char* kExpertsAdapter = "experts.adapter";
inline constexpr const char* kAttentionAdapter = "attention.adapter";
std::string lacking_of(const std::vector<std::string>& missing, const Op& op);

// The checks of plan() on every device. They refuse an op of DeviceInfo::missing, expert slots on a device without
// them, and weights with another shape than the program's, with a format that `takes` rejects, or with rows that are
// not whole blocks. `wanted` ends the sentence about a format: "one that the CPU computes with".
Status check_planned(const DeviceInfo& info, const PlanRequest& request, const char* wanted,
                     const std::function<bool(WeightId)>& takes);
// Whether a step of that plan can read the value back.
bool may_read(const PlanRequest& request, ValueId value);

// The weights of the request's program, in its order. Fails if one differs from the plan.
Result<std::vector<TensorSource>> find_planned(const PlanRequest& request, const WeightSource& weights);
// Reserves every line of Plan::memory().
Result<std::vector<Reservation>> reserve_planned(Budget& budget, const std::vector<MemoryLine>& lines);

}  // namespace sluice
