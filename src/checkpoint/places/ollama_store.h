// Ollama's store: manifests under names, blobs under digests. Source: envconfig, manifest/ and server/ of Ollama.
//
//   <root>/manifests/<host>/<namespace>/<model>/<tag>   JSON, see ollama_manifest.h
//   <root>/blobs/sha256-<64 hex>                        the model's GGUF file, and what goes with it
//
// Blobs must have the sizes that their manifest gives. Their digests are checked when they are fetched.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_files.h"
#include "checkpoint/places/ollama_manifest.h"
#include "checkpoint/places/ollama_name.h"

namespace sluice {

std::string ollama_manifest_path(const std::string& root, const OllamaName& name);
std::string ollama_blob_path(const std::string& root, const OllamaBlob& blob);

// The model's files, or the reason why they cannot be read. A missing manifest is an error.
Result<ModelFiles> open_ollama_model(const std::string& root, const OllamaName& name);
// All names with a manifest, sorted; none where there is no store.
std::vector<OllamaName> list_ollama_models(const std::string& root);
// The names of the same model with any tag.
std::vector<OllamaName> list_ollama_tags(const std::string& root, const OllamaName& name);

}  // namespace sluice
