#include "app/run/chat_completion.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "app/cli/environment.h"
#include "base/files/file.h"
#include "base/text.h"

namespace sluice {
namespace {

// Files and folders whose path begins with `typed`, folders with a slash behind them. Hidden ones only where the dot is
// typed.
std::vector<std::string> files_like(const std::string& typed) {
  const size_t slash = typed.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : typed.substr(0, slash + 1);
  const std::string begin = typed.substr(folder.size());
  const Result<std::vector<std::string>> names = list_directory(folder.empty() ? "." : expand_home(folder));
  std::vector<std::string> found;
  for (const std::string& name : names ? *names : std::vector<std::string>()) {
    if (!starts_with(name, begin) || (name[0] == '.' && begin.empty())) continue;
    const bool is_folder = path_kind(join_path(expand_home(folder), name)) == PathKind::directory;
    found.push_back(cat(folder, name, is_folder ? "/" : ""));
  }
  return found;
}

std::vector<std::string> beginning_with(const std::string& typed, const std::vector<std::string>& words) {
  std::vector<std::string> found;
  std::ranges::copy_if(words, std::back_inserter(found),
                       [&](const std::string& word) { return starts_with(word, typed); });
  std::ranges::sort(found);
  return found;
}

}  // namespace

std::string expand_home(const std::string& path) {
  if (path != "~" && !starts_with(path, "~/")) return path;
  const std::string home = home_folder();
  return home.empty() ? path : join_path(home, path.size() < 2 ? "" : path.substr(2));
}

WordChoices complete(const std::string& before_cursor, const CompletionWords& words) {
  const size_t blank = before_cursor.find_first_of(" \t");
  const bool is_command = starts_with(before_cursor, "/");
  if (is_command && blank == std::string::npos) return {0, beginning_with(before_cursor, words.commands)};
  if (is_command) {
    // One argument, which may have blanks.
    const size_t begin = std::min(before_cursor.find_first_not_of(" \t", blank), before_cursor.size());
    const std::string command = before_cursor.substr(0, blank), typed = before_cursor.substr(begin);
    if (words.takes_model(command)) {
      WordChoices completion{begin, beginning_with(typed, words.models())};
      if (completion.words.empty()) completion.words = files_like(typed);
      return completion;
    }
    return words.takes_file(command) ? WordChoices{begin, files_like(typed)} : WordChoices{begin, {}};
  }
  const size_t last = before_cursor.find_last_of(" \t\n");
  const size_t begin = last == std::string::npos ? 0 : last + 1;
  const bool at = begin < before_cursor.size() && before_cursor[begin] == '@';
  if (at) return {begin + 1, files_like(before_cursor.substr(begin + 1))};
  const std::string typed = before_cursor.substr(begin);
  return typed.find('/') == std::string::npos ? WordChoices{begin, {}} : WordChoices{begin, files_like(typed)};
}

}  // namespace sluice
