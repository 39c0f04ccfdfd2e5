// A model of an Ollama registry into a store of Ollama's form (checkpoint/places/ollama_store.h): blobs first, the
// manifest last, so that the name appears when all it stands for is there. Source: the distribution API of OCI
// registries (https://github.com/opencontainers/distribution-spec), as far as Ollama's uses it.
#include <algorithm>
#include <filesystem>
#include <set>

#include "app/files/http.h"
#include "app/files/pull.h"
#include "base/check.h"
#include "base/files/file.h"
#include "base/limits.h"
#include "base/sha256.h"
#include "base/text.h"
#include "checkpoint/places/ollama_store.h"

namespace sluice {
namespace {

constexpr std::string_view kManifests = "/manifests/";

std::string sha256_of(std::string_view text) {
  Sha256 sum;
  sum.add(text);
  return sum.finish_hex();
}

// The name a manifest's URL stands for; nothing when it is no manifest's.
std::optional<OllamaName> name_of_manifest(const std::string& url) {
  const Result<Url> parts = parse_url(url);
  if (!parts || parts->path.size() != 5 || parts->path[0] != "v2" || parts->path[3] != "manifests") return std::nullopt;
  return make_ollama_name(parts->host, parts->path[1], parts->path[2], parts->path[4]);
}

Result<OllamaName> name_of(const PullRequest& request) {
  const std::optional<OllamaName> name = request.ollama ? request.ollama : name_of_manifest(request.url);
  if (!name) return error(ErrorKind::invalid, printable(request.url, 200), ": no manifest's URL");
  return *name;
}

class ConsoleView final : public PullView {
 public:
  ConsoleView(std::string name, Console& console) : name_(std::move(name)), console_(console) {}
  void begin(std::string_view /*stage*/) override {}
  std::unique_ptr<ShownProgress> begin_blob(const OllamaBlob& blob, bool is_there) override {
    const std::string_view kind = blob.layer_kind();
    const std::string doing = is_there ? cat("checking ", blob.hex.substr(0, 12))
                                       : cat("pulling ", name_, ", ", kind.empty() ? "config" : kind);
    return std::make_unique<ProgressLine>(console_, doing, "bytes");
  }

 private:
  std::string name_;
  Console& console_;
};

class ManifestPull {
 public:
  ManifestPull(const PullRequest& request, OllamaName name, PullView& view)
      : request_(request),
        name_(std::move(name)),
        base_(request.url.substr(0, request.url.rfind(kManifests))),
        view_(view) {}

  Result<Pulled> run();
  Result<PullOffer> look_up();

 private:
  Result<OllamaManifest> model_manifest(std::string& text);
  Result<std::string> fetch_manifest(const std::string& url, const std::string& sha256) const;
  Result<OllamaManifest> first_with_model(const OllamaManifest& list);
  Status pull_blob(const OllamaBlob& blob);
  Result<bool> have(const OllamaBlob& blob, const std::string& path);
  Status write_at(const std::string& path, std::string_view text) const;

