#include "base/text.h"

#include <clocale>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/unicode.h"

namespace sluice {

void append_part(std::string& out, double part) {
  char digits[40];
  out.append(digits, static_cast<size_t>(std::snprintf(digits, sizeof digits, "%.6g", part)));
}

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || end.ec != std::errc{} || end.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  // strtod, since libc++ has no from_chars(double); the program never sets a locale, so '.' is the point.
  if (text.empty() || text.front() == ' ' || text.front() == '+' || text.size() > 64) return std::nullopt;
  const std::string copy(text);
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  if (end != copy.c_str() + copy.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

std::string format_bytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return cat(bytes, " bytes");
  double scaled = static_cast<double>(bytes);
  size_t unit = 0;
  while (scaled >= 999.95 && unit + 1 < std::size(kUnits)) {
    scaled /= 1000;
    ++unit;
  }
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.1f ", scaled);
  return cat(static_cast<const char*>(digits), kUnits[unit]);
}

std::string format_shape(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += cat(i == 0 ? "" : ", ", shape[i]);
  return out + "]";
}

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (out.size() >= limit) return out + "...";
    const Decoded c = decode_utf8(text.substr(i));
    if (c.bytes == 0 || c.code_point < 0x20 || c.code_point == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(text[i]));
      out += escaped;
      i += 1;
    } else {
      out += text.substr(i, c.bytes);
      i += c.bytes;
    }
  }
  return out;
}

}  // namespace sluice
