// The tokenizer and chat template of a model as GGUF keys, for files that are written.
#pragma once

#include <vector>

#include "base/result.h"
#include "checkpoint/gguf_value.h"
#include "model/model.h"
#include "text/vocabulary.h"

namespace sluice {

// tokenizer.ggml.* of a vocabulary.
std::vector<GgufMetadata::Entry> vocabulary_keys(GgufVocabulary vocabulary);
// tokenizer.ggml.* and tokenizer.chat_template of a Hugging Face model. Empty for a GGUF file, because the export
// copies its keys as they are.
Result<std::vector<GgufMetadata::Entry>> tokenizer_keys(const Model& model);

}  // namespace sluice