  const PullRequest& request_;
  OllamaName name_;
  std::string base_;  // ".../v2/library/gemma4"
  PullView& view_;
  std::set<std::string> pulled_;  // digests
  Pulled result_;
};

Result<std::string> ManifestPull::fetch_manifest(const std::string& url, const std::string& sha256) const {
  const std::vector<std::string> headers = {
      "Accept: application/vnd.docker.distribution.manifest.v2+json, "
      "application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.manifest.v1+json, "
      "application/vnd.oci.image.index.v1+json"};
  TRY(std::string text, fetch_text(url, headers, kMaxStoreTextBytes, request_.options));
  const std::string found = sha256_of(text);
  if (!sha256.empty() && found != sha256)
    return error(ErrorKind::corrupt, url, ": SHA-256 is ", found, ": want ", sha256);
  return text;
}

Status ManifestPull::write_at(const std::string& path, std::string_view text) const {
  TRY_STATUS(make_folders(path.substr(0, path.rfind('/'))));
  return write_file(path, text);
}

// Of a list, the manifest to use; it is kept as a blob, where reading the store looks for it.
Result<OllamaManifest> ManifestPull::first_with_model(const OllamaManifest& list) {
  for (const OllamaBlob& entry : list.manifests) {
    const std::string url = cat(base_, kManifests, "sha256:", entry.hex);
    TRY(const std::string text, fetch_manifest(url, entry.hex));
    TRY(OllamaManifest manifest, parse_ollama_manifest(text, url));
    if (manifest.layer("model") != nullptr) {
      TRY_STATUS(write_at(ollama_blob_path(request_.folder, entry), text));
      return manifest;
    }
  }
  return error(ErrorKind::unsupported, request_.url, ": a list of ", list.manifests.size(),
               " manifests, none of them with a GGUF model: want one");
}

// Whether the blob is there whole. Its digest is looked at again: a damaged one is fetched anew.
Result<bool> ManifestPull::have(const OllamaBlob& blob, const std::string& path) {
  if (path_kind(path) == PathKind::missing) return false;
  const std::unique_ptr<ShownProgress> progress = view_.begin_blob(blob, /*is_there=*/true);
  TRY(const std::string found, file_sha256(path, *progress, request_.options.stop));
  if (found == blob.hex) return true;
  std::error_code failed;
  std::filesystem::remove(path, failed);
  if (failed) return system_error(path, "remove", failed.value());
  return false;
}

Status ManifestPull::pull_blob(const OllamaBlob& blob) {
  if (!pulled_.insert(blob.hex).second) return {};
  result_.bytes += blob.bytes;
  const std::string path = ollama_blob_path(request_.folder, blob);
  TRY(const bool there, have(blob, path));
  if (there) return {};
  const std::unique_ptr<ShownProgress> progress = view_.begin_blob(blob, /*is_there=*/false);
  const std::string url = cat(base_, "/blobs/sha256:", blob.hex);
  TRY(const Downloaded done, download({url, path, blob.hex, blob.bytes, request_.options}, *progress));
  result_.fetched += done.fetched;
  return {};
}

// The manifest that names the model's files; `text` becomes what the name stands for.
Result<OllamaManifest> ManifestPull::model_manifest(std::string& text) {
  Result<std::string> fetched = fetch_manifest(request_.url, request_.sha256);
  if (!fetched && fetched.error().kind == ErrorKind::not_found && request_.ollama) {
    return error(ErrorKind::not_found, printable(name_.text(), 200), ": ", name_.host,
                 " has no such model (status 404): sluice list --online shows some that it has");
  }
  TRY_STATUS(fetched);
  text = *fetched;
  TRY(OllamaManifest manifest, parse_ollama_manifest(text, request_.url));
  if (manifest.is_list()) TRY_ASSIGN(manifest, first_with_model(manifest));
  if (manifest.layer("model") == nullptr)
    return error(ErrorKind::unsupported, request_.url, ": a model without a GGUF file: want a model layer");
  return manifest;
}

Result<PullOffer> ManifestPull::look_up() {
  std::string text;
  TRY(const OllamaManifest manifest, model_manifest(text));
  PullOffer offer;
  offer.from = name_.host;
  offer.folder = request_.folder;
  for (const OllamaBlob& layer : manifest.layers) offer.bytes += layer.bytes;
  const OllamaBlob& model = *manifest.layer("model");
  offer.first_file = name_.text();
  offer.model_url = cat(base_, "/blobs/sha256:", model.hex);
  return offer;
}

Result<Pulled> ManifestPull::run() {
  std::string text;
  view_.begin("pulling manifest");
  TRY(const OllamaManifest manifest, model_manifest(text));
  TRY_STATUS(make_folders(join_path(request_.folder, "blobs")));
  for (const OllamaBlob& layer : manifest.layers) TRY_STATUS(pull_blob(layer));
  if (manifest.config) TRY_STATUS(pull_blob(*manifest.config));
  view_.begin("verifying sha256 digest");  // each was, as it came
  view_.begin("writing manifest");
  TRY_STATUS(write_at(ollama_manifest_path(request_.folder, name_), text));
  TRY(const ModelFiles files, open_ollama_model(request_.folder, name_));
  result_.path = files.path;
  result_.name = files.name;
  result_.sha256 = sha256_of(text);
  return std::move(result_);
}

}  // namespace

bool is_manifest_url(const std::string& url) { return name_of_manifest(url).has_value(); }

Result<PullOffer> look_up_manifest(const PullRequest& request, Console& console) {
  CHECK(request.ollama.has_value());
  ConsoleView view(request.ollama->text(), console);
  return ManifestPull(request, *request.ollama, view).look_up();
}

Result<Pulled> pull_manifest(const PullRequest& request, PullView& view) {
  TRY(OllamaName name, name_of(request));
  return ManifestPull(request, std::move(name), view).run();
}

Result<Pulled> pull_manifest(const PullRequest& request, Console& console) {
  TRY(const OllamaName name, name_of(request));
  ConsoleView view(name.text(), console);
  return pull_manifest(request, view);
}

}  // namespace sluice
