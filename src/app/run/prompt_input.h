// The prompt of `sluice run`, put together from its argument, files and standard input.
//
//   "-"                     standard input
//   "Compare @a.txt, @b.txt"   each @FILE that exists becomes the file's text; other words with @ stay
//   "Summarise this"        followed by standard input, where that is a pipe or a file
#pragma once

#include <optional>
#include <string>

#include "app/cli/console.h"
#include "base/result.h"

namespace sluice {

inline constexpr size_t kMaxPromptBytes = size_t{64} << 20;

// A text file that a prompt takes in. The error names the file.
Result<std::string> read_text_file(const std::string& path);
// `text` with the contents of files in place of @FILE, or @"FILE" where the name has blanks.
Result<std::string> with_files(const std::string& text);
// The whole prompt. `given`: the argument; none: standard input alone.
Result<std::string> whole_prompt(const std::optional<std::string>& given, Console& console);

}  // namespace sluice
