#include "checkpoint/places/hub_cache.h"

#include <algorithm>
#include <filesystem>

#include "base/files/file.h"

namespace sluice {

namespace {

constexpr std::string_view kModels = "models--";
constexpr std::string_view kSeparator = "--";
constexpr size_t kCommitDigits = 40;
constexpr uint64_t kMaxRefBytes = 4096;

bool is_commit(std::string_view text) {
  return text.size() == kCommitDigits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Result<std::string> snapshot_of_main(const std::string& folder, const std::string& ref) {
  TRY(std::string commit, read_file(ref, kMaxRefBytes));
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r')) commit.pop_back();
  if (!is_commit(commit))
    return error(ErrorKind::corrupt, ref, ": ", printable(commit), ": want a commit of 40 hexadecimal digits");
  std::string snapshot = join_path(join_path(folder, "snapshots"), commit);
  if (path_kind(snapshot) == PathKind::directory) return snapshot;
  return error(ErrorKind::not_found, snapshot, ": missing: want the snapshot that refs/main names");
}

Result<std::string> newest_snapshot(const std::string& folder) {
  const std::string snapshots = join_path(folder, "snapshots");
  std::string newest;
  std::filesystem::file_time_type newest_time;
  const auto names = list_directory(snapshots);
  for (const std::string& name : names ? *names : std::vector<std::string>()) {
    const std::string path = join_path(snapshots, name);
    std::error_code failed;
    const auto time = std::filesystem::last_write_time(path, failed);
    if (failed || path_kind(path) != PathKind::directory) continue;
    if (newest.empty() || time > newest_time) {
      newest = path;
      newest_time = time;
    }
  }
  if (!newest.empty()) return newest;
  return error(ErrorKind::not_found, snapshots, ": no snapshot: want a repository that was downloaded");
}

}  // namespace

std::optional<Result<std::string>> hub_snapshot(const std::string& root, const std::string& organisation,
                                                const std::string& repository) {
  const std::string folder = join_path(root, cat(kModels, organisation, kSeparator, repository));
  if (path_kind(folder) != PathKind::directory) return std::nullopt;
  const std::string main = join_path(folder, "refs/main");
  return path_kind(main) == PathKind::file ? snapshot_of_main(folder, main) : newest_snapshot(folder);
}

std::vector<RepositoryName> list_hub_repositories(const std::string& root) {
  std::vector<RepositoryName> found;
  const auto names = list_directory(root);
  if (!names) return found;
  for (const std::string& name : *names) {
    if (!starts_with(name, kModels)) continue;
    const size_t separator = name.find(kSeparator, kModels.size());
    if (separator == std::string::npos) continue;
    const std::string organisation = name.substr(kModels.size(), separator - kModels.size());
    const std::string repository = name.substr(separator + kSeparator.size());
    if (is_folder_name(organisation) && is_folder_name(repository)) found.push_back({organisation, repository, {}});
  }
  return found;
}

}  // namespace sluice
