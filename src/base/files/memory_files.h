// Files of a page, by name: those that the page reads for the module (page_files_wasi.cpp), and those that the module
// has written. FileSource, Mapping and AtomicFile (*_wasi.cpp) read and write them, so code above base/ sees no
// difference.
//
// A name is a path. A folder exists when a name begins with it. An open or mapped file keeps its bytes when it is
// replaced or removed.
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
  // The file's bytes in memory; none when the page reads the file.
  virtual std::span<const std::byte> bytes() const { return {}; }
  // The error of the first failed read.
  virtual std::optional<Error> failure() const { return std::nullopt; }
};

// One block from malloc, freed with this object.
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

// All files. One thread owns them.
MemoryFiles& memory_files();
std::shared_ptr<const PageFile> find_memory_file(const std::string& path);  // null: no such file

// A file that the page reads for the module, by the page's number for it. `size` is in bytes.
std::shared_ptr<const PageFile> make_page_file(std::string name, uint32_t number, uint64_t size);

}  // namespace sluice
