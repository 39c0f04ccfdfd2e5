// Files for targets whose parser opens paths: bytes in memory under a path, and a folder of its own for each process.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/text.h"

namespace sluice::fuzz {

// Bytes that can be opened by path as long as this lives.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    CHECK(descriptor_ >= 0);
    CHECK(::write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }
  std::string path() const { return cat("/proc/self/fd/", descriptor_); }

 private:
  int descriptor_;
};

// Removed when the process ends well.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path().string() + "/sluice-fuzz-XXXXXX") {
    CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  // `more` zeros follow, which take no room.
  void put(std::string_view name, std::string_view content, uint64_t more = 0) const {
    const std::string file = cat(path_, "/", name);
    std::FILE* out = std::fopen(file.c_str(), "wb");
    CHECK(out != nullptr && std::fwrite(content.data(), 1, content.size(), out) == content.size());
    CHECK(std::fclose(out) == 0);
    if (more > 0) std::filesystem::resize_file(file, content.size() + more);
  }

 private:
  std::string path_;
};

}  // namespace sluice::fuzz
