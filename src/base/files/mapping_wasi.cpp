// Mapped files in a page: views of files in memory.
#include "base/files/file.h"
#include "base/files/memory_files.h"
#include "base/files/stored_bytes.h"

namespace sluice {

struct Mapping::File {
  std::shared_ptr<const PageFile> file;
};

Result<Mapping> Mapping::open(const std::string& path) {
  auto file = find_memory_file(path);
  if (file == nullptr) return error(ErrorKind::not_found, path, ": cannot open: no such file or directory");
  return Mapping(std::make_unique<File>(File{std::move(file)}));
}

StoredBytes Mapping::stored() const {
  const PageFile& file = *file_->file;
  if (bytes_.size() == file.size()) return bytes_;
  return {StoredAt(file, 0), file.size()};
}

// A file in memory keeps its bytes while it is mapped. A file that the page reads may fail at any time.
Status Mapping::check_unchanged() const {
  if (std::optional<Error> failure = file_->file->failure()) return *std::move(failure);
  return {};
}

std::string Mapping::version() const { return {}; }

void give_back_mapped(std::span<const std::byte>) {}

Mapping::Mapping(std::unique_ptr<File> file) : bytes_(file->file->bytes()), file_(std::move(file)) {}
Mapping::Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})), file_(std::move(other.file_)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(file_, other.file_);
  return *this;
}

Mapping::~Mapping() = default;

}  // namespace sluice
