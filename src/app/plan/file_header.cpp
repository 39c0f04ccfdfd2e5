#include "app/plan/file_header.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/text.h"
#include "checkpoint/gguf.h"

namespace sluice {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 46;  // of a file that is planned for

// The file as if it went on.
class WholeFile final : public ByteSource {
 public:
  explicit WholeFile(const FileSource& beginning) : beginning_(beginning) {}
  uint64_t size() const override { return kMostBytes; }
  Status read_at(uint64_t offset, std::span<std::byte> into) const override { return beginning_.read_at(offset, into); }

 private:
  const FileSource& beginning_;
};

bool is_gguf(const FileSource& file) {
  std::array<char, 4> magic{};
  return file.size() >= magic.size() && file.read_at(0, std::as_writable_bytes(std::span(magic))) &&
         std::string_view(magic.data(), magic.size()) == "GGUF";
}

// Memory that reads as zeros and takes none.
Result<std::shared_ptr<const void>> zeros(uint64_t bytes, const std::string& path) {
  void* const memory =
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return error(ErrorKind::out_of_memory, path, ": its tensors would take ", format_bytes(bytes), ": ",
                 std::strerror(errno));
  }
  return std::shared_ptr<const void>(
      memory, [bytes](const void* at) { munmap(const_cast<void*>(at), static_cast<size_t>(bytes)); });
}

}  // namespace

Result<std::optional<HeaderOnly>> open_header(const std::string& path) {
  if (path_kind(path) != PathKind::file) return std::optional<HeaderOnly>{};
  TRY(const auto file, FileSource::open(path));
  if (!is_gguf(*file)) return std::optional<HeaderOnly>{};
  TRY(GgufHeader header, parse_gguf(WholeFile(*file), path));
  uint64_t end = 1;
  for (const TensorEntry& entry : header.tensors) end = std::max(end, entry.offset + entry.bytes);
  if (end <= file->size()) return std::optional<HeaderOnly>{};
  MadeCheckpoint made{.dialect = Dialect::gguf,
                      .name = path,
                      .documents = {},
                      .metadata = std::move(header.metadata),
                      .tensors = {},
                      .memory = {}};
  TRY(made.memory, zeros(end, path));
  const auto* const first = static_cast<const std::byte*>(made.memory.get());
  made.tensors.reserve(header.tensors.size());
  for (TensorEntry& entry : header.tensors) {
    made.tensors.push_back({.name = std::move(entry.name),
                            .format = entry.format,
                            .shape = std::move(entry.shape),
                            .bytes = {first + entry.offset, static_cast<size_t>(entry.bytes)},
                            .file = 0,
                            .offset = entry.offset});
  }
  return std::optional<HeaderOnly>(HeaderOnly{make_checkpoint(std::move(made)), first});
}

}  // namespace sluice
