#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "base/memory_files.h"
#include "base/read_queue.h"

namespace sluice {
namespace {

class CopyQueue final : public ReadQueue {
 public:
  explicit CopyQueue(std::vector<std::shared_ptr<const MemoryBlock>> files) : files_(std::move(files)) {}
  std::string description() const override { return "copies"; }
  uint32_t depth() const override { return 1; }
  void begin(const FileRead& read) override {
    const std::span<const std::byte> bytes = files_[read.file]->bytes();
    const size_t first = static_cast<size_t>(std::min<uint64_t>(read.offset, bytes.size()));
    const size_t count = std::min(read.into.size(), bytes.size() - first);
    if (count > 0) std::memcpy(read.into.data(), bytes.data() + first, count);
    ended_.push_back({.id = read.id, .bytes = static_cast<int64_t>(count)});
  }
  void take_ended(std::vector<ReadEnd>& ended, bool) override {
    ended.insert(ended.end(), ended_.begin(), ended_.end());
    ended_.clear();
  }

 private:
  std::vector<std::shared_ptr<const MemoryBlock>> files_;
  std::vector<ReadEnd> ended_;
};

}  // namespace

Result<std::unique_ptr<ReadQueue>> open_read_queue(const std::vector<std::string>& paths, ReadMethod) {
  std::vector<std::shared_ptr<const MemoryBlock>> files;
  files.reserve(paths.size());
  for (const std::string& path : paths) {
    files.push_back(find_memory_file(path));
    if (files.back() == nullptr) return error(ErrorKind::not_found, path, ": cannot open: no such file or directory");
  }
  return std::unique_ptr<ReadQueue>(std::make_unique<CopyQueue>(std::move(files)));
}

}  // namespace sluice
