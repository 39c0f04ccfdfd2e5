#include "text/jinja/parse/literals.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "base/unicode.h"

namespace sluice::jinja {

namespace {

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  return c >= 'A' && c <= 'Z' ? c - 'A' + 10 : 99;
}

// Up to `most` digits of `base` from text[at] on; moves `at` behind them.
uint32_t read_digits(std::string_view text, size_t& at, size_t most, int base, size_t& found) {
  uint32_t value = 0;
  for (found = 0; found < most && at < text.size() && digit_value(text[at]) < base; ++found, ++at)
    value = value * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit_value(text[at]));
  return value;
}

bool is_surrogate(uint32_t c) { return c >= 0xd800 && c < 0xe000; }

// \x41, \u0041, \U00000041; text[at] is behind the letter. A pair of \u surrogates is the one character it stands for.
bool unescape_code(std::string_view text, size_t& at, size_t digits, std::string& out, std::string& problem) {
  size_t found = 0;
  uint32_t c = read_digits(text, at, digits, 16, found);
  if (c >= 0xd800 && c < 0xdc00 && starts_with(text.substr(at), "\\u")) {
    at += 2;
    const uint32_t low = read_digits(text, at, 4, 16, found);
    c = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00) : c;
    digits = 4;
  }
  if (found == digits && c <= 0x10ffff && !is_surrogate(c)) {
    append_utf8(out, c);
    return true;
  }
  problem = "the string has an escape that is no character: want \\xNN, \\uNNNN or \\UNNNNNNNN";
  return false;
}

constexpr std::string_view kEscapes = "abfnrtv\\'\"";
constexpr std::string_view kEscaped = "\a\b\f\n\r\t\v\\'\"";

bool unescape_one(std::string_view text, size_t& at, std::string& out, std::string& problem) {
  const char letter = text[at];
  if (letter >= '0' && letter <= '7') {
    size_t found = 0;
    append_utf8(out, read_digits(text, at, 3, 8, found));
    return true;
  }
  ++at;
  if (letter == 'x') return unescape_code(text, at, 2, out, problem);
  if (letter == 'u') return unescape_code(text, at, 4, out, problem);
  if (letter == 'U') return unescape_code(text, at, 8, out, problem);
  if (letter == 'N') {
    problem = "the string has an escape \\N{...}, which is not supported: want \\uNNNN";
    return false;
  }
  if (letter == '\n') return true;
  const size_t known = kEscapes.find(letter);
  if (known == std::string_view::npos) out += '\\';
  out += known == std::string_view::npos ? letter : kEscaped[known];
  return true;
}

}  // namespace

std::optional<std::string> unescape(std::string_view quoted, std::string& problem) {
  std::string out;
  for (size_t at = 0; at < quoted.size();) {
    if (quoted[at] != '\\' || at + 1 == quoted.size()) {
      out += quoted[at++];
      continue;
    }
    ++at;
    if (!unescape_one(quoted, at, out, problem)) return std::nullopt;
  }
  return out;
}

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Behind the digits (with single "_" between them) at text[at].
size_t skip_digits(std::string_view text, size_t at, int base = 10) {
  const auto digit = [&](size_t i) { return i < text.size() && digit_value(text[i]) < base; };
  while (digit(at) || (at > 0 && at < text.size() && text[at] == '_' && digit(at + 1))) ++at;
  return at;
}

// Behind the exponent at text[at], or `at` when there is none.
size_t skip_exponent(std::string_view text, size_t at) {
  if (at >= text.size() || (text[at] != 'e' && text[at] != 'E')) return at;
  size_t digits = at + 1;
  if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
  return digits < text.size() && is_digit(text[digits]) ? skip_digits(text, digits) : at;
}

int base_of(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') return 10;
  switch (text[1]) {
    case 'x':
    case 'X': return 16;
    case 'o':
    case 'O': return 8;
    case 'b':
    case 'B': return 2;
    default: return 10;
  }
}

}  // namespace

NumberText scan_number(std::string_view text, bool may_be_float) {
  const int base = base_of(text);
  if (base != 10 && digit_value(text[2]) < base) return {skip_digits(text, 2, base), false};
  const size_t whole = skip_digits(text, 0);
  if (!may_be_float) return {whole, false};
  size_t end = whole;
  if (end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1])) end = skip_digits(text, end + 1);
  end = skip_exponent(text, end);
  return {end, end != whole};
}

std::optional<int64_t> read_integer(std::string_view digits) {
  std::string plain(digits);
  std::erase(plain, '_');
  const int base = base_of(plain);
  const char* first = plain.data() + (base == 10 ? 0 : 2);
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(first, plain.data() + plain.size(), value, base);
  if (problem != std::errc() || end != plain.data() + plain.size()) return std::nullopt;
  return value;
}

bool base_prefixed(std::string_view text) { return base_of(text) != 10; }

std::optional<double> read_float(std::string_view digits) {
  std::string plain(digits);
  std::erase(plain, '_');
  return parse_number(plain);
}

}  // namespace sluice::jinja
