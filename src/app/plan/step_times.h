// Times decode steps on a device with memory of its own before there are weights, with the kernels, shapes and
// submissions of a real token (MeasuredDevice::place_without_weights). An ExpertStore reads missing experts, as in a
// real step. Bytes and bandwidths alone cannot predict this: on an H200 a decode step of Gemma 4 E2B takes eight times
// as long as reading its bytes.
#pragma once

#include "app/plan/forecast.h"

namespace sluice {

// Takes the memory of the plan, less most of its weights. Takes a second or two, and longer where a processor plays the
// GPU. `options`: those that `plan` was made with.
Result<StepTimes> time_steps_without_weights(const MemoryPlan& plan, const WeightFiles& files, Machine& machine,
                                             EngineOptions options, const ForecastSources& sources);

}  // namespace sluice
