// Files: reading at an offset, read-only mappings, and writing beside a name and renaming.
//
// Parsers ask for a ByteSource and writers for a ByteSink, so that tests can stand in for a disk that fails. The rest
// is POSIX's, and in a page that of memory_files.h.
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

class StoredBytes;

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

// A whole file mapped for reading; unmapped on destruction. An empty file has no bytes. A mapping shows the file as it
// is: who reads beyond the end of a file that was cut meanwhile is stopped by SIGBUS (see mapped_file_at), and bytes
// that were overwritten are as they are now, which check_unchanged() says.
//
// A page maps nothing. A file that the page reads stays where it is: then bytes() are none, and stored() reads them
// (memory_files.h).
class Mapping {
 public:
  static Result<Mapping> open(const std::string& path);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  std::span<const std::byte> bytes() const { return bytes_; }
  // All of the file; not to be used longer than this.
  StoredBytes stored() const;
  // An error when the file has been written to since it was mapped; one that was replaced by renaming is still whole.
  Status check_unchanged() const;
  // Text that another file, or this one once its bytes were changed, does not have: device, number, size and times of
  // writing. "" where times cannot tell: in a page, and of a file that was written to in the last seconds, whose next
  // change might get the same time.
  std::string version() const;

 private:
  struct File;
  explicit Mapping(std::unique_ptr<File> file);

  std::span<const std::byte> bytes_;
  std::unique_ptr<File> file_;  // null when moved from

  friend const char* mapped_file_at(const void* address);
};
// Bytes that nobody will read soon: where they lie in a mapping, their whole pages are left to the system, which reads
// them again when they are asked for. Elsewhere nothing happens.
void give_back_mapped(std::span<const std::byte> bytes);
// For a handler of SIGBUS: the path of the file that is mapped at `address`, or null.
const char* mapped_file_at(const void* address);

// Who may read and write a new file: whom the process lets (its umask), or its owner alone.
enum class FileAccess : uint8_t { usual, owner_only };
// A file that appears whole or not at all: written as "path.part-<process>-<n>", synced and renamed by commit(),
// removed on destruction when commit() was not reached. For a handler of a signal that ends the program at once:
// remove_unfinished_files().
class AtomicFile final : public ByteSink {
 public:
  static Result<AtomicFile> create(const std::string& path, FileAccess access = FileAccess::usual);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile() override;

  Status write(std::span<const std::byte> bytes) override;
  // The first bytes of what was written, once it is known what they are to be.
  Status write_start(std::span<const std::byte> bytes);
  Status commit();

 private:
  AtomicFile(std::string path, std::unique_ptr<const std::string> part, int descriptor);

  std::string path_;
  std::unique_ptr<const std::string> part_;  // null once renamed or moved from; where it lies is known to the handler
  int descriptor_ = -1;
};
void remove_unfinished_files();

enum class PathKind : uint8_t { missing, file, directory, other };
PathKind path_kind(const std::string& path);
// A folder and those above it, as far as they are missing.
Status make_folders(const std::string& path);
// Names in a directory, sorted, without "." and "..".
Result<std::vector<std::string>> list_directory(const std::string& path);
// A whole file of at most `limit` bytes.
Result<std::string> read_file(const std::string& path, uint64_t limit);
// Writes `text` as an AtomicFile.
Status write_file(const std::string& path, std::string_view text, FileAccess access = FileAccess::usual);
std::string join_path(std::string_view folder, std::string_view name);
// Last part of a path: "model.gguf" of "models/model.gguf".
std::string_view file_name(std::string_view path);

// What the system's error number means for the file: "model.gguf: cannot write: the disk is full".
Error system_error(std::string_view path, std::string_view doing, int error_number);

}  // namespace sluice
