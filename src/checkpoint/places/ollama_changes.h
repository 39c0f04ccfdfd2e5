// Changes of Ollama's store (ollama_store.h): names that come and go, and blobs that no name stands for any more. For
// one thread at a time. Source: server/images.go and manifest/ of Ollama.
#pragma once

#include <set>
#include <string>

#include "base/result.h"
#include "checkpoint/places/ollama_name.h"

namespace sluice {

// The text of a name's manifest; not_found where the store has no such name.
Result<std::string> read_ollama_manifest(const std::string& root, const OllamaName& name);
// The digests of what a name stands for: 64 hexadecimal digits each.
Result<std::set<std::string>> ollama_blobs(const std::string& root, const OllamaName& name);
// Gives a model another name, in place of the model that has it. Blobs stay as they are.
Status copy_ollama_name(const std::string& root, const OllamaName& source, const OllamaName& destination);
// Removes the name and the folders that it leaves empty. Blobs stay.
Status remove_ollama_name(const std::string& root, const OllamaName& name);
// Removes those of the blobs that no manifest of the store names. Removes none if a manifest cannot be read.
Status remove_unused_ollama_blobs(const std::string& root, std::set<std::string> digests);

}  // namespace sluice
