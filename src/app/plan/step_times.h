// How long decode steps take on a device with memory of its own, timed before there are weights: with the kernels,
// shapes and submissions that a token will have (MeasuredDevice::place_without_weights). Missing experts are brought by
// an ExpertStore, as they will be. Bytes and bandwidths alone do not say it: on an H200 a decode step of Gemma 4 E2B
// takes eight times as long as reading its bytes would.
#pragma once

#include "app/plan/forecast.h"

namespace sluice {

// Takes the memory of the plan, less most of its weights. Takes a second or two, and longer where a processor plays the
// GPU. `options`: those that `plan` was made with.
Result<StepTimes> time_steps_without_weights(const MemoryPlan& plan, const WeightFiles& files, Machine& machine,
                                             EngineOptions options, const ForecastSources& sources);

}  // namespace sluice
