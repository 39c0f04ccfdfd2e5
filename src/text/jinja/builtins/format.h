// Text from formats and replacements: "%", str.format, padding, replacing. All of these can multiply their input, so
// they ask the Machine for memory first.
#pragma once

#include <string_view>

#include "text/jinja/machine.h"

namespace sluice::jinja {

// format % arguments: a tuple, a dict for %(name)s, or one value.
Result<Value> format_percent(Machine& machine, const Text& format, const Value& arguments);
// format.format(arguments)
Result<Value> format_braces(Machine& machine, const Text& format, const Arguments& arguments);

// `text` with `fill` repeated so many times on each side.
Result<Value> pad(Machine& machine, std::string_view text, std::string_view fill, int64_t left, int64_t right,
                  bool safe = false);
// str.replace; `most` replacements, or all when negative.
Result<Value> replace(Machine& machine, std::string_view text, std::string_view old, std::string_view with,
                      int64_t most, bool safe = false);

}  // namespace sluice::jinja
