#include "checkpoint/places/ollama_store.h"

#include <algorithm>

#include "base/files/file.h"
#include "base/limits.h"

namespace sluice {

namespace {

// The folders or files of a folder; none when it cannot be read.
std::vector<std::string> names_in(const std::string& folder) {
  auto names = list_directory(folder);
  return names ? *std::move(names) : std::vector<std::string>();
}

// Finds the files of one model among its blobs.
class Reader {
 public:
  Reader(const std::string& root, const OllamaName& name) : root_(root), name_(name) {
    files_.name = name.text();
    files_.origin = Origin::ollama;
  }

  Result<ModelFiles> read();

 private:
  Result<std::string> blob(const OllamaBlob& blob) const;
  Result<std::string> text(const OllamaBlob& blob) const;
  Result<OllamaManifest> first_with_model(const OllamaManifest& list) const;
  Status read_config(const OllamaBlob& config);
  Status read_layer(const OllamaBlob& layer);
  Error no_model(const OllamaManifest& manifest) const;

  const std::string& root_;
  const OllamaName& name_;
  std::string remote_host_;
  ModelFiles files_;
};

// The path of a blob. Fails when the file is missing or not complete.
Result<std::string> Reader::blob(const OllamaBlob& blob) const {
  std::string path = ollama_blob_path(root_, blob);
  if (path_kind(path) != PathKind::file)
    return error(ErrorKind::not_found, path, ": missing: want the blob that the manifest of ", files_.name, " names");
  TRY(const auto source, FileSource::open(path));
  if (source->size() == blob.bytes) return path;
  return error(ErrorKind::corrupt, path, ": ", source->size(), " bytes: want ", blob.bytes, ", as the manifest of ",
               files_.name, " says");
}

Result<std::string> Reader::text(const OllamaBlob& text) const {
  TRY(const std::string path, blob(text));
  return read_file(path, kMaxStoreTextBytes);
}

Result<OllamaManifest> Reader::first_with_model(const OllamaManifest& list) const {
  for (const OllamaBlob& entry : list.manifests) {
    if (path_kind(ollama_blob_path(root_, entry)) == PathKind::missing) continue;  // this platform was not fetched
    TRY(const std::string content, text(entry));
    TRY(OllamaManifest manifest, parse_ollama_manifest(content, ollama_blob_path(root_, entry)));
    if (manifest.layer("model") != nullptr) return manifest;
  }
  return error(ErrorKind::not_found, files_.name, ": a list of ", list.manifests.size(),
               " manifests, none of them here with a GGUF model: want one");
}

Status Reader::read_config(const OllamaBlob& config) {
  TRY(const std::string content, text(config));
  TRY(const Json json, parse_json(content, ollama_blob_path(root_, config)));
  const auto add_family = [&](const Json* family) {
    if (family == nullptr || !family->is_string() || family->as_string().empty()) return;
    auto& families = files_.families;
    if (std::ranges::find(families, family->as_string()) == families.end()) families.push_back(family->as_string());
  };
  add_family(json.find("model_family"));
  const Json* families = json.find("model_families");
  if (families != nullptr && families->is_array())
    for (const Json& family : families->as_array()) add_family(&family);
  const Json* format = json.find("file_type");
  if (format != nullptr && format->is_string()) files_.format = format->as_string();
  const Json* remote = json.find("remote_host");
  if (remote != nullptr && remote->is_string()) remote_host_ = remote->as_string();
  return {};
}

Status Reader::read_layer(const OllamaBlob& layer) {
  const std::string_view kind = layer.layer_kind();
  if (kind == "model" && !files_.path.empty())
    return error(ErrorKind::unsupported, files_.name, ": several model layers: want one");
  if (kind == "model") {
    TRY(files_.path, blob(layer));
  } else if (kind == "projector") {
    TRY(files_.projector, blob(layer));
  } else if (kind == "draft") {
    TRY(files_.draft_head, blob(layer));
  } else if (kind == "adapter") {
    TRY(std::string adapter, blob(layer));
    files_.adapters.push_back(std::move(adapter));
  } else if (kind == "template") {
    TRY(files_.go_template, text(layer));
  } else if (kind == "system") {
    TRY(files_.system, text(layer));
  } else if (kind == "params") {
    TRY(const std::string content, text(layer));
    TRY(files_.params, parse_json(content, ollama_blob_path(root_, layer)));
    if (!files_.params.is_object())
      return error(ErrorKind::corrupt, ollama_blob_path(root_, layer), ": no object: want sampling settings");
  } else if (kind == "messages") {
    TRY(const std::string content, text(layer));
    TRY(files_.messages, parse_json(content, ollama_blob_path(root_, layer)));
    if (!files_.messages.is_array())
      return error(ErrorKind::corrupt, ollama_blob_path(root_, layer), ": no list: want messages");
  }
  return {};
}

Error Reader::no_model(const OllamaManifest& manifest) const {
  if (!remote_host_.empty()) {
    return error(ErrorKind::unsupported, files_.name, ": runs at ", printable(remote_host_),
                 " and has no weights here: want a model that lies on this machine");
  }
  if (manifest.layer("tensor") != nullptr) {
    return error(ErrorKind::unsupported, files_.name,
                 ": stored tensor by tensor, for Ollama's MLX runner: want a model layer in GGUF");
  }
  return error(ErrorKind::corrupt, ollama_manifest_path(root_, name_), ": no model layer: want one in GGUF");
}

Result<ModelFiles> Reader::read() {
  const std::string path = ollama_manifest_path(root_, name_);
  TRY(const std::string content, read_file(path, kMaxStoreTextBytes));
  TRY(OllamaManifest manifest, parse_ollama_manifest(content, path));
  if (manifest.is_list()) TRY_ASSIGN(manifest, first_with_model(manifest));
  if (manifest.config) TRY_STATUS(read_config(*manifest.config));
  if (manifest.layer("model") == nullptr) return no_model(manifest);
  for (const OllamaBlob& layer : manifest.layers) TRY_STATUS(read_layer(layer));
  return std::move(files_);
}

}  // namespace

std::string ollama_manifest_path(const std::string& root, const OllamaName& name) {
  return join_path(join_path(root, "manifests"), name.path());
}

std::string ollama_blob_path(const std::string& root, const OllamaBlob& blob) {
  return join_path(join_path(root, "blobs"), cat("sha256-", blob.hex));
}

Result<ModelFiles> open_ollama_model(const std::string& root, const OllamaName& name) {
  return Reader(root, name).read();
}

std::vector<OllamaName> list_ollama_tags(const std::string& root, const OllamaName& name) {
  std::vector<OllamaName> found;
  const std::string folder =
      join_path(join_path(root, "manifests"), cat(name.host, '/', name.name_space, '/', name.model));
  for (const std::string& tag : names_in(folder)) {
    auto tagged = make_ollama_name(name.host, name.name_space, name.model, tag);
    if (tagged && path_kind(join_path(folder, tag)) == PathKind::file) found.push_back(*std::move(tagged));
  }
  return found;
}

std::vector<OllamaName> list_ollama_models(const std::string& root) {
  std::vector<OllamaName> found;
  const std::string manifests = join_path(root, "manifests");
  for (const std::string& host : names_in(manifests)) {
    const std::string at_host = join_path(manifests, host);
    for (const std::string& name_space : names_in(at_host)) {
      for (const std::string& model : names_in(join_path(at_host, name_space))) {
        const auto name = make_ollama_name(host, name_space, model, kOllamaTag);
        if (name) std::ranges::move(list_ollama_tags(root, *name), std::back_inserter(found));
      }
    }
  }
  return found;
}

}  // namespace sluice
