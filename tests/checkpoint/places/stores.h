// Fake stores of other programs, in a test's own folder: Ollama's with manifests and blobs, the hub's cache with links.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "checkpoint/places/places.h"
#include "tests/checkpoint/bytes.h"

namespace sluice::tests {

// A GGUF file that opens: one tensor of four floats.
inline std::string tiny_gguf() { return gguf_of(gguf_info("t", {4})); }

inline std::string hex_of(std::string_view content) {
  Sha256 sum;
  sum.add(content);
  return sum.finish_hex();
}

inline std::string blob_json(std::string_view type, std::string_view digest, size_t bytes) {
  return cat(R"({"mediaType":")", type, R"(","digest":")", digest, R"(","size":)", bytes, "}");
}

inline std::string manifest_json(const std::vector<std::string>& layers, std::string_view config = "") {
  std::string list;
  for (const std::string& layer : layers) list += cat(list.empty() ? "" : ",", layer);
  return cat(R"({"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json",)",
             config.empty() ? "" : cat("\"config\":", config, ','), "\"layers\":[", list, "]}");
}

class Stores : public Folder {
 protected:
  Stores() : places_{{path("ollama")}, {path("hub")}, {path("lm")}} {}

  std::string put_deep(const std::string& name, std::string_view content) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    return put(name, content);
  }

  // Ollama: a blob of `content`, and the layer that names it.
  std::string blob_path(std::string_view content) const { return path(cat("ollama/blobs/sha256-", hex_of(content))); }
  std::string add_blob(std::string_view type, std::string_view content) const {
    put_deep(cat("ollama/blobs/sha256-", hex_of(content)), content);
    return blob_json(type, cat("sha256:", hex_of(content)), content.size());
  }
  std::string add_layer(std::string_view kind, std::string_view content) const {
    return add_blob(cat("application/vnd.ollama.image.", kind), content);
  }
  std::string add_manifest(std::string_view below, std::string_view content) const {
    return put_deep(cat("ollama/manifests/", below), content);
  }

  // Hub: a file of a repository's snapshot, as a link into its blobs.
  static constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";
  std::string snapshot(std::string_view repository, std::string_view commit = kCommit) const {
    return path(cat("hub/models--", repository, "/snapshots/", commit));
  }
  void add_hub_file(std::string_view repository, std::string_view file, std::string_view content) const {
    const std::string blob = put_deep(cat("hub/models--", repository, "/blobs/", hex_of(content)), content);
    const std::filesystem::path link = join_path(snapshot(repository), file);
    std::filesystem::create_directories(link.parent_path());
    std::filesystem::create_symlink(std::filesystem::relative(blob, link.parent_path()), link);
    put_deep(cat("hub/models--", repository, "/refs/main"), kCommit);
  }

  Result<ModelFiles> find(const std::string& given) const { return find_model(given, places_); }
  std::string refusal(const std::string& given) const {
    const auto found = find(given);
    return found ? "found " + found->path : found.error().text;
  }

  Places places_;
};

}  // namespace sluice::tests
