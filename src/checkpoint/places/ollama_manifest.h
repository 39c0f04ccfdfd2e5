// Manifests of Ollama's store and registry list the blobs of a model. Source: the image manifest and index of Docker
// and OCI, with Ollama's media types (manifest/ and server/ of Ollama).
//
//   {"config": BLOB, "layers": [BLOB...]}         BLOB: {"mediaType", "digest": "sha256:<64 hex>", "size"}
//   {"manifests": [BLOB with "platform"...]}      a list: one manifest for each platform
//
// A digest becomes a file name, so only 64 lower-case hexadecimal digits count as one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice {

struct OllamaBlob {
  std::string media_type;
  std::string hex;  // of its SHA-256
  uint64_t bytes = 0;

  // "model" for "application/vnd.ollama.image.model"; "" for types that are not Ollama's.
  std::string_view layer_kind() const;
};

struct OllamaManifest {
  std::optional<OllamaBlob> config;
  std::vector<OllamaBlob> layers;
  // For a list: its manifests, those for this platform first. A list has no config and no layers.
  std::vector<OllamaBlob> manifests;

  bool is_list() const { return !manifests.empty(); }
  const OllamaBlob* layer(std::string_view kind) const;  // the first of that kind, or null
};

// Every error begins with `where`.
Result<OllamaManifest> parse_ollama_manifest(std::string_view text, const std::string& where);
// The 64 digits of "sha256:<64 hex>" or "sha256-<64 hex>", lower case; none for anything else.
std::optional<std::string> parse_digest(std::string_view text);

}  // namespace sluice
