#include "app/train/checkpoints.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/files/file.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr size_t kKept = 2;
constexpr const char* kUnfinished = ".part";

void remove(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

}  // namespace

std::vector<std::pair<uint64_t, std::string>> Checkpoints::kept() const {
  std::vector<std::pair<uint64_t, std::string>> found;
  const Result<std::vector<std::string>> names = list_directory(folder_);
  if (!names) return found;
  for (const std::string& name : *names) {
    const std::optional<int64_t> step = starts_with(name, "step-") ? parse_integer(name.substr(5)) : std::nullopt;
    if (step && *step >= 0) found.emplace_back(static_cast<uint64_t>(*step), join_path(folder_, name));
  }
  std::ranges::sort(found);
  return found;
}

Status Checkpoints::load_newest(Trainer& trainer) const {
  if (const Result<std::vector<std::string>> names = list_directory(folder_))
    for (const std::string& name : *names)
      if (starts_with(name, "step-") && ends_with(name, kUnfinished)) remove(join_path(folder_, name));
  const auto all = kept();
  return all.empty() ? Status() : trainer.load(all.back().second);
}

Status Checkpoints::save(Trainer& trainer) const {
  const std::string folder = join_path(folder_, cat("step-", trainer.steps_done()));
  if (path_kind(folder) == PathKind::directory) return {};
  const std::string part = folder + kUnfinished;
  remove(part);
  if (Status saved = trainer.save(part); !saved) {
    remove(part);
    return saved;
  }
  std::error_code fault;
  std::filesystem::rename(part, folder, fault);
  if (fault) return error(ErrorKind::io, folder, ": cannot be named: ", fault.message(), ": want a folder to write in");
  const auto all = kept();
  for (size_t i = 0; i + kKept < all.size(); ++i) remove(all[i].second);
  return {};
}

}  // namespace sluice
