#include "base/file.h"
#include "base/memory_files.h"

namespace sluice {

struct Mapping::File {
  std::shared_ptr<const MemoryBlock> block;
};

Result<Mapping> Mapping::open(const std::string& path) {
  auto block = find_memory_file(path);
  if (block == nullptr) return error(ErrorKind::not_found, path, ": cannot open: no such file or directory");
  return Mapping(std::make_unique<File>(File{std::move(block)}));
}

// A file that is mapped keeps its bytes when it is replaced.
Status Mapping::check_unchanged() const { return {}; }

void give_back_mapped(std::span<const std::byte>) {}

Mapping::Mapping(std::unique_ptr<File> file) : bytes_(file->block->bytes()), file_(std::move(file)) {}
Mapping::Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})), file_(std::move(other.file_)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(file_, other.file_);
  return *this;
}

Mapping::~Mapping() = default;

}  // namespace sluice
