// Files and folders of the system. A page has none and uses file_system_wasi.cpp.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/files/file.h"

namespace sluice {

Result<std::unique_ptr<FileSource>> FileSource::open(const std::string& path) {
  // O_NONBLOCK: opening a pipe would otherwise wait for a writer, although a pipe is refused.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return system_error(path, "open", errno);
  std::unique_ptr<FileSource> source(new FileSource(path, descriptor, 0));  // closes it on every way out
  struct stat facts{};
  if (::fstat(descriptor, &facts) != 0) return system_error(path, "look at", errno);
  if (!S_ISREG(facts.st_mode)) return error(ErrorKind::invalid, path, ": not a file: want a regular file");
  source->size_ = static_cast<uint64_t>(facts.st_size);
  return source;
}

FileSource::~FileSource() { ::close(descriptor_); }

Status FileSource::read_at(uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(path_, "read", errno);
    if (got == 0)
      return error(ErrorKind::corrupt, path_, ": ends at byte ", offset, ": want ", into.size(), " bytes more");
    offset += static_cast<uint64_t>(got);
    into = into.subspan(static_cast<size_t>(got));
  }
  return {};
}

PathKind path_kind(const std::string& path) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0) return PathKind::missing;
  if (S_ISREG(facts.st_mode)) return PathKind::file;
  return S_ISDIR(facts.st_mode) ? PathKind::directory : PathKind::other;
}

Status make_folders(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  return failed ? Status(system_error(path, "create", failed.value())) : Status();
}

Result<std::vector<std::string>> list_directory(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
  if (directory == nullptr) return system_error(path, "open", errno);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(directory.get())) {  // NOLINT(concurrency-mt-unsafe): the stream is our own
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) return system_error(path, "list", errno);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace sluice
