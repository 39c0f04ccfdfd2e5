// Sampling settings as JSON, under the names that Ollama's params have: for saved conversations, and for models of
// Ollama's store that bring their own.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "engine/sampling.h"
#include "model/model.h"

namespace sluice {

// What the model's own files ask for.
SamplingSettings sampling_of_file(const SamplingDefaults& defaults);

Json sampling_json(const SamplingSettings& settings);
// Changes what `object` names and leaves the rest, members it does not know too. `where` begins the sentence about a
// value that is none.
Status read_sampling(const Json& object, const std::string& where, uint32_t vocabulary, SamplingSettings& settings);
bool is_sampling_name(std::string_view name);

}  // namespace sluice
