// The files that a line names when it is nothing but paths: as they are typed, and as terminals paste files that are
// dropped on them. Those come quoted, with backslashes before blanks, or as file:// URLs, several with blanks between.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// Empty unless `is_wanted` holds for every path of the line. A path inside a longer text is text.
std::vector<std::string> dropped_paths(std::string_view line, const std::function<bool(const std::string&)>& is_wanted);

}  // namespace sluice
