// `sluice pull` without its command line: fetches a file into a folder, or a model of an Ollama registry into a store.
#pragma once

#include <cstdint>
#include <string>

#include "app/cli/console.h"
#include "app/files/download.h"
#include "base/result.h"

namespace sluice {

struct PullRequest {
  std::string url;
  std::string sha256;  // 64 digits; "": unknown
  std::string folder;  // the folder of the file; for a manifest the store's root
  FetchOptions options;
};

struct Pulled {
  std::string path;      // the file; for a manifest the model's file
  std::string name;      // the name by which other commands find it; for a file its path
  uint64_t bytes = 0;    // of all files
  uint64_t fetched = 0;  // bytes fetched over the network in this call
  std::string sha256;    // of the file, or of the manifest
};

// Whether a URL is a manifest of Ollama's registry: ".../v2/<namespace>/<model>/manifests/<tag>".
bool is_manifest_url(const std::string& url);
Result<Pulled> pull_file(const PullRequest& request, Console& console);
Result<Pulled> pull_manifest(const PullRequest& request, Console& console);

}  // namespace sluice
