#include "app/run/chat_history.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/files/file.h"
#include "base/files/kept_files.h"
#include "base/text.h"
#include "base/unicode.h"

namespace sluice {
namespace {

constexpr uint64_t kMaxHistoryBytes = uint64_t{2} * kHistoryEntries * kMaxHistoryEntryBytes + kHistoryEntries;

std::string escaped(const std::string& entry) {
  std::string line;
  for (const char c : entry)
    line += c == '\n' ? std::string("\\n") : c == '\\' ? std::string("\\\\") : std::string(1, c);
  return line;
}

std::string unescaped(const std::string& line) {
  std::string entry;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool pair = line[i] == '\\' && i + 1 < line.size();
    entry += pair && line[i + 1] == 'n' ? '\n' : pair ? line[i + 1] : line[i];
    i += pair ? 1 : 0;
  }
  return entry;
}

// Keeps other chats out of a folder while it lasts. The folder stands for the file in it, which is replaced each time.
// Where a file system has no locks, chats that write in the same moment lose lines, and that is all.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder)
      : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    while (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FolderLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace

std::vector<std::string> read_history(const std::string& path) {
  const Result<std::string> text = read_file(path, kMaxHistoryBytes);
  if (!text || !is_utf8(*text)) return {};
  std::vector<std::string> entries;
  for (const std::string& line : split(*text, '\n'))
    if (!line.empty()) entries.push_back(unescaped(line));
  return entries;
}

Status add_to_history(const std::string& path, const std::string& entry) {
  if (entry.empty() || entry.size() > kMaxHistoryEntryBytes || !is_utf8(entry)) return {};
  const std::string folder = path.substr(0, path.rfind('/'));
  TRY_STATUS(make_own_folder(folder));
  const FolderLock lock(folder);
  std::vector<std::string> entries = read_history(path);
  if (!entries.empty() && entries.back() == entry) return {};
  entries.push_back(entry);
  std::string text;
  for (size_t i = entries.size() - std::min(entries.size(), kHistoryEntries); i < entries.size(); ++i)
    text += escaped(entries[i]) + '\n';
  return write_file(path, text, FileAccess::owner_only);
}

}  // namespace sluice
