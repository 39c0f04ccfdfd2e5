// Files: reading at an offset, read-only mappings, and writing beside a name and renaming.
//
// Parsers ask for a ByteSource and writers for a ByteSink, so that tests can stand in for a disk that fails. The rest
// is POSIX's, and in a page that of memory_files.h. A mapping shows the file as it is: cutting a file while it is
// mapped is answered by the system with a signal, as for every program that maps files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice {

// Bytes that can be read at any offset. Both calls may come from several threads.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  // Fills all of `into`, or fails with a sentence that names the file.
  virtual Status read_at(uint64_t offset, std::span<std::byte> into) const = 0;
};

// Where bytes are appended.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Status write(std::span<const std::byte> bytes) = 0;
};

// Bytes in memory as a source; `name` is what errors call them. The bytes outlive it.
class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string name, std::span<const std::byte> bytes) : name_(std::move(name)), bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  Status read_at(uint64_t offset, std::span<std::byte> into) const override;

 private:
  std::string name_;
  std::span<const std::byte> bytes_;
};

// A file open for reading, closed with the last copy of the handle.
class FileSource final : public ByteSource {
 public:
  static Result<std::unique_ptr<FileSource>> open(const std::string& path);
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override;
  uint64_t size() const override { return size_; }
  Status read_at(uint64_t offset, std::span<std::byte> into) const override;

 private:
  FileSource(std::string path, int descriptor, uint64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

  std::string path_;
  int descriptor_;
  uint64_t size_;
};

// A whole file mapped for reading; unmapped on destruction. An empty file has no bytes.
class Mapping {
 public:
  static Result<Mapping> open(const std::string& path);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit Mapping(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

// A file that appears whole or not at all: written as "path.part-<process>-<n>", synced and renamed by commit(),
// removed on destruction when commit() was not reached.
class AtomicFile final : public ByteSink {
 public:
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile() override;

  Status write(std::span<const std::byte> bytes) override;
  Status commit();

 private:
  AtomicFile(std::string path, std::string part, int descriptor)
      : path_(std::move(path)), part_(std::move(part)), descriptor_(descriptor) {}

  std::string path_;
  std::string part_;  // empty once renamed or moved from
  int descriptor_ = -1;
};

enum class PathKind : uint8_t { missing, file, directory, other };
PathKind path_kind(const std::string& path);
// A folder and those above it, as far as they are missing.
Status make_folders(const std::string& path);
// Names in a directory, sorted, without "." and "..".
Result<std::vector<std::string>> list_directory(const std::string& path);
// A whole file of at most `limit` bytes.
Result<std::string> read_file(const std::string& path, uint64_t limit);
// Writes `text` as an AtomicFile.
Status write_file(const std::string& path, std::string_view text);
std::string join_path(std::string_view folder, std::string_view name);
// Last part of a path: "model.gguf" of "models/model.gguf".
std::string_view file_name(std::string_view path);

// What the system's error number means for the file: "model.gguf: cannot write: the disk is full".
Error system_error(std::string_view path, std::string_view doing, int error_number);

}  // namespace sluice
