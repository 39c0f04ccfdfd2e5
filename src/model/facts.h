// Facts of a checkpoint that are not part of its family's configuration: name, size, sampling defaults, and the tokens
// that end an answer.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "model/weight_table.h"

namespace sluice {

// The name of the detail (ModelFacts::details) that lists a family's assumptions about values that the file lacks.
// Another program may assume other values.
inline constexpr const char* kAssumed = "assumed";

// Fills name, size_label, parameters, sampling, eos_ids and suppress_tokens; the family has filled the other fields.
// `made` counts the elements of tensors that only GGUF has, because llama.cpp's size label includes them.
Status read_facts(const Checkpoint& checkpoint, const BoundWeights& weights, uint64_t made, ModelFacts& facts);

// A sampling default as a file writes it: 64, 0.95.
std::string sampling_text(double value);

// The sampling defaults that are set, as GGUF keys (general.sampling.*).
std::vector<GgufMetadata::Entry> gguf_sampling(const SamplingDefaults& sampling);

}  // namespace sluice
