// AtomicFile: a file is written under a temporary name in the same folder, and renamed when it is complete.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>

#include "base/files/file.h"

namespace sluice {

namespace {

// The temporary files that exist now. If there are more, the signal handler removes only these.
std::array<std::atomic<const std::string*>, 16> live_parts;

void exchange_part(const std::string* old, const std::string* now) {
  for (std::atomic<const std::string*>& slot : live_parts) {
    const std::string* expected = old;
    if (slot.compare_exchange_strong(expected, now)) return;
  }
}

}  // namespace

void remove_unfinished_files() {
  for (const std::atomic<const std::string*>& slot : live_parts)
    if (const std::string* part = slot.load()) ::unlink(part->c_str());
}

Result<AtomicFile> AtomicFile::create(const std::string& path, FileAccess access) {
  static std::atomic<uint32_t> count{0};
  // Renaming over /dev/null would replace the device.
  const PathKind kind = path_kind(path);
  if (kind == PathKind::directory || kind == PathKind::other)
    return error(ErrorKind::invalid, path, ": not a file: want the name of a regular file");
  const mode_t mode = access == FileAccess::owner_only ? 0600 : 0666;
  for (;;) {
    auto part = std::make_unique<const std::string>(cat(path, ".part-", ::getpid(), "-", count++));
    const int descriptor = ::open(part->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor >= 0) return AtomicFile(path, std::move(part), descriptor);
    if (errno != EEXIST) return system_error(path, "create", errno);  // EEXIST: left behind by a killed process
  }
}

AtomicFile::AtomicFile(std::string path, std::unique_ptr<const std::string> part, int descriptor)
    : path_(std::move(path)), part_(std::move(part)), descriptor_(descriptor) {
  exchange_part(nullptr, part_.get());
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), part_(std::move(other.part_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (part_ == nullptr) return;
  ::unlink(part_->c_str());
  exchange_part(part_.get(), nullptr);
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

Status AtomicFile::write_start(std::span<const std::byte> bytes) {
  CHECK(descriptor_ >= 0);
  for (off_t offset = 0; !bytes.empty();) {
    const ssize_t put = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_error(path_, "write", errno);
    bytes = bytes.subspan(static_cast<size_t>(put));
    offset += put;
  }
  return {};
}

Status AtomicFile::commit() {
  CHECK(descriptor_ >= 0);
  // A full disk may show only here: file systems that allocate late answer write() with success.
  if (::fsync(descriptor_) != 0) return system_error(path_, "write", errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) return system_error(path_, "write", errno);
  if (std::rename(part_->c_str(), path_.c_str()) != 0) return system_error(path_, "rename to", errno);
  exchange_part(part_.get(), nullptr);
  part_.reset();
  return {};
}

}  // namespace sluice
