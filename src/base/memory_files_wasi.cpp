#include <cstdlib>

#include "base/memory_files.h"

namespace sluice {

MemoryBlock::~MemoryBlock() { std::free(bytes_); }

MemoryFiles& memory_files() {
  static MemoryFiles files;
  return files;
}

std::shared_ptr<const MemoryBlock> find_memory_file(const std::string& path) {
  const auto found = memory_files().find(path);
  return found == memory_files().end() ? nullptr : found->second;
}

}  // namespace sluice
