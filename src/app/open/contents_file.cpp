#include "app/open/contents_file.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/files/file.h"
#include "base/files/kept_files.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr std::string_view kFirstLine = "sluice contents 1";
constexpr size_t kContentsDigits = 2 * kChecksumBytes, kVersionDigits = 64;
constexpr uint64_t kMostBytes = 1 << 20;

struct Line {
  std::string contents, version;
};

bool are_digits(std::string_view text, size_t count) {
  return text.size() == count && text.find_first_not_of("0123456789abcdef") == text.npos;
}

// The lines of the file; none if it is missing or was not written by Sluice.
std::vector<Line> read_lines(const std::string& path) {
  std::vector<Line> lines;
  if (path.empty() || path_kind(path) != PathKind::file) return lines;
  const Result<std::string> text = read_file(path, kMostBytes);
  if (!text) return lines;
  const std::vector<std::string> all = split(*text, '\n');
  if (all.empty() || all[0] != kFirstLine) return lines;
  for (const std::string& line : all) {
    std::vector<std::string> words = split(line, ' ');
    if (words.size() != 2 || !are_digits(words[0], kContentsDigits) || !are_digits(words[1], kVersionDigits)) continue;
    lines.push_back({std::move(words[0]), std::move(words[1])});
  }
  return lines;
}

}  // namespace

ContentsFile::ContentsFile(std::string path, std::string model, Console& console)
    : path_(std::move(path)), model_(std::move(model)), console_(&console) {}

std::optional<std::string> ContentsFile::find(const std::string& version) {
  const std::vector<Line> lines = read_lines(path_);
  const auto line = std::ranges::find(lines, version, &Line::version);
  return line == lines.end() ? std::nullopt : std::optional(line->contents);
}

// Best effort: without the line the model is read again.
void ContentsFile::keep(const std::string& version, const std::string& contents) {
  if (path_.empty() || !make_own_folder(path_.substr(0, path_.rfind('/')))) return;
  std::vector<Line> lines = read_lines(path_);
  std::erase_if(lines, [&](const Line& line) { return line.version == version; });
  lines.push_back({contents, version});
  std::string text = cat(kFirstLine, '\n');
  for (size_t i = lines.size() - std::min(lines.size(), kRememberedContents); i < lines.size(); ++i)
    text += cat(lines[i].contents, ' ', lines[i].version, '\n');
  static_cast<void>(write_file(path_, text, FileAccess::owner_only).ok());
}

void ContentsFile::reading(uint64_t done, uint64_t all) {
  if (progress_ == nullptr) {
    progress_ =
        std::make_unique<ProgressLine>(*console_, cat("reading ", printable(model_), " for its digest"), "bytes");
  }
  progress_->update(done, all);
  if (done == all) progress_.reset();
}

std::string contents_path(const std::string& state_folder) {
  return state_folder.empty() ? "" : join_path(state_folder, "models");
}

}  // namespace sluice
