#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include "base/file.h"

namespace sluice {

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  static std::atomic<uint32_t> count{0};
  // Renaming over /dev/null would replace the device.
  const PathKind kind = path_kind(path);
  if (kind == PathKind::directory || kind == PathKind::other) {
    return error(ErrorKind::invalid, path, ": not a file: want the name of a regular file");
  }
  for (;;) {
    std::string part = cat(path, ".part-", ::getpid(), "-", count++);
    const int descriptor = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) return AtomicFile(path, std::move(part), descriptor);
    if (errno != EEXIST) return system_error(path, "create", errno);  // EEXIST: left behind by a killed process
  }
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      part_(std::exchange(other.part_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!part_.empty()) ::unlink(part_.c_str());
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  CHECK(descriptor_ >= 0);
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_error(path_, "write", errno);
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
  return {};
}

Status AtomicFile::commit() {
  CHECK(descriptor_ >= 0);
  // A full disk may show only here: file systems that allocate late answer write() with success.
  if (::fsync(descriptor_) != 0) return system_error(path_, "write", errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) return system_error(path_, "write", errno);
  if (std::rename(part_.c_str(), path_.c_str()) != 0) return system_error(path_, "rename to", errno);
  part_.clear();
  return {};
}

}  // namespace sluice
