#include "app/files/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/files/file.h"
#include "base/json.h"

namespace sluice {
namespace {

constexpr uint64_t kMaxNoteBytes = 1 << 16;
constexpr uint64_t kNotOurs = UINT64_MAX;  // the size of a part that is not locked: whoever has it locked removes it

PartNote parse_note(const std::string& path) {
  const Result<std::string> text = read_file(path, kMaxNoteBytes);
  const Result<Json> json = text ? parse_json(*text, path) : Result<Json>(text.error());
  PartNote note;
  if (!json) return note;  // a part of unknown origin, which is begun anew
  const auto text_of = [&](const char* name) {
    const Json* member = json->find(name);
    return member != nullptr && member->is_string() ? member->as_string() : std::string();
  };
  note.url = text_of("url");
  note.validator = text_of("validator");
  const Json* total = json->find("total");
  if (total != nullptr && total->is_integer() && total->as_integer() >= 0)
    note.total = static_cast<uint64_t>(total->as_integer());
  return note;
}

}  // namespace

PartFile::PartFile(std::string path, int descriptor)
    : path_(std::move(path)), part_(path_ + ".part"), note_path_(path_ + ".part.json"), descriptor_(descriptor) {}

PartFile::PartFile(PartFile&& other) noexcept
    : path_(std::move(other.path_)),
      part_(std::move(other.part_)),
      note_path_(std::move(other.note_path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      note_(std::move(other.note_)) {}

PartFile::~PartFile() {
  if (descriptor_ < 0) return;
  if (size_ == 0) {
    discard();
    return;
  }
  ::close(descriptor_);
}

Result<PartFile> PartFile::open(const std::string& path, const std::function<void()>& before_lock) {
  const std::string part = path + ".part";
  const auto busy = [&] { return error(ErrorKind::io, part, ": another process is fetching it: want to be alone"); };
  const int descriptor = ::open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor < 0) return system_error(part, "create", errno);
  PartFile file(path, descriptor);
  file.size_ = kNotOurs;
  if (before_lock) before_lock();
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0)
    return errno == EWOULDBLOCK ? busy() : system_error(part, "lock", errno);
  struct stat locked = {}, named = {};
  if (::fstat(descriptor, &locked) != 0) return system_error(part, "look at", errno);
  if (::lstat(part.c_str(), &named) != 0 || named.st_dev != locked.st_dev || named.st_ino != locked.st_ino)
    return busy();
  file.size_ = static_cast<uint64_t>(locked.st_size);
  if (path_kind(path) != PathKind::missing)
    return error(ErrorKind::io, path, ": another process has fetched it: want no second time");
  file.note_ = parse_note(file.note_path_);
  if (::lseek(descriptor, 0, SEEK_END) < 0) return system_error(part, "read", errno);
  return file;
}

Status PartFile::restart(const PartNote& note) {
  if (::ftruncate(descriptor_, 0) != 0 || ::lseek(descriptor_, 0, SEEK_SET) != 0)
    return system_error(part_, "write", errno);
  size_ = 0;
  note_ = note;
  Json json = Json::Object{{"url", note.url}, {"validator", note.validator}};
  if (note.total) json.add("total", static_cast<int64_t>(*note.total));
  return write_file(note_path_, write_json(json));
}

Status PartFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_error(part_, "write", errno);
    size_ += static_cast<uint64_t>(put);
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
  return {};
}

Status PartFile::commit() {
  // A full disk may show only here: file systems that allocate late answer write() with success.
  if (::fsync(descriptor_) != 0) return system_error(part_, "write", errno);
  if (std::rename(part_.c_str(), path_.c_str()) != 0) return system_error(path_, "rename to", errno);
  ::unlink(note_path_.c_str());
  ::close(std::exchange(descriptor_, -1));
  return {};
}

void PartFile::discard() {
  // The note first: once the part's name is free another process may begin anew and write a note of its own.
  ::unlink(note_path_.c_str());
  ::unlink(part_.c_str());
  ::close(std::exchange(descriptor_, -1));
}

}  // namespace sluice
