// A checkpoint's facts beside its family's configuration: name, size, sampling defaults, tokens that end answers.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "model/weight_table.h"

namespace sluice {

// The detail (ModelFacts::details) that names what a family assumed because the file does not say it. Another program
// may assume something else.
inline constexpr const char* kAssumed = "assumed";

// Fills name, size_label, parameters, sampling, eos_ids and suppress_tokens; the family has filled the rest.
// `made` counts elements of tensors that only GGUF has, which llama.cpp's size label includes.
Status read_facts(const Checkpoint& checkpoint, const BoundWeights& weights, uint64_t made, ModelFacts& facts);

// A sampling default as a file writes it: 64, 0.95.
std::string sampling_text(double value);

// The sampling defaults that are set, as GGUF keys (general.sampling.*).
std::vector<GgufMetadata::Entry> gguf_sampling(const SamplingDefaults& sampling);

}  // namespace sluice
