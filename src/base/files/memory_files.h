// Files of a page, under names: what the page gives to read (page_files_wasi.cpp) and what the module itself has
// written. FileSource, Mapping and AtomicFile (the *_wasi.cpp files) read and write them, so that nothing above base/
// knows the difference.
//
// A name is a path; the folders are those that names begin with. A file that is open or mapped keeps its bytes when it
// is replaced or removed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/files/file.h"

namespace sluice {

class PageFile : public ByteSource {
 public:
  // Where the file lies in memory; none where it does not.
  virtual std::span<const std::byte> bytes() const { return {}; }
  // The first read that failed.
  virtual std::optional<Error> failure() const { return std::nullopt; }
};

// Bytes of one malloc'd block, freed with it.
class MemoryBlock final : public PageFile {
 public:
  MemoryBlock(std::string name, std::byte* bytes, size_t size) : name_(std::move(name)), bytes_(bytes), size_(size) {}
  MemoryBlock(const MemoryBlock&) = delete;
  MemoryBlock& operator=(const MemoryBlock&) = delete;
  ~MemoryBlock() override;
  uint64_t size() const override { return size_; }
  Status read_at(uint64_t offset, std::span<std::byte> into) const override;
  std::span<const std::byte> bytes() const override { return {bytes_, size_}; }

 private:
  std::string name_;
  std::byte* bytes_;
  size_t size_;
};

using MemoryFiles = std::map<std::string, std::shared_ptr<const PageFile>>;

// All there are. One thread owns them.
MemoryFiles& memory_files();
std::shared_ptr<const PageFile> find_memory_file(const std::string& path);  // null: no such file

// A file that the page reads for the module, by its number there; `size` in bytes.
std::shared_ptr<const PageFile> make_page_file(std::string name, uint32_t number, uint64_t size);

}  // namespace sluice
