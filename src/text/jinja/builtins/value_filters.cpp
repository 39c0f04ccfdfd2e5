// Filters of any value: default, length, tojson, int, float, round and their kin (filters.h).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/jinja/builtins/filters.h"
#include "text/jinja/builtins/print.h"
#include "text/jinja/builtins/strings.h"
#include "text/jinja/operators.h"
#include "text/jinja/parse/literals.h"

namespace sluice::jinja {

namespace {

// The default if the input is undefined, or, with the argument "boolean", if it is false.
Result<Value> or_default(Machine& machine, const Value& input, const Arguments& arguments) {
  const bool empty = input.is(Kind::undefined) || (truth_or(arguments.positional[1], false) && !input.truthy());
  if (!empty) return input;
  if (!arguments.positional[0].is(Kind::undefined)) return arguments.positional[0];
  return machine.text("");
}

Result<Value> length_of(Machine& machine, const Value& input, const Arguments&) {
  TRY(const int64_t size, length(machine, input));
  return Value(size);
}

Result<Value> attribute_of(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY(const std::string* name, want_text(machine, arguments.positional[0], "attr"));
  if (input.is(Kind::dict)) return machine.undefined("'dict object' has no attribute '", printable(*name), "'");
  return get_attribute(machine, input, *name);
}

Result<JsonDumps> json_style(Machine& machine, const Arguments& arguments) {
  JsonDumps style;
  style.ensure_ascii = truth_or(arguments.positional[0], false);
  const Value& indent = arguments.positional[1];
  if (indent.is(Kind::text)) {
    style.indent = indent.as_text().bytes;
  } else if (given(indent)) {
    TRY(const int64_t blanks, integer_or(machine, indent, 0, "tojson: indent"));
    if (blanks > 1000) return machine.fail("tojson: found an indent of ", blanks, ": want 1000 at most");
    style.indent = std::string(static_cast<size_t>(std::max<int64_t>(blanks, 0)), ' ');
  }
  if (style.indent) style.item_separator.assign(1, ',');
  const Value& separators = arguments.positional[2];
  if (given(separators)) {
    const bool pair = separators.is(Kind::list) && separators.as_list().items.size() == 2;
    if (!pair) return machine.fail("tojson: found separators that are no pair: want two strings");
    TRY(style.item_separator, text_or(machine, separators.as_list().items[0], ", ", "tojson: separators"));
    TRY(style.key_separator, text_or(machine, separators.as_list().items[1], ": ", "tojson: separators"));
  }
  style.sort_keys = truth_or(arguments.positional[3], false);
  return style;
}

Result<Value> json_of(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY(const JsonDumps style, json_style(machine, arguments));
  return to_json(machine, input, style);
}

Result<Value> from_json(Machine& machine, const Value& input, const Arguments&) {
  TRY(const std::string* text, want_text(machine, input, "from_json"));
  // A parsed document takes some tens of times the memory of its text.
  TRY(const Room room, machine.room(uint64_t{text->size()} * 64));
  TRY_STATUS(machine.look(uint64_t{text->size()} * 8));
  const Result<Json> json = parse_json(*text, "from_json");
  if (!json) return machine.fail(json.error().text);
  return to_value(*json, &machine);
}

// The text that int() and float() parse: without blanks around it. A text that is longer than any number becomes empty,
// which is not a number.
std::string_view number_text(std::string_view text) {
  constexpr size_t kMostDigits = 1000;
  const std::string_view digits = strip(text, Side::both);
  return digits.size() <= kMostDigits ? digits : std::string_view();
}

// int() and float() of a text: "_" between digits is allowed.
std::optional<int64_t> parse_int(std::string_view text, int64_t base) {
  std::string_view digits = number_text(text);
  const bool negative = starts_with(digits, "-");
  if (negative || starts_with(digits, "+")) digits.remove_prefix(1);
  std::string plain(digits);
  if (base == 16 && (starts_with(plain, "0x") || starts_with(plain, "0X"))) plain.erase(0, 2);
  if (base == 8 && (starts_with(plain, "0o") || starts_with(plain, "0O"))) plain.erase(0, 2);
  if (base == 2 && (starts_with(plain, "0b") || starts_with(plain, "0B"))) plain.erase(0, 2);
  std::erase(plain, '_');
  if (negative) plain.insert(plain.begin(), '-');
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(plain.data(), plain.data() + plain.size(), value, static_cast<int>(base));
  if (plain.empty() || problem != std::errc() || end != plain.data() + plain.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_float(std::string_view text) {
  std::string_view digits = number_text(text);
  const bool negative = starts_with(digits, "-");
  if (negative || starts_with(digits, "+")) digits.remove_prefix(1);
  const std::string word = lower(digits);
  if (word == "inf" || word == "infinity") return negative ? -HUGE_VAL : HUGE_VAL;
  if (word == "nan") return NAN;
  if (digits.empty() || (digits[0] != '.' && (digits[0] < '0' || digits[0] > '9')) || base_prefixed(digits))
    return std::nullopt;
  const auto value = read_float(digits);
  return value && negative ? -*value : value;
}

std::optional<double> float_of(const Value& value) {
  if (value.is_number()) return value.as_number();
  return value.is(Kind::text) ? parse_float(value.as_text().bytes) : std::nullopt;
}

Result<Value> to_int(Machine& machine, const Value& input, const Arguments& arguments) {
  const Value otherwise = arguments.positional[0].is(Kind::undefined) ? Value(int64_t{0}) : arguments.positional[0];
  TRY(const int64_t base, integer_or(machine, arguments.positional[1], 10, "int"));
  if (base < 2 || base > 36) return machine.fail("int: found the base ", base, ": want 2 to 36");
  if (input.is_integral()) return Value(input.as_integer());
  if (input.is(Kind::text)) {
    if (const auto value = parse_int(input.as_text().bytes, base)) return Value(*value);
  }
  if (input.is(Kind::undefined)) return machine.fail(input.reason(), ", so it is no number");
  const std::optional<double> value = float_of(input);
  if (!value || std::isnan(*value)) return otherwise;
  if (std::fabs(*value) >= 0x1p63) return machine.fail("int: the number does not fit 64 bits");
  return Value(static_cast<int64_t>(*value));
}

Result<Value> to_float(Machine& machine, const Value& input, const Arguments& arguments) {
  if (input.is(Kind::undefined)) return machine.fail(input.reason(), ", so it is no number");
  if (const auto value = float_of(input)) return Value(*value);
  return arguments.positional[0].is(Kind::undefined) ? Value(0.0) : arguments.positional[0];
}

Result<Value> absolute(Machine& machine, const Value& input, const Arguments&) {
  if (input.is(Kind::number)) return Value(std::fabs(input.as_number()));
  if (input.is_integral() && input.as_integer() >= 0) return Value(input.as_integer());
  return negate(machine, input);
}

constexpr uint64_t kStepsForDigits = 40;  // a number of hundreds of digits is printed and read

// Half to even on the exact value, as Python's round() and C's printf do.
double round_half_even(double value, int64_t digits) {
  if (digits < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / scale) * scale;
  }
  char text[800];
  std::snprintf(text, sizeof text, "%.*f", static_cast<int>(digits), value);
  return std::strtod(text, nullptr);
}

Result<Value> rounded(Machine& machine, const Value& input, const Arguments& arguments) {
  if (!input.is_number()) return machine.fail("round: found a ", input.type_name(), ": want a number");
  TRY(const int64_t digits, integer_or(machine, arguments.positional[0], 0, "round"));
  TRY(const std::string method, text_or(machine, arguments.positional[1], "common", "round"));
  TRY_STATUS(machine.step(kStepsForDigits));
  if (digits < -300 || digits > 300) return machine.fail("round: found ", digits, " digits: want -300 to 300");
  const double value = input.as_number();
  const double scale = std::pow(10.0, static_cast<double>(digits));
  if (method == "ceil") return Value(std::ceil(value * scale) / scale);
  if (method == "floor") return Value(std::floor(value * scale) / scale);
  if (method != "common")
    return machine.fail("round: found the method \"", printable(method), "\": want common, ceil or floor");
  if (std::isnan(value) || std::isinf(value)) return input;
  if (!input.is_integral()) return Value(round_half_even(value, digits));
  if (digits >= 0) return Value(input.as_integer());
  return Value(static_cast<int64_t>(round_half_even(value, digits)));
}

constexpr Builtin kFilters[] = {
    {"default", or_default, "default_value,boolean", 0, Looks::at_little},
    {"d", or_default, "default_value,boolean", 0, Looks::at_little},
    {"length", length_of, "", 0, Looks::at_little},
    {"count", length_of, "", 0, Looks::at_little},
    {"attr", attribute_of, "name", 1},
    {"tojson", json_of, "ensure_ascii,indent,separators,sort_keys"},
    {"from_json", from_json},
    {"int", to_int, "default,base"},
    {"float", to_float, "default"},
    {"abs", absolute},
    {"round", rounded, "precision,method"},
};

}  // namespace

std::span<const Builtin> value_filters() { return kFilters; }

}  // namespace sluice::jinja
