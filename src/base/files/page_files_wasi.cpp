// Files that the page reads for the module: from its storage, from a file picker, or from memory
// (web/src/engine/files.ts).
// Sequential reads fetch larger pieces than asked for, because each call of the page costs microseconds and weights are
// read row by row. Several sequences are followed at once, because a weight's scales may lie elsewhere.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/files/memory_files.h"

// Returns the number of bytes read: all that were asked for, unless reading failed.
extern "C" __attribute__((import_module("files"), import_name("read"))) uint32_t page_files_read(uint32_t file,
                                                                                                 double offset,
                                                                                                 void* into,
                                                                                                 uint32_t bytes);

extern "C" __attribute__((import_module("files"), import_name("close"))) void page_files_close(uint32_t file);

namespace sluice {
namespace {

constexpr size_t kRuns = 4;
constexpr size_t kFirstBytes = size_t{16} << 10;  // of a first read, which may not begin a sequence
constexpr size_t kNextBytes = size_t{1} << 20;

class ReadFile final : public PageFile {
 public:
  ReadFile(std::string name, uint32_t number, uint64_t size) : name_(std::move(name)), number_(number), size_(size) {}
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;
  ~ReadFile() override { page_files_close(number_); }
  uint64_t size() const override { return size_; }
  Status read_at(uint64_t offset, std::span<std::byte> into) const override;
  std::optional<Error> failure() const override { return failure_; }

 private:
  // The last piece of a sequence of reads.
  struct Run {
    uint64_t begin = 0;
    std::vector<std::byte> bytes{};
    uint64_t used = 0;
    uint64_t end() const { return begin + bytes.size(); }
    bool has(uint64_t offset, size_t count) const { return offset >= begin && offset + count <= end(); }
  };
  Status read(uint64_t offset, std::span<std::byte> into) const;
  Status refill(Run& run, uint64_t offset, size_t count) const;

  std::string name_;
  uint32_t number_;
  uint64_t size_;
  // Mutable, because one thread reads and the bytes do not depend on these buffers.
  mutable std::array<Run, kRuns> runs_;
  mutable uint64_t clock_ = 0;
  mutable std::optional<Error> failure_;
};

Status ReadFile::read(uint64_t offset, std::span<std::byte> into) const {
  const uint32_t got =
      page_files_read(number_, static_cast<double>(offset), into.data(), static_cast<uint32_t>(into.size()));
  if (got == into.size()) return {};
  Error why = error(ErrorKind::io, name_, ": found ", got, " bytes at ", offset, ": want ", into.size(),
                    ", as when the file was opened");
  if (!failure_) failure_ = why;
  return why;
}

Status ReadFile::refill(Run& run, uint64_t offset, size_t count) const {
  // A continued sequence ends near the beginning of this read: rows may have gaps or overlap.
  const bool goes_on = !run.bytes.empty() && offset >= run.begin && offset <= run.end() + kFirstBytes;
  const uint64_t wanted = std::max<uint64_t>(count, goes_on ? kNextBytes : kFirstBytes);
  run.begin = offset;
  run.bytes.resize(static_cast<size_t>(std::min(wanted, size_ - offset)));
  const Status status = read(offset, run.bytes);
  if (!status) run.bytes.clear();
  return status;
}

Status ReadFile::read_at(uint64_t offset, std::span<std::byte> into) const {
  if (into.size() > size_ || offset > size_ - into.size())
    return error(ErrorKind::corrupt, name_, ": ends at byte ", size_, ": want ", into.size(), " bytes at ", offset);
  if (into.size() >= kNextBytes) return read(offset, into);
  const auto near = [&](const Run& run) { return offset >= run.begin && offset <= run.end() + kFirstBytes; };
  auto run = std::find_if(runs_.begin(), runs_.end(), [&](const Run& one) { return one.has(offset, into.size()); });
  if (run == runs_.end()) {
    run = std::find_if(runs_.begin(), runs_.end(), [&](const Run& one) { return !one.bytes.empty() && near(one); });
    if (run == runs_.end())
      run = std::min_element(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.used < b.used; });
    TRY_STATUS(refill(*run, offset, into.size()));
  }
  run->used = ++clock_;
  if (!into.empty())
    std::memcpy(into.data(), run->bytes.data() + static_cast<size_t>(offset - run->begin), into.size());
  return {};
}

}  // namespace

std::shared_ptr<const PageFile> make_page_file(std::string name, uint32_t number, uint64_t size) {
  return std::make_shared<const ReadFile>(std::move(name), number, size);
}

}  // namespace sluice
