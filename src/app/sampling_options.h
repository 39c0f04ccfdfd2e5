// The options that say how tokens are chosen, over what the model file asks for itself.
#pragma once

#include <vector>

#include "app/args.h"
#include "base/result.h"
#include "engine/engine.h"
#include "model/model.h"

namespace sluice {

std::vector<OptionSpec> sampling_options();
// The file's defaults, changed by what was given; seed 0 unless given.
Result<SamplingSettings> sampling_settings(const Arguments& arguments, const ModelFacts& facts);

}  // namespace sluice
