// `sluice pull` without its command line: fetches a file into a folder, a model of an Ollama registry into a store of
// Ollama's form, or a model of the Hugging Face hub into its cache or a folder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/console.h"
#include "app/files/download.h"
#include "base/result.h"
#include "checkpoint/places/model_folder.h"
#include "checkpoint/places/ollama_manifest.h"
#include "checkpoint/places/ollama_name.h"

namespace sluice {

struct PullRequest {
  std::string url = {};     // of a file, of a manifest, or the hub's address
  std::string sha256 = {};  // 64 digits, of the file or the manifest; "": unknown
  std::string folder = {};  // the folder of the file; for a manifest the store's root; for the hub its cache
  FetchOptions options = {};
  std::optional<OllamaName> ollama = {};   // of a manifest: the name it gets; none: that of the URL
  std::optional<RepositoryName> hub = {};  // a repository of the hub
  bool plain_files = false;                // of the hub: into `folder` by their own names, no cache
};

struct Pulled {
  std::string path;      // the file; for a manifest the model's file
  std::string name;      // the name by which other commands find it; for a file its path
  uint64_t bytes = 0;    // of all files
  uint64_t fetched = 0;  // bytes fetched over the network in this call
  std::string sha256;    // of the file, or of the manifest; "" of the hub's
};

// What a pull would fetch.
struct PullOffer {
  std::string from;                  // "registry.ollama.ai", "huggingface.co/org/repo"
  std::string folder;                // where it goes
  uint64_t bytes = 0;                // of all files
  std::string first_file;            // the model's file, or its first part
  std::string model_url;             // of that file
  std::vector<std::string> headers;  // that this URL wants
};

// What `what` stands for: a URL, or a model by its name: "gemma4:e2b", "hf.co/org/repo:Q4_K_M", "org/repo". `folder` is
// that of --to; "": the place where programs look for it.
Result<PullRequest> pull_request(const std::string& what, const std::string& folder);
Result<Pulled> pull(const PullRequest& request, Console& console);
// For models by name.
Result<PullOffer> look_up(const PullRequest& request, Console& console);

// The model of that name at its registry, into the store at `folder`; "": the first store of the machine.
PullRequest ollama_pull(const OllamaName& name, const std::string& folder);

// Shows a pull of a manifest as it goes on, on the pulling thread.
class PullView {
 public:
  virtual ~PullView() = default;
  // In Ollama's words: "pulling manifest", "verifying sha256 digest", "writing manifest".
  virtual void begin(std::string_view stage) = 0;
  // A blob is fetched, or looked at because it is there already; that lasts as long as the returned object.
  virtual std::unique_ptr<ShownProgress> begin_blob(const OllamaBlob& blob, bool is_there) = 0;
};

// Whether a URL is a manifest of Ollama's registry: ".../v2/<namespace>/<model>/manifests/<tag>".
bool is_manifest_url(const std::string& url);
Result<Pulled> pull_file(const PullRequest& request, Console& console);
Result<Pulled> pull_manifest(const PullRequest& request, Console& console);
Result<Pulled> pull_manifest(const PullRequest& request, PullView& view);
Result<PullOffer> look_up_manifest(const PullRequest& request, Console& console);
Result<Pulled> pull_hub(const PullRequest& request, Console& console);
Result<PullOffer> look_up_hub(const PullRequest& request);

}  // namespace sluice
