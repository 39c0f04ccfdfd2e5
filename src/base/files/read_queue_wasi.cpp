// Reads in a page. Each read is done at once; only some are done in one turn of the page's event loop.
#include <algorithm>
#include <cerrno>

#include "base/files/file.h"
#include "base/files/memory_files.h"
#include "base/files/read_queue.h"

namespace sluice {
namespace {

// Reads in one turn of the event loop: some tens of milliseconds for a file in the page's storage.
constexpr uint32_t kReadsInTurn = 16;

class PageQueue final : public ReadQueue {
 public:
  explicit PageQueue(std::vector<std::shared_ptr<const PageFile>> files) : files_(std::move(files)) {}
  std::string description() const override { return "reads of the page"; }
  uint32_t depth() const override { return kReadsInTurn; }
  bool in_background() const override { return false; }
  void begin(const FileRead& read) override {
    const PageFile& file = *files_[read.file];
    const uint64_t first = std::min(read.offset, file.size());
    const auto count = static_cast<size_t>(std::min<uint64_t>(read.into.size(), file.size() - first));
    const bool well = file.read_at(first, read.into.first(count)).ok();
    ended_.push_back({.id = read.id, .bytes = well ? static_cast<int64_t>(count) : -EIO});
  }
  void take_ended(std::vector<ReadEnd>& ended, bool) override {
    ended.insert(ended.end(), ended_.begin(), ended_.end());
    ended_.clear();
  }

 private:
  std::vector<std::shared_ptr<const PageFile>> files_;
  std::vector<ReadEnd> ended_;
};

}  // namespace

Result<std::unique_ptr<ReadQueue>> open_read_queue(const std::vector<std::string>& paths, ReadMethod) {
  std::vector<std::shared_ptr<const PageFile>> files;
  files.reserve(paths.size());
  for (const std::string& path : paths) {
    files.push_back(find_memory_file(path));
    if (files.back() == nullptr) return error(ErrorKind::not_found, path, ": cannot open: no such file or directory");
  }
  return std::unique_ptr<ReadQueue>(std::make_unique<PageQueue>(std::move(files)));
}

}  // namespace sluice
