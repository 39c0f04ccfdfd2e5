#include "app/run/dropped_paths.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"

namespace sluice {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr size_t kMaxLine = 16384;  // bytes; longer ones are text

std::string_view trimmed_line(std::string_view line) {
  const size_t begin = line.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(kBlanks) + 1 - begin);
}

// Words as a shell reads them: quotes and backslashes. None where a quote stays open.
std::optional<std::vector<std::string>> shell_words(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  bool in_word = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool escapes = c == '\\' && quote != '\'' && i + 1 < line.size();
    if (quote == 0 && kBlanks.find(c) != std::string_view::npos) {
      if (in_word) words.push_back(std::exchange(word, {}));
      in_word = false;
      continue;
    }
    in_word = true;
    if (escapes)
      word += line[++i];
    else if (c == quote)
      quote = 0;
    else if (quote == 0 && (c == '\'' || c == '"'))
      quote = c;
    else
      word += c;
  }
  if (quote != 0) return std::nullopt;
  if (in_word) words.push_back(std::move(word));
  return words;
}

int hex_digit(char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const size_t at = kDigits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

// The path of a file:// URL (RFC 8089) of this machine; other words stay.
std::string path_of(const std::string& word) {
  std::string_view rest = word;
  if (!starts_with(rest, "file://")) return word;
  rest.remove_prefix(std::string_view("file://").size());
  if (starts_with(rest, "localhost/")) rest.remove_prefix(std::string_view("localhost").size());
  std::string path;
  for (size_t i = 0; i < rest.size(); ++i) {
    const int high = rest[i] == '%' && i + 2 < rest.size() ? hex_digit(rest[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(rest[i + 2]) : -1;
    path += low >= 0 ? static_cast<char>(high * 16 + low) : rest[i];
    i += low >= 0 ? 2 : 0;
  }
  return path;
}

}  // namespace

std::vector<std::string> dropped_paths(std::string_view line,
                                       const std::function<bool(const std::string&)>& is_wanted) {
  const std::string_view text = trimmed_line(line);
  if (text.empty() || text.size() > kMaxLine) return {};
  if (is_wanted(std::string(text))) return {std::string(text)};
  std::optional<std::vector<std::string>> words = shell_words(text);
  if (!words) return {};
  for (std::string& word : *words) word = path_of(word);
  return std::ranges::all_of(*words, is_wanted) ? *std::move(words) : std::vector<std::string>();
}

}  // namespace sluice
