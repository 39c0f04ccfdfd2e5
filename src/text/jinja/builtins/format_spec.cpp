#include "text/jinja/builtins/format_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/limits.h"
#include "text/jinja/builtins/format.h"
#include "text/jinja/builtins/print.h"
#include "text/jinja/builtins/strings.h"

namespace sluice::jinja {

namespace {

bool take(std::string_view& text, char wanted) {
  if (text.empty() || text[0] != wanted) return false;
  text.remove_prefix(1);
  return true;
}

bool is_alignment(std::string_view text) {
  return !text.empty() && std::string_view("<>^=").find(text[0]) != std::string_view::npos;
}

}  // namespace

Result<int64_t> take_count(Machine& machine, std::string_view& text, int64_t otherwise) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return otherwise;
  int64_t count = 0;
  for (; !text.empty() && text[0] >= '0' && text[0] <= '9'; text.remove_prefix(1)) {
    count = count * 10 + (text[0] - '0');
    if (count > kMaxFormatWidth) return machine.fail("a format's width is larger than ", kMaxFormatWidth);
  }
  return count;
}

Result<FormatSpec> parse_spec(Machine& machine, std::string_view text) {
  FormatSpec spec;
  const std::string_view whole = text;
  const size_t first = text.empty() ? 0 : character_bytes(text);
  if (is_alignment(text.substr(first))) {
    spec.fill = std::string(text.substr(0, first));
    text.remove_prefix(first);
  }
  if (is_alignment(text)) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  for (const char sign : {'+', '-', ' '})
    if (take(text, sign)) spec.sign = sign;
  spec.alternate = take(text, '#');
  if (take(text, '0') && spec.align == '\0') {
    spec.fill.assign(1, '0');
    spec.align = '=';
  }
  TRY(spec.width, take_count(machine, text, 0));
  for (const char grouping : {',', '_'})
    if (take(text, grouping)) spec.grouping = grouping;
  if (take(text, '.')) {
    TRY(spec.precision, take_count(machine, text, -1));
    if (spec.precision < 0)
      return machine.fail("format: found \"", printable(whole), "\": want digits after the point");
  }
  if (!text.empty()) {
    spec.type = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty()) return machine.fail("format: \"", printable(whole), "\" is no format");
  return spec;
}

namespace {

std::string group_digits(std::string_view digits, char separator, size_t every) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) out += separator;
    out += digits[i];
  }
  return out;
}

std::string digits_of(uint64_t value, int base, bool capital) {
  char digits[72];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, base);
  const std::string text(digits, end.ptr);
  return capital ? upper(text) : text;
}

struct NumberParts {
  bool negative = false;
  std::string prefix;  // 0x
  std::string digits;
};

NumberParts int_parts(int64_t value, const FormatSpec& spec) {
  NumberParts parts;
  parts.negative = value < 0;
  const uint64_t size = parts.negative ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const char type = spec.type;
  const int base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  parts.digits = digits_of(size, base, type == 'X');
  if (base == 10 && spec.precision > static_cast<int64_t>(parts.digits.size()))
    parts.digits.insert(0, static_cast<size_t>(spec.precision) - parts.digits.size(), '0');
  if (spec.alternate && base != 10) parts.prefix = std::string("0") + type;
  if (spec.grouping != '\0') parts.digits = group_digits(parts.digits, spec.grouping, base == 10 ? 3 : 4);
  return parts;
}

std::string print_float(double value, char type, int64_t precision) {
  char format[8] = {'%', '.', '*', type, '\0'};
  char digits[kMaxFormatPrecision + 400];
  const int length = std::snprintf(digits, sizeof digits, format, static_cast<int>(precision), value);
  return std::string(digits, static_cast<size_t>(std::clamp<int>(length, 0, sizeof digits - 1)));
}

NumberParts float_parts(double value, const FormatSpec& spec) {
  NumberParts parts;
  parts.negative = std::signbit(value) && !std::isnan(value);
  const double size = std::fabs(value);
  if (std::isnan(value) || std::isinf(value)) {
    parts.digits = std::isnan(value) ? "nan" : "inf";
    return parts;
  }
  const bool percent = spec.type == '%';
  const int64_t precision = spec.precision < 0 ? 6 : std::min(spec.precision, kMaxFormatPrecision);
  if (spec.type == '\0' && spec.precision < 0) {
    parts.digits = float_text(size);
  } else {
    const char type = percent ? 'f' : spec.type == '\0' ? 'g' : spec.type;
    parts.digits = print_float(percent ? size * 100 : size, type, precision);
  }
  if (spec.grouping != '\0') {
    const size_t whole = std::min(parts.digits.find_first_not_of("0123456789"), parts.digits.size());
    parts.digits = group_digits(parts.digits.substr(0, whole), spec.grouping, 3) + parts.digits.substr(whole);
  }
  if (percent) parts.digits += '%';
  return parts;
}

Result<Value> padded(Machine& machine, const std::string& head, std::string_view text, const FormatSpec& spec,
                     char usual) {
  const auto size = static_cast<int64_t>(count_characters(head) + count_characters(text));
  const int64_t missing = std::max<int64_t>(spec.width - size, 0);
  const char align = spec.align == '\0' ? usual : spec.align;
  const bool inner = align == '=';
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  if (head.empty()) return pad(machine, text, spec.fill, left, missing - left);
  const std::string whole = cat(head, text);
  if (!inner) return pad(machine, whole, spec.fill, left, missing - left);
  TRY(const Value filled, pad(machine, text, spec.fill, left, missing - left));
  return machine.text(cat(head, *filled.bytes()));
}

Result<Value> format_number_parts(Machine& machine, const NumberParts& parts, const FormatSpec& spec) {
  const std::string sign = parts.negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  return padded(machine, sign + parts.prefix, parts.digits, spec, '>');
}

bool is_one_of(char type, std::string_view types) { return types.find(type) != std::string_view::npos; }

}  // namespace

Result<Value> format_value(Machine& machine, const Value& value, const FormatSpec& spec) {
  const char type = spec.type;
  const bool plain = type == '\0';
  if (value.is_integral() && (is_one_of(type, "dxXob") || (plain && !value.is(Kind::boolean))))
    return format_number_parts(machine, int_parts(value.as_integer(), spec), spec);
  if (spec.precision > 0)
    TRY_STATUS(machine.step(static_cast<uint64_t>(std::min(spec.precision, kMaxFormatPrecision)) / 8));
  if (value.is_number() && (is_one_of(type, "fFeEgG%") || (plain && value.is(Kind::number))))
    return format_number_parts(machine, float_parts(value.as_number(), spec), spec);
  const bool prints = plain && (value.is(Kind::boolean) || value.is(Kind::none) || value.is(Kind::undefined));
  const bool unformatted = plain && spec.width == 0 && spec.precision < 0;
  const bool is_text = value.is(Kind::text) && (plain || type == 's');
  if (!unformatted && !prints && !is_text)
    return machine.fail("format: \"", plain ? 's' : type, "\" does not fit a ", value.type_name());
  TRY(const Value printed, to_text(machine, value));
  std::string_view text = *printed.bytes();
  if (spec.precision >= 0) text = text.substr(0, character_offset(text, static_cast<size_t>(spec.precision)));
  return padded(machine, "", text, spec, '<');
}

}  // namespace sluice::jinja
