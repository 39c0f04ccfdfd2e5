#include "app/chat_history.h"

#include "base/file.h"
#include "base/kept_files.h"
#include "base/text.h"
#include "base/unicode.h"

namespace sluice {
namespace {

constexpr uint64_t kMaxHistoryBytes = uint64_t{2} * kHistoryEntries * kMaxHistoryEntryBytes + kHistoryEntries;

std::string escaped(const std::string& entry) {
  std::string line;
  for (const char c : entry) {
    line += c == '\n' ? std::string("\\n") : c == '\\' ? std::string("\\\\") : std::string(1, c);
  }
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

}  // namespace

std::vector<std::string> read_history(const std::string& path) {
  const Result<std::string> text = read_file(path, kMaxHistoryBytes);
  if (!text || !is_utf8(*text)) {
    return {};
  }
  std::vector<std::string> entries;
  for (const std::string& line : split(*text, '\n')) {
    if (!line.empty()) {
      entries.push_back(unescaped(line));
    }
  }
  return entries;
}

Status add_to_history(const std::string& path, const std::string& entry) {
  if (entry.empty() || entry.size() > kMaxHistoryEntryBytes || !is_utf8(entry)) {
    return {};
  }
  std::vector<std::string> entries = read_history(path);
  if (!entries.empty() && entries.back() == entry) {
    return {};
  }
  entries.push_back(entry);
  std::string text;
  for (size_t i = entries.size() - std::min(entries.size(), kHistoryEntries); i < entries.size(); ++i) {
    text += escaped(entries[i]) + '\n';
  }
  TRY_STATUS(make_own_folder(path.substr(0, path.rfind('/'))));
  return write_file(path, text);
}

}  // namespace sluice
