// One conversion of a format, "%-8.3f" or "{:>8,}": width, alignment, sign and type. Source: Python's "Format
// Specification Mini-Language" and "printf-style String Formatting".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/machine.h"

namespace sluice::jinja {

struct FormatSpec {
  std::string fill = " ";
  char align = '\0';  // '<', '>', '^', '=' (after the sign), or none
  char sign = '-';    // '+', '-' or ' '
  bool alternate = false;
  char grouping = '\0';  // ',' or '_'
  int64_t width = 0;
  int64_t precision = -1;
  char type = '\0';
};

// Parses the text after the colon in braces.
Result<FormatSpec> parse_spec(Machine& machine, std::string_view text);
// Reads a width or precision at the start of `text` and moves `text` behind it; `otherwise` when there is none.
Result<int64_t> take_count(Machine& machine, std::string_view& text, int64_t otherwise);

Result<Value> format_value(Machine& machine, const Value& value, const FormatSpec& spec);

}  // namespace sluice::jinja
