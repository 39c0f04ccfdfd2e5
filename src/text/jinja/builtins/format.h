// Text from formats and replacements: "%" and str.format, padding, replacing. All of it can multiply its input, so all
// of it asks the Machine first.
#pragma once

#include <string_view>

#include "text/jinja/machine.h"

namespace sluice::jinja {

// format % arguments: a tuple, a dict for %(name)s, or one value.
Result<Value> format_percent(Machine& machine, const Text& format, const Value& arguments);
// format.format(arguments)
Result<Value> format_braces(Machine& machine, const Text& format, const Arguments& arguments);

// `text` with `fill` so many times at its sides.
Result<Value> pad(Machine& machine, std::string_view text, std::string_view fill, int64_t left, int64_t right,
                  bool safe = false);
// str.replace; `most` replacements, or all when negative.
Result<Value> replace(Machine& machine, std::string_view text, std::string_view old, std::string_view with,
                      int64_t most, bool safe = false);

}  // namespace sluice::jinja
