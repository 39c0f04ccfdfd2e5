// Files of a page: blocks of memory under names. The host puts them in and takes them out; FileSource, Mapping and
// AtomicFile (the *_wasi.cpp files) read and write them, so that nothing above base/ knows the difference.
//
// A name is a path; the folders are those that names begin with. A file that is open or mapped keeps its bytes when it
// is replaced or removed.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace sluice {

// Bytes of one malloc'd block, freed with it.
class MemoryBlock {
 public:
  MemoryBlock(std::byte* bytes, size_t size) : bytes_(bytes), size_(size) {}
  MemoryBlock(const MemoryBlock&) = delete;
  MemoryBlock& operator=(const MemoryBlock&) = delete;
  ~MemoryBlock();
  std::span<const std::byte> bytes() const { return {bytes_, size_}; }

 private:
  std::byte* bytes_;
  size_t size_;
};

using MemoryFiles = std::map<std::string, std::shared_ptr<const MemoryBlock>>;

// All there are. One thread owns them.
MemoryFiles& memory_files();
std::shared_ptr<const MemoryBlock> find_memory_file(const std::string& path);  // null: no such file

}  // namespace sluice
