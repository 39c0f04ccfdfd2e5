// How long decode steps will take on a device with memory of its own, learnt by playing them there before there are
// weights: the very kernels, shapes and submissions that a token will have (Device::rehearse), and the experts that a
// layer lacks brought as they will be, by an ExpertStore. From bytes and bandwidths alone it cannot be said: on an H200
// a step of Gemma 4 E2B takes eight times what reading its bytes would.
#pragma once

#include "app/plan/forecast.h"

namespace sluice {

// Takes what the plan takes of memory, less most of the weights, and a second or two, on a processor that plays a GPU
// more. `options`: those that `plan` was made with.
Result<Rehearsal> rehearse(const MemoryPlan& plan, const WeightFiles& files, Machine& machine, EngineOptions options,
                           const ForecastSources& sources);

}  // namespace sluice
