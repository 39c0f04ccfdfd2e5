// Files and folders in a page: those in memory (memory_files.h).
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/files/file.h"
#include "base/files/memory_files.h"

namespace sluice {
namespace {

// The files behind the descriptors of FileSource.
std::vector<std::shared_ptr<const PageFile>>& open_files() {
  static std::vector<std::shared_ptr<const PageFile>> files;
  return files;
}

std::string as_folder(const std::string& path) { return path.empty() || path.ends_with('/') ? path : path + "/"; }

}  // namespace

Result<std::unique_ptr<FileSource>> FileSource::open(const std::string& path) {
  auto file = find_memory_file(path);
  if (file == nullptr) return system_error(path, "open", ENOENT);
  auto& files = open_files();
  const auto free = std::find(files.begin(), files.end(), nullptr);
  const auto descriptor = static_cast<int>(free - files.begin());
  const uint64_t size = file->size();
  if (free == files.end())
    files.push_back(std::move(file));
  else
    *free = std::move(file);
  return std::unique_ptr<FileSource>(new FileSource(path, descriptor, size));
}

FileSource::~FileSource() { open_files()[static_cast<size_t>(descriptor_)] = nullptr; }

Status FileSource::read_at(uint64_t offset, std::span<std::byte> into) const {
  return open_files()[static_cast<size_t>(descriptor_)]->read_at(offset, into);
}

PathKind path_kind(const std::string& path) {
  const MemoryFiles& files = memory_files();
  if (files.contains(path)) return PathKind::file;
  const std::string folder = as_folder(path);
  const auto first = files.lower_bound(folder);
  return first != files.end() && first->first.starts_with(folder) ? PathKind::directory : PathKind::missing;
}

// A folder exists when a file in it exists.
Status make_folders(const std::string&) { return {}; }

Result<std::vector<std::string>> list_directory(const std::string& path) {
  if (path_kind(path) != PathKind::directory) return system_error(path, "open", ENOENT);
  const std::string folder = as_folder(path);
  std::vector<std::string> names;
  for (const auto& [name, file] : memory_files()) {
    if (!name.starts_with(folder)) continue;
    std::string entry = name.substr(folder.size(), name.find('/', folder.size()) - folder.size());
    if (!entry.empty()) names.push_back(std::move(entry));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace sluice
