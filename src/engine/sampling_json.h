// Sampling settings as JSON, with the names of Ollama's params. Saved conversations and models of Ollama's store have
// them.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "engine/sampling.h"
#include "model/model.h"

namespace sluice {

// The settings in the model's own files.
SamplingSettings sampling_of_file(const SamplingDefaults& defaults);

Json sampling_json(const SamplingSettings& settings);
// Changes the settings that `object` names. Unknown members are ignored. `where` begins the error about a wrong value.
Status read_sampling(const Json& object, const std::string& where, uint32_t vocabulary, SamplingSettings& settings);
bool is_sampling_name(std::string_view name);

}  // namespace sluice
