// Small string helpers: cat() joins strings and numbers; numbers are parsed without locale or exceptions.
// They stand in for std::format, which libstdc++ 12, used by both compilers, does not have.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

inline void append_part(std::string& out, std::string_view part) { out += part; }
inline void append_part(std::string& out, const char* part) { out += part; }
inline void append_part(std::string& out, char part) { out += part; }
inline void append_part(std::string& out, bool part) { out += part ? "true" : "false"; }
template <std::integral I>
  requires(!std::same_as<I, char> && !std::same_as<I, bool>)
void append_part(std::string& out, I part) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, part);
  out.append(digits, end.ptr);
}
// The text of %.6g. For exact round trips use format_number (json.h).
void append_part(std::string& out, double part);

// cat("blk.", 3, ": ", 0.5) == "blk.3: 0.5"
template <class... Parts>
std::string cat(const Parts&... parts) {
  std::string out;
  (append_part(out, parts), ...);
  return out;
}

// All of `text` as a decimal number without leading spaces or plus sign; else none.
std::optional<int64_t> parse_integer(std::string_view text);
std::optional<double> parse_number(std::string_view text);

std::vector<std::string> split(std::string_view text, char separator);
bool starts_with(std::string_view text, std::string_view prefix);
bool ends_with(std::string_view text, std::string_view suffix);
// "22.9 MB", decimal units, one digit after the point.
std::string format_bytes(uint64_t bytes);
// "[4096, 512]"
std::string format_shape(const std::vector<int64_t>& shape);
// `text` for error sentences: control characters and bytes that are not UTF-8 escaped, cut at `limit` bytes.
std::string printable(std::string_view text, size_t limit = 80);

}  // namespace sluice
