// AtomicFile in a page: the file is written in memory and added to the page's files when it is complete.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "base/files/file.h"
#include "base/files/memory_files.h"

namespace sluice {
namespace {

// The contents of the files that are being written, by descriptor.
std::map<int, std::vector<std::byte>>& drafts() {
  static std::map<int, std::vector<std::byte>> files;
  return files;
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::string& path, FileAccess) {
  if (path_kind(path) == PathKind::directory)
    return error(ErrorKind::invalid, path, ": not a file: want the name of a regular file");
  static int last_descriptor = 0;
  drafts()[++last_descriptor] = {};
  return AtomicFile(path, nullptr, last_descriptor);
}

// There is no temporary file: the contents are in drafts().
AtomicFile::AtomicFile(std::string path, std::unique_ptr<const std::string> part, int descriptor)
    : path_(std::move(path)), part_(std::move(part)), descriptor_(descriptor) {}
AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), part_(nullptr), descriptor_(std::exchange(other.descriptor_, -1)) {}

AtomicFile::~AtomicFile() { drafts().erase(descriptor_); }

Status AtomicFile::write(std::span<const std::byte> bytes) {
  CHECK(descriptor_ >= 0);
  std::vector<std::byte>& draft = drafts()[descriptor_];
  draft.insert(draft.end(), bytes.begin(), bytes.end());
  return {};
}

Status AtomicFile::write_start(std::span<const std::byte> bytes) {
  CHECK(descriptor_ >= 0);
  std::vector<std::byte>& draft = drafts()[descriptor_];
  CHECK(bytes.size() <= draft.size());
  std::copy(bytes.begin(), bytes.end(), draft.begin());
  return {};
}

Status AtomicFile::commit() {
  CHECK(descriptor_ >= 0);
  const std::vector<std::byte>& draft = drafts()[descriptor_];
  auto* const bytes = static_cast<std::byte*>(std::malloc(draft.size() + 1));  // never of nothing
  if (bytes == nullptr) return system_error(path_, "write", ENOMEM);
  if (!draft.empty()) std::memcpy(bytes, draft.data(), draft.size());
  memory_files()[path_] = std::make_shared<const MemoryBlock>(path_, bytes, draft.size());
  drafts().erase(std::exchange(descriptor_, -1));
  return {};
}

}  // namespace sluice
