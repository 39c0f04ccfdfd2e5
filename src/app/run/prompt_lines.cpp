#include "app/run/prompt_lines.h"

#include "base/text.h"

namespace sluice {
namespace {

constexpr std::string_view kMark = "\"\"\"";
constexpr std::string_view kBlank = " \t";

// Where a block begins in a prompt's first line: at its start, or after a command's name. npos: no block.
size_t mark_at(std::string_view line) {
  size_t at = line.find_first_not_of(kBlank);
  if (at != std::string_view::npos && line[at] == '/')
    at = line.find_first_not_of(kBlank, line.find_first_of(kBlank, at));
  return at != std::string_view::npos && starts_with(line.substr(at), kMark) ? at : std::string_view::npos;
}

}  // namespace

bool PromptLines::add(std::string_view line) {
  if (in_block_) {
    text_ += '\n';
    return add_quoted(line);
  }
  const size_t mark = begun_ ? std::string_view::npos : mark_at(line);
  begun_ = true;
  if (mark != std::string_view::npos) {
    quoted_ = line.find_first_not_of(kBlank) == mark;
    in_block_ = true;
    text_ = quoted_ ? "" : line.substr(0, mark);
    return add_quoted(line.substr(mark + kMark.size()));
  }
  if (!ends_with(line, "\\")) {
    text_ += line;
    return true;
  }
  line.remove_suffix(1);
  text_ += cat(line, '\n');
  return false;
}

bool PromptLines::add_quoted(std::string_view line) {
  const size_t last = line.find_last_not_of(kBlank);
  const std::string_view trimmed = line.substr(0, last == std::string_view::npos ? 0 : last + 1);
  if (!ends_with(trimmed, kMark)) {
    text_ += line;
    return false;
  }
  text_ += trimmed.substr(0, trimmed.size() - kMark.size());
  return true;
}

}  // namespace sluice
