// The formats of JSON Schema that a grammar keeps to, as regular expressions over the whole string.
#pragma once

#include <string_view>

namespace sluice {

// Empty: the format is not one of them, and is only an annotation.
std::string_view format_regex(std::string_view format);

}  // namespace sluice
