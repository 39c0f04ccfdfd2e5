#include "checkpoint/places/ollama_manifest.h"

#include <algorithm>

#include "base/json.h"

namespace sluice {

namespace {

constexpr std::string_view kLayerPrefix = "application/vnd.ollama.image.";
constexpr std::string_view kDigestPrefix = "sha256";
constexpr size_t kDigestDigits = 64;

// The names of the platform in Go and OCI.
constexpr std::string_view kSystem = "linux";
#if defined(__aarch64__)
constexpr std::string_view kArchitecture = "arm64";
#else
constexpr std::string_view kArchitecture = "amd64";
#endif

const std::string* string_member(const Json& object, std::string_view name) {
  const Json* member = object.find(name);
  return member != nullptr && member->is_string() ? &member->as_string() : nullptr;
}

Result<OllamaBlob> read_blob(const Json& json, const std::string& where) {
  const std::string* media_type = string_member(json, "mediaType");
  const std::string* digest = string_member(json, "digest");
  const Json* size = json.find("size");
  if (media_type == nullptr || digest == nullptr || size == nullptr || !size->is_integer() || size->as_integer() < 0) {
    return error(ErrorKind::corrupt, where, ": ", printable(write_json(json)),
                 ": want mediaType, digest and a size of at least 0");
  }
  auto hex = parse_digest(*digest);
  if (!hex) {
    return error(ErrorKind::corrupt, where, ": digest ", printable(*digest),
                 ": want sha256: and 64 hexadecimal digits");
  }
  return OllamaBlob{*media_type, *std::move(hex), static_cast<uint64_t>(size->as_integer())};
}

Result<std::vector<OllamaBlob>> read_blobs(const Json& list, std::string_view name, const std::string& where) {
  if (!list.is_array() || list.as_array().empty())
    return error(ErrorKind::corrupt, where, ": member ", name, " is empty or no list: want at least one blob");
  std::vector<OllamaBlob> blobs;
  for (const Json& item : list.as_array()) {
    TRY(OllamaBlob blob, read_blob(item, where));
    blobs.push_back(std::move(blob));
  }
  return blobs;
}

// 0: for this platform; 1: for any; 2: for another.
int strangeness(const Json& entry) {
  const Json* platform = entry.find("platform");
  const std::string* system = platform == nullptr ? nullptr : string_member(*platform, "os");
  const std::string* architecture = platform == nullptr ? nullptr : string_member(*platform, "architecture");
  if (system == nullptr && architecture == nullptr) return 1;
  const bool fits =
      (system == nullptr || *system == kSystem) && (architecture == nullptr || *architecture == kArchitecture);
  return fits ? 0 : 2;
}

Result<OllamaManifest> read_list(const Json& entries, const std::string& where) {
  OllamaManifest list;
  TRY(const auto manifests, read_blobs(entries, "manifests", where));
  for (const int wanted : {0, 1, 2}) {
    for (size_t i = 0; i < manifests.size(); ++i)
      if (strangeness(entries.as_array()[i]) == wanted) list.manifests.push_back(manifests[i]);
  }
  return list;
}

}  // namespace

std::string_view OllamaBlob::layer_kind() const {
  if (!starts_with(media_type, kLayerPrefix)) return {};
  return std::string_view(media_type).substr(kLayerPrefix.size());
}

const OllamaBlob* OllamaManifest::layer(std::string_view kind) const {
  const auto found = std::ranges::find_if(layers, [&](const OllamaBlob& blob) { return blob.layer_kind() == kind; });
  return found == layers.end() ? nullptr : &*found;
}

std::optional<std::string> parse_digest(std::string_view text) {
  if (!starts_with(text, kDigestPrefix)) return std::nullopt;
  text.remove_prefix(kDigestPrefix.size());
  if (text.size() != 1 + kDigestDigits || (text[0] != ':' && text[0] != '-')) return std::nullopt;
  text.remove_prefix(1);
  const bool hex = std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  return hex ? std::optional(std::string(text)) : std::nullopt;
}

Result<OllamaManifest> parse_ollama_manifest(std::string_view text, const std::string& where) {
  TRY(const Json json, parse_json(text, where));
  if (const Json* entries = json.find("manifests")) return read_list(*entries, where);
  const Json* layers = json.find("layers");
  if (layers == nullptr) return error(ErrorKind::corrupt, where, ": no layers: want a manifest of Ollama's form");
  OllamaManifest manifest;
  // A model that runs on a remote machine has no layers.
  if (!layers->is_null() && !(layers->is_array() && layers->as_array().empty()))
    TRY_ASSIGN(manifest.layers, read_blobs(*layers, "layers", where));
  const Json* config = json.find("config");
  const std::string* digest = config == nullptr ? nullptr : string_member(*config, "digest");
  if (digest != nullptr && !digest->empty()) TRY_ASSIGN(manifest.config, read_blob(*config, where));
  return manifest;
}

}  // namespace sluice
