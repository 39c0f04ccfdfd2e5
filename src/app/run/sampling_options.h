// The options for choosing tokens. They replace the model file's own settings.
#pragma once

#include <vector>

#include "app/cli/args.h"
#include "base/result.h"
#include "engine/engine.h"

namespace sluice {

std::vector<OptionSpec> sampling_options();
// `settings`, changed by the given options.
Result<SamplingSettings> sampling_settings(const Arguments& arguments, uint32_t vocabulary, SamplingSettings settings);

}  // namespace sluice
