#include "base/files/file.h"

#include <cerrno>
#include <cstring>
#include <system_error>

namespace sluice {

Error system_error(std::string_view path, std::string_view doing, int error_number) {
  switch (error_number) {
    case ENOENT: return error(ErrorKind::not_found, path, ": cannot ", doing, ": no such file or directory");
    case EACCES:
    case EPERM: return error(ErrorKind::io, path, ": cannot ", doing, ": permission denied");
    case ENOSPC:
    case EDQUOT: return error(ErrorKind::io, path, ": cannot ", doing, ": the disk is full");
    case EFBIG: return error(ErrorKind::io, path, ": cannot ", doing, ": larger than files may be here");
    default: return error(ErrorKind::io, path, ": cannot ", doing, ": ", std::generic_category().message(error_number));
  }
}

Status MemorySource::read_at(uint64_t offset, std::span<std::byte> into) const {
  if (into.size() > bytes_.size() || offset > bytes_.size() - into.size()) {
    return error(ErrorKind::corrupt, name_, ": ends at byte ", bytes_.size(), ": want ", into.size(), " bytes at ",
                 offset);
  }
  if (!into.empty()) std::memcpy(into.data(), bytes_.data() + offset, into.size());
  return {};
}

Result<std::string> read_file(const std::string& path, uint64_t limit) {
  TRY(const auto source, FileSource::open(path));
  if (source->size() > limit) {
    return error(ErrorKind::unsupported, path, ": ", format_bytes(source->size()), ": want at most ",
                 format_bytes(limit));
  }
  std::string text(static_cast<size_t>(source->size()), '\0');
  TRY_STATUS(source->read_at(0, std::as_writable_bytes(std::span(text))));
  return text;
}

Status write_file(const std::string& path, std::string_view text, FileAccess access) {
  TRY(AtomicFile file, AtomicFile::create(path, access));
  TRY_STATUS(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

std::string join_path(std::string_view folder, std::string_view name) {
  return cat(folder, folder.empty() || ends_with(folder, "/") ? "" : "/", name);
}

std::string_view file_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace sluice
