// Files: reading at an offset, read-only mappings, and writing under a temporary name that is renamed at the end.
//
// Parsers take a ByteSource and writers take a ByteSink, so that tests can imitate a failing disk. The other classes
// use POSIX, and memory_files.h in a page.
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
  // Fills `into` completely, or fails with a sentence that names the file.
  virtual Status read_at(uint64_t offset, std::span<std::byte> into) const = 0;
};

class StoredBytes;

// A target to which bytes are appended.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Status write(std::span<const std::byte> bytes) = 0;
};

// Bytes in memory as a source. Errors call them `name`. The bytes must outlive the source.
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
  friend class Mapping;
  FileSource(std::string path, int descriptor, uint64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

  std::string path_;
  int descriptor_;
  uint64_t size_;
};

// A whole file mapped for reading, and unmapped on destruction. An empty file has no bytes. A mapping follows changes
// of the file. Reading beyond the end of a file that was cut meanwhile raises SIGBUS (see mapped_file_at). Overwritten
// bytes show their new values; check_unchanged() notices that. The file stays open, too, for stored().
//
// A page maps nothing. A file that the page reads stays where it is: bytes() is empty, and stored() reads the file
// (memory_files.h).
class Mapping {
 public:
  static Result<Mapping> open(const std::string& path);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  std::span<const std::byte> bytes() const { return bytes_; }
  // The whole file. The bytes must not be used after this object is gone.
  StoredBytes stored() const;
  // An error when the file has been written to since it was mapped. If another file was renamed over it, the mapping is
  // still valid.
  Status check_unchanged() const;
  // A text that identifies the file and its contents: device, number, size and times of writing. It is "" in a page,
  // and for a file written in the last seconds, because the next change might get the same time.
  std::string version() const;

 private:
  struct File;
  explicit Mapping(std::unique_ptr<File> file);

  std::span<const std::byte> bytes_;
  std::unique_ptr<File> file_;  // null when moved from

  friend const char* mapped_file_at(const void* address);
};
// Tells the system that these bytes will not be read soon. Whole pages of a mapping are released, and read again when
// they are needed. Memory that is not mapped stays as it is.
void give_back_mapped(std::span<const std::byte> bytes);
// For a SIGBUS handler: the path of the file that is mapped at `address`, or null.
const char* mapped_file_at(const void* address);

// Who may read and write a new file: everyone that the process's umask allows, or only its owner.
enum class FileAccess : uint8_t { usual, owner_only };
// A file that appears under its name only when it is complete. It is written as "path.part-<process>-<n>"; commit()
// syncs and renames it. Without commit() the destructor removes it. A signal handler that ends the program at once
// calls remove_unfinished_files().
class AtomicFile final : public ByteSink {
 public:
  static Result<AtomicFile> create(const std::string& path, FileAccess access = FileAccess::usual);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile() override;

  Status write(std::span<const std::byte> bytes) override;
  // Overwrites the first bytes, once their values are known.
  Status write_start(std::span<const std::byte> bytes);
  Status commit();

 private:
  AtomicFile(std::string path, std::unique_ptr<const std::string> part, int descriptor);

  std::string path_;
  std::unique_ptr<const std::string> part_;  // null once renamed or moved from; the signal handler has the address
  int descriptor_ = -1;
};
void remove_unfinished_files();

enum class PathKind : uint8_t { missing, file, directory, other };
PathKind path_kind(const std::string& path);
// Makes a folder and the missing folders above it.
Status make_folders(const std::string& path);
// Names in a directory, sorted, without "." and "..".
Result<std::vector<std::string>> list_directory(const std::string& path);
// Reads a whole file of at most `limit` bytes.
Result<std::string> read_file(const std::string& path, uint64_t limit);
// Writes `text` as an AtomicFile.
Status write_file(const std::string& path, std::string_view text, FileAccess access = FileAccess::usual);
std::string join_path(std::string_view folder, std::string_view name);
// The last part of a path: "model.gguf" of "models/model.gguf".
std::string_view file_name(std::string_view path);

// The system's error number as a sentence about the file: "model.gguf: cannot write: the disk is full".
Error system_error(std::string_view path, std::string_view doing, int error_number);

}  // namespace sluice
