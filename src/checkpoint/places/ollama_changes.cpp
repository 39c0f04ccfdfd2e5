#include "checkpoint/places/ollama_changes.h"

#include <filesystem>

#include "base/files/file.h"
#include "base/limits.h"
#include "checkpoint/places/ollama_store.h"

namespace sluice {
namespace {

void add_blobs(const OllamaManifest& manifest, std::set<std::string>& digests) {
  for (const OllamaBlob& layer : manifest.layers) digests.insert(layer.hex);
  if (manifest.config) digests.insert(manifest.config->hex);
}

Status remove_file(const std::string& path) {
  std::error_code failed;
  std::filesystem::remove(path, failed);
  return failed ? Status(system_error(path, "remove", failed.value())) : Status();
}

}  // namespace

Result<std::string> read_ollama_manifest(const std::string& root, const OllamaName& name) {
  const std::string path = ollama_manifest_path(root, name);
  if (path_kind(path) != PathKind::file)
    return error(ErrorKind::not_found, "model ", printable(name.text(), 200), " not found in Ollama's store");
  return read_file(path, kMaxStoreTextBytes);
}

Result<std::set<std::string>> ollama_blobs(const std::string& root, const OllamaName& name) {
  std::set<std::string> digests;
  TRY(const std::string text, read_ollama_manifest(root, name));
  TRY(const OllamaManifest manifest, parse_ollama_manifest(text, ollama_manifest_path(root, name)));
  add_blobs(manifest, digests);
  for (const OllamaBlob& entry : manifest.manifests) {
    digests.insert(entry.hex);
    const std::string path = ollama_blob_path(root, entry);
    if (path_kind(path) == PathKind::missing) continue;  // this platform was not fetched
    TRY(const std::string of_platform, read_file(path, kMaxStoreTextBytes));
    TRY(const OllamaManifest inner, parse_ollama_manifest(of_platform, path));
    add_blobs(inner, digests);
  }
  return digests;
}

Status copy_ollama_name(const std::string& root, const OllamaName& source, const OllamaName& destination) {
  TRY(const std::string text, read_ollama_manifest(root, source));
  const std::string path = ollama_manifest_path(root, destination);
  TRY_STATUS(make_folders(path.substr(0, path.rfind('/'))));
  return write_file(path, text);
}

Status remove_ollama_name(const std::string& root, const OllamaName& name) {
  std::string path = ollama_manifest_path(root, name);
  TRY_STATUS(remove_file(path));
  for (int level = 0; level < 3; ++level) {  // model, namespace, host
    path.resize(path.rfind('/'));
    std::error_code in_use;
    if (!std::filesystem::remove(path, in_use)) break;
  }
  return {};
}

Status remove_unused_ollama_blobs(const std::string& root, std::set<std::string> digests) {
  for (const OllamaName& name : list_ollama_models(root)) {
    if (digests.empty()) return {};
    TRY(const std::set<std::string> used, ollama_blobs(root, name));
    for (const std::string& hex : used) digests.erase(hex);
  }
  for (const std::string& hex : digests)
    TRY_STATUS(remove_file(ollama_blob_path(root, {.media_type = {}, .hex = hex})));
  return {};
}

}  // namespace sluice
