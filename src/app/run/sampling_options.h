// The options for choosing tokens. They replace the model file's own settings.
#pragma once

#include <vector>

#include "app/cli/args.h"
#include "base/result.h"
#include "engine/engine.h"

namespace sluice {

std::vector<OptionSpec> sampling_options();
// Whether a value of --logit-bias can be read; which ids there are only the model knows.
Status check_bias(const std::string& text);
// `settings`, changed by the given options.
Result<SamplingSettings> sampling_settings(const Arguments& arguments, uint32_t vocabulary, SamplingSettings settings);

}  // namespace sluice
