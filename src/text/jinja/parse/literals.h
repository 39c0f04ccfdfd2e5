// Strings and numbers in a template: Python's literals, as jinja2's lexer reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::jinja {

// The inside of a quoted string. None, with `problem` set, for a broken escape. Unknown escapes stay as they are.
std::optional<std::string> unescape(std::string_view quoted, std::string& problem);

struct NumberText {
  size_t bytes = 0;
  bool is_float = false;
};
// The number at the start of `text`, which begins with a digit.
NumberText scan_number(std::string_view text, bool may_be_float);
// Digits with "_" between them; integers also with 0x, 0o, 0b. None when the value does not fit.
std::optional<int64_t> read_integer(std::string_view digits);
std::optional<double> read_float(std::string_view digits);
// Whether the text begins as 0x, 0o or 0b do.
bool base_prefixed(std::string_view text);

}  // namespace sluice::jinja
