#include <cstdlib>

#include "base/file.h"
#include "base/memory_files.h"
#include "base/stored_bytes.h"

namespace sluice {

namespace {

bool& left_where_they_are() {
  static bool left = false;
  return left;
}

// All of a file in one block.
Result<std::shared_ptr<const PageFile>> read_whole(const std::string& path, const PageFile& file) {
  const auto too_large = [&] {
    return error(ErrorKind::out_of_memory, path, ": ", format_bytes(file.size()),
                 ": more than the page's memory has room for: want a smaller model, or one on the GPU");
  };
  if (file.size() >= UINT32_MAX) return too_large();
  const auto size = static_cast<size_t>(file.size());
  auto* const bytes = static_cast<std::byte*>(std::malloc(size + 1));  // never of nothing
  if (bytes == nullptr) return too_large();
  auto block = std::make_shared<const MemoryBlock>(path, bytes, size);
  TRY_STATUS(file.read_at(0, {bytes, size}));
  return std::shared_ptr<const PageFile>(std::move(block));
}

}  // namespace

void leave_mapped_files(bool where_they_are) { left_where_they_are() = where_they_are; }

struct Mapping::File {
  std::shared_ptr<const PageFile> file;
};

Result<Mapping> Mapping::open(const std::string& path) {
  auto file = find_memory_file(path);
  if (file == nullptr) return error(ErrorKind::not_found, path, ": cannot open: no such file or directory");
  if (file->bytes().size() != file->size() && !left_where_they_are()) {
    TRY(file, read_whole(path, *file));
  }
  return Mapping(std::make_unique<File>(File{std::move(file)}));
}

StoredBytes Mapping::stored() const {
  const PageFile& file = *file_->file;
  if (bytes_.size() == file.size()) return bytes_;
  return {StoredAt(file, 0), file.size()};
}

// A file that is mapped keeps its bytes when it is replaced; one that lies elsewhere may have gone.
Status Mapping::check_unchanged() const {
  if (std::optional<Error> failure = file_->file->failure()) return *std::move(failure);
  return {};
}

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
