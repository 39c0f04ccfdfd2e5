// What a checkpoint says about itself beside its family's configuration: name, size, sampling, tokens that end answers.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "model/weight_table.h"

namespace sluice {

// The detail (ModelFacts::details) that says what a family took to be so where a file does not say it, and another
// program may take otherwise.
inline constexpr const char* kAssumed = "assumed";

// Fills name, size_label, parameters, sampling, eos_ids and suppress_tokens; the family has filled the rest.
// `made`: elements of the tensors that only GGUF has, which llama.cpp's size label counts too.
Status read_facts(const Checkpoint& checkpoint, const BoundWeights& weights, uint64_t made, ModelFacts& facts);

// A sampling default as files have it: 64, 0.95.
std::string sampling_text(double value);

// The sampling defaults as GGUF keys, general.sampling.*; those that are set.
std::vector<GgufMetadata::Entry> gguf_sampling(const SamplingDefaults& sampling);

}  // namespace sluice
