// Kept files in a page: the same calls on files in memory.
#include <cerrno>

#include "base/files/file.h"
#include "base/files/kept_files.h"
#include "base/files/memory_files.h"

namespace sluice {

std::optional<FileFacts> file_facts(const std::string& path) {
  const auto file = find_memory_file(path);
  if (file == nullptr) return std::nullopt;
  return FileFacts{file->size(), 0};
}

// Files of a page have no times.
int64_t system_clock_ns() { return 0; }
void touch_file(const std::string&, int64_t) {}

void remove_file(const std::string& path) { memory_files().erase(path); }

Status rename_file(const std::string& from, const std::string& to) {
  auto file = find_memory_file(from);
  if (file == nullptr) return system_error(from, "rename", ENOENT);
  memory_files().erase(from);
  memory_files()[to] = std::move(file);
  return {};
}

Status make_own_folder(const std::string&) { return {}; }
Status check_own_folder(const std::string&) { return {}; }

}  // namespace sluice
