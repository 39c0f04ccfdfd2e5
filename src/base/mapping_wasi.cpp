#include <map>

#include "base/file.h"
#include "base/memory_files.h"

namespace sluice {
namespace {

// The blocks that mappings show, by their first byte.
std::multimap<const std::byte*, std::shared_ptr<const MemoryBlock>>& mapped() {
  static std::multimap<const std::byte*, std::shared_ptr<const MemoryBlock>> blocks;
  return blocks;
}

}  // namespace

Result<Mapping> Mapping::open(const std::string& path) {
  auto block = find_memory_file(path);
  if (block == nullptr) return error(ErrorKind::not_found, path, ": cannot open: no such file or directory");
  const auto bytes = block->bytes();
  if (!bytes.empty()) mapped().emplace(bytes.data(), std::move(block));
  return Mapping(bytes);
}

Mapping::Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (!bytes_.empty()) mapped().erase(mapped().find(bytes_.data()));
}

}  // namespace sluice
