// Times decode steps on a device with memory of its own before there are weights, with the kernels, shapes and
// submissions of a real token (MeasuredDevice::place_without_weights). An ExpertStore reads missing experts, as in a
// real step. Bytes and bandwidths alone cannot predict this: on an H200 a decode step of Gemma 4 E2B takes eight times
// as long as reading its bytes.
#pragma once

#include "app/plan/forecast.h"

namespace sluice {

// Measures the times of steps with the plan's memory, but without most of the weights. Takes a second or two, and
// longer if the GPU is emulated on the processor. `options` must be those of `plan`.
Result<StepTimes> time_steps_without_weights(const MemoryPlan& plan, const WeightFiles& files, Machine& machine,
                                             EngineOptions options, const ForecastSources& sources);

}  // namespace sluice
