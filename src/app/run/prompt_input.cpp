#include "app/run/prompt_input.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

#include "app/cli/progress.h"
#include "base/files/file.h"
#include "base/text.h"
#include "base/unicode.h"

namespace sluice {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// Whether somebody may have put text into standard input: /dev/null and terminals have none.
bool has_piped_input() {
  struct stat facts = {};
  if (::fstat(STDIN_FILENO, &facts) != 0) return false;
  return S_ISFIFO(facts.st_mode) || S_ISREG(facts.st_mode) || S_ISSOCK(facts.st_mode);
}

// A pipe that nobody closes keeps the command waiting, which the line of progress says.
Result<std::string> read_all(Console& console) {
  const ProgressLine progress(console, "reading standard input");
  TRY(std::string text, console.read_in(kMaxPromptBytes));
  if (ends_with(text, "\n")) text.pop_back();
  return text;
}

struct FileWord {
  std::string path;
  size_t end = 0;  // behind it in the text
};

// The name behind an @ at `at`. A full stop, comma or the like at the end of a word is no part of a name.
FileWord file_word(std::string_view text, size_t at) {
  const size_t begin = at + 1;
  if (begin < text.size() && text[begin] == '"') {
    const size_t close = text.find('"', begin + 1);
    if (close == std::string_view::npos) return {};
    return {std::string(text.substr(begin + 1, close - begin - 1)), close + 1};
  }
  size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
  const auto is_file = [&] { return path_kind(std::string(text.substr(begin, end - begin))) == PathKind::file; };
  while (end > begin && !is_file() && std::string_view(".,;:!?)").find(text[end - 1]) != std::string_view::npos) --end;
  return {std::string(text.substr(begin, end - begin)), end};
}

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  TRY(std::string text, read_file(path, kMaxPromptBytes));
  if (!is_utf8(text)) return error(ErrorKind::invalid, printable(path, 200), ": is no text in UTF-8: want a text file");
  while (ends_with(text, "\n")) text.pop_back();
  return text;
}

Result<std::string> with_files(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool begins = text[at] == '@' && (at == 0 || kBlanks.find(text[at - 1]) != std::string_view::npos);
    const FileWord word = begins ? file_word(text, at) : FileWord();
    if (word.path.empty() || path_kind(word.path) != PathKind::file) {
      out += text[at++];
      continue;
    }
    TRY(const std::string contents, read_text_file(word.path));
    out += contents;
    at = word.end;
  }
  return out;
}

Result<std::string> whole_prompt(const std::optional<std::string>& given, Console& console) {
  if (!given || *given == "-") {
    TRY(std::string text, read_all(console));
    if (text.empty()) return error(ErrorKind::invalid, "run: standard input is empty: want a prompt");
    return text;
  }
  TRY(std::string prompt, with_files(*given));
  if (!has_piped_input()) return prompt;
  TRY(const std::string more, read_all(console));
  return more.empty() ? prompt : cat(prompt, "\n\n", more);
}

}  // namespace sluice
