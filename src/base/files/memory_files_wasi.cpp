// The files that a page holds in memory.
#include <cstdlib>

#include "base/files/memory_files.h"

namespace sluice {

MemoryBlock::~MemoryBlock() { std::free(bytes_); }

Status MemoryBlock::read_at(uint64_t offset, std::span<std::byte> into) const {
  return MemorySource(name_, bytes()).read_at(offset, into);
}

MemoryFiles& memory_files() {
  static MemoryFiles files;
  return files;
}

std::shared_ptr<const PageFile> find_memory_file(const std::string& path) {
  const auto found = memory_files().find(path);
  return found == memory_files().end() ? nullptr : found->second;
}

}  // namespace sluice
