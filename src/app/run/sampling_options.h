// The options that say how tokens are chosen, over what the model file asks for itself.
#pragma once

#include <vector>

#include "app/cli/args.h"
#include "base/result.h"
#include "engine/engine.h"

namespace sluice {

std::vector<OptionSpec> sampling_options();
// `settings` changed by what was given.
Result<SamplingSettings> sampling_settings(const Arguments& arguments, uint32_t vocabulary, SamplingSettings settings);

}  // namespace sluice
