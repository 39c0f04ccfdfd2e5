// A model of the Hugging Face hub: into the hub's cache (checkpoint/places/hub_cache.h), so that other programs find it
// too, or into a plain folder. Files come before refs/main, so that the name appears when all it stands for is there.
#include <algorithm>
#include <filesystem>

#include "app/cli/environment.h"
#include "app/files/http.h"
#include "app/files/hub_files.h"
#include "app/files/pull.h"
#include "base/files/file.h"
#include "base/text.h"
#include "checkpoint/places/hub_cache.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxListingBytes = 64 << 20;

// A repository's address, and what every request to it needs.
class Hub {
 public:
  explicit Hub(const PullRequest& request) : request_(request), name_(*request.hub), token_(hub_token()) {}

  std::vector<std::string> headers() const {
    return token_.empty() ? std::vector<std::string>() : std::vector{cat("Authorization: Bearer ", token_)};
  }
  std::string page() const { return cat(request_.url, '/', name_.text()); }
  std::string file_url(const HubListing& listing, const HubFile& file) const {
    return cat(page(), "/resolve/", listing.commit, '/', file.path);
  }
  Result<HubListing> list() const {
    const std::string url = cat(request_.url, "/api/models/", name_.text(), "/revision/main?blobs=true");
    const Result<std::string> text = fetch_text(url, headers(), kMaxListingBytes, request_.options);
    if (!text) return explained(text.error());
    return parse_hub_listing(*text, url);
  }
  Result<std::vector<HubFile>> choose(const HubListing& listing) const {
    return choose_hub_files(listing, name_.text(), name_.wanted);
  }
  // The hub answers 401 for repositories that do not exist, too.
  Error explained(const Error& why) const {
    const bool refused =
        why.text.find("(status 401)") != std::string::npos || why.text.find("(status 403)") != std::string::npos;
    if (!refused) return why;
    if (token_.empty()) {
      return error(why.kind, why.text,
                   ": want a repository that exists, and HF_TOKEN where its terms must be accepted (", page(), ")");
    }
    return error(why.kind, why.text, ": want a token of somebody who has accepted its terms (", page(), ")");
  }

 private:
  const PullRequest& request_;
  const RepositoryName& name_;
  std::string token_;
};

uint64_t sum_of(const std::vector<HubFile>& files) {
  uint64_t bytes = 0;
  for (const HubFile& file : files) bytes += file.bytes;
  return bytes;
}

class HubPull {
 public:
  HubPull(const PullRequest& request, Console& console)
      : request_(request), name_(*request.hub), hub_(request), console_(console) {}

  Result<Pulled> run();

 private:
  std::string cache_folder() const {
    return join_path(request_.folder, cat("models--", name_.organisation, "--", name_.repository));
  }
  std::string snapshot() const { return join_path(join_path(cache_folder(), "snapshots"), listing_.commit); }
  Status fetch(const HubFile& file, const std::string& path);
  Result<bool> have(const HubFile& file, const std::string& path);
  Status into_cache(const HubFile& file);
  Result<ModelFiles> found(const HubFile& first) const;

  const PullRequest& request_;
  const RepositoryName& name_;
  const Hub hub_;
  Console& console_;
  HubListing listing_;
  Pulled result_;
};

// Whether the file is there whole. A damaged one is fetched anew.
Result<bool> HubPull::have(const HubFile& file, const std::string& path) {
  if (path_kind(path) == PathKind::missing) return false;
  TRY(const auto source, FileSource::open(path));
  bool same = source->size() == file.bytes;
  if (same && !file.sha256.empty()) {
    ProgressLine progress(console_, cat("checking ", printable(file.path)), "bytes");
    TRY(const std::string digest, file_sha256(path, progress));
    same = digest == file.sha256;
  }
  if (same) return true;
  if (request_.plain_files)
    return error(ErrorKind::invalid, path, ": is there already and is another file: want another --to");
  std::error_code failed;
  fs::remove(path, failed);
  if (failed) return system_error(path, "remove", failed.value());
  return false;
}

Status HubPull::fetch(const HubFile& file, const std::string& path) {
  result_.bytes += file.bytes;
  TRY_STATUS(make_folders(path.substr(0, path.rfind('/'))));
  TRY(const bool there, have(file, path));
  if (there) return {};
  ProgressLine progress(console_, cat("pulling ", printable(file.path)), "bytes");
  const Result<Downloaded> done = download(
      {hub_.file_url(listing_, file), path, file.sha256, file.bytes, request_.options, hub_.headers()}, progress);
  if (!done) return hub_.explained(done.error());
  result_.fetched += done->fetched;
  return {};
}

// The bytes under their digest, and a link to them under the file's name. A file system without links gets a copy.
Status HubPull::into_cache(const HubFile& file) {
  const std::string blob = join_path(join_path(cache_folder(), "blobs"), file.blob);
  const std::string link = join_path(snapshot(), file.path);
  TRY_STATUS(fetch(file, blob));
  TRY_STATUS(make_folders(link.substr(0, link.rfind('/'))));
  if (path_kind(link) != PathKind::missing) return {};
  std::string up = "../../";
  for (const char c : file.path) up += c == '/' ? "../" : "";
  std::error_code failed;
  fs::remove(link, failed);  // one that leads nowhere
  fs::create_symlink(cat(up, "blobs/", file.blob), link, failed);
  if (failed) fs::copy_file(blob, link, failed);
  return failed ? Status(system_error(link, "create", failed.value())) : Status();
}

// The model as other commands find it.
Result<ModelFiles> HubPull::found(const HubFile& first) const {
  TRY(const ModelFolder folder, read_model_folder(snapshot(), name_.text(), Origin::hugging_face));
  return choose_model(folder, ends_with(first.path, ".gguf") ? first.path : "");
}

Result<Pulled> HubPull::run() {
  TRY_ASSIGN(listing_, hub_.list());
  TRY(const std::vector<HubFile> files, hub_.choose(listing_));
  if (request_.plain_files) {
    for (const HubFile& file : files) TRY_STATUS(fetch(file, join_path(request_.folder, file.path)));
    const bool gguf = ends_with(files.front().path, ".gguf");
    result_.path = gguf ? join_path(request_.folder, files.front().path) : request_.folder;
    result_.name = result_.path;
    return std::move(result_);
  }
  for (const HubFile& file : files) TRY_STATUS(into_cache(file));
  TRY_STATUS(make_folders(join_path(cache_folder(), "refs")));
  TRY_STATUS(write_file(join_path(cache_folder(), "refs/main"), listing_.commit));
  TRY(const ModelFiles model, found(files.front()));
  result_.path = model.path;
  result_.name = model.name;
  return std::move(result_);
}

}  // namespace

Result<Pulled> pull_hub(const PullRequest& request, Console& console) { return HubPull(request, console).run(); }

Result<PullOffer> look_up_hub(const PullRequest& request) {
  const Hub hub(request);
  TRY(const HubListing listing, hub.list());
  TRY(const std::vector<HubFile> files, hub.choose(listing));
  return PullOffer{.from = hub.page(),
                   .folder = request.folder,
                   .bytes = sum_of(files),
                   .first_file = files.front().path,
                   .model_url = hub.file_url(listing, files.front()),
                   .headers = hub.headers()};
}

}  // namespace sluice
