#include "text/jinja/builtins/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "text/jinja/builtins/format_spec.h"
#include "text/jinja/builtins/print.h"
#include "text/jinja/builtins/strings.h"
#include "text/jinja/operators.h"

namespace sluice::jinja {

Result<Value> pad(Machine& machine, std::string_view text, std::string_view fill, int64_t left, int64_t right,
                  bool safe) {
  // A width beyond the limit fails before it is multiplied.
  const auto most = static_cast<int64_t>(machine.limits().text_bytes) + 1;
  left = std::min(left, most);
  right = std::min(right, most);
  const uint64_t bytes = text.size() + static_cast<uint64_t>(left + right) * fill.size();
  TRY_STATUS(machine.may_be_text(bytes));
  TRY(const Room room, machine.room(bytes));
  std::string out;
  out.reserve(static_cast<size_t>(bytes));
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += text;
  for (int64_t i = 0; i < right; ++i) out += fill;
  return machine.text(std::move(out), safe);
}

namespace {

// With an empty `old`, before every character and at the end.
Result<Value> spread(Machine& machine, std::string_view text, std::string_view with, int64_t most, bool safe) {
  Writer out(machine);
  for (; most != 0; --most) {
    TRY_STATUS(out.add(with));
    if (text.empty()) break;
    const size_t bytes = character_bytes(text);
    TRY_STATUS(out.add(text.substr(0, bytes)));
    text.remove_prefix(bytes);
  }
  TRY_STATUS(out.add(text));
  return out.take(safe);
}

}  // namespace

Result<Value> replace(Machine& machine, std::string_view text, std::string_view old, std::string_view with,
                      int64_t most, bool safe) {
  if (old.empty()) return spread(machine, text, with, most, safe);
  const Search search(old);
  Writer out(machine);
  for (; most != 0; --most) {
    const size_t at = search.in(text);
    if (at == std::string_view::npos) break;
    TRY_STATUS(out.add(text.substr(0, at)));
    TRY_STATUS(out.add(with));
    text.remove_prefix(at + old.size());
  }
  TRY_STATUS(out.add(text));
  return out.take(safe);
}

namespace {

bool is_tuple(const Value& value) { return value.is(Kind::list) && value.as_list().flavour == Flavour::tuple; }

// "%" formats: literal text, and conversions that take the next argument or a named one.
class PercentFormatter {
 public:
  PercentFormatter(Machine& machine, const Text& format, const Value& arguments)
      : machine_(machine), rest_(format.bytes), arguments_(arguments), out_(machine) {
    positional_ = is_tuple(arguments) ? std::span<const Value>(arguments.as_list().items) : std::span(&arguments, 1);
  }

  Result<Value> run(bool safe) {
    while (!rest_.empty()) {
      const size_t at = std::min(rest_.find('%'), rest_.size());
      TRY_STATUS(out_.add(rest_.substr(0, at)));
      rest_.remove_prefix(at);
      if (!rest_.empty()) TRY_STATUS(conversion());
    }
    const bool by_key = arguments_.is(Kind::dict) || (arguments_.is(Kind::list) && !is_tuple(arguments_));
    if (next_ < positional_.size() && !by_key) return machine_.fail("%: the format does not use all its arguments");
    return out_.take(safe);
  }

 private:
  Status conversion();
  Result<Value> argument(std::string_view name, bool named);
  Result<Value> converted(Value value, FormatSpec& spec);

  Machine& machine_;
  std::string_view rest_;
  const Value& arguments_;
  std::span<const Value> positional_;
  size_t next_ = 0;
  Writer out_;
};

Result<Value> PercentFormatter::argument(std::string_view name, bool named) {
  if (!named) {
    if (next_ >= positional_.size()) return machine_.fail("%: the format wants more arguments");
    return positional_[next_++];
  }
  if (!arguments_.is(Kind::dict)) return machine_.fail("%: found %(", printable(name), "): want a dict of arguments");
  TRY(const Value* member, find_member(machine_, arguments_.as_dict().members, name));
  if (member == nullptr) return machine_.fail("%: there is no argument \"", printable(name), "\"");
  return *member;
}

// Converts the value to the kind that the conversion needs: %s and %r print it, %d truncates a float.
Result<Value> PercentFormatter::converted(Value value, FormatSpec& spec) {
  if (spec.type == 's' || spec.type == 'r') {
    const bool plain = spec.type == 's';
    spec.type = 's';
    return plain ? to_text(machine_, value) : to_repr(machine_, value);
  }
  if (spec.type == 'i' || spec.type == 'u') spec.type = 'd';
  const double number = value.is(Kind::number) ? value.as_number() : 0;
  if (spec.type == 'd' && std::fabs(number) >= 0x1p63) return machine_.fail("%d: the number does not fit 64 bits");
  if (spec.type == 'd' && value.is(Kind::number)) return Value(static_cast<int64_t>(number));
  return value;
}

Status PercentFormatter::conversion() {
  rest_.remove_prefix(1);
  if (starts_with(rest_, "%")) {
    rest_.remove_prefix(1);
    return out_.add("%");
  }
  std::string_view name;
  const bool named = starts_with(rest_, "(");
  if (named) {
    name = rest_.substr(1, std::min(rest_.find(')'), rest_.size()) - 1);
    rest_.remove_prefix(std::min(name.size() + 2, rest_.size()));
  }
  FormatSpec spec;
  spec.align = '>';
  for (; !rest_.empty() && std::string_view("#0- +").find(rest_[0]) != std::string_view::npos; rest_.remove_prefix(1)) {
    if (rest_[0] == '#') spec.alternate = true;
    if (rest_[0] == '+' || rest_[0] == ' ') spec.sign = rest_[0];
    if (rest_[0] == '-') spec.align = '<';
    if (rest_[0] == '0' && spec.align == '>') spec.align = '=';
  }
  TRY(spec.width, take_count(machine_, rest_, 0));
  if (starts_with(rest_, ".")) {
    rest_.remove_prefix(1);
    TRY(spec.precision, take_count(machine_, rest_, 0));
  }
  if (rest_.empty() || std::string_view("sdiurfFeEgGxXo").find(rest_[0]) == std::string_view::npos)
    return machine_.fail("%: \"", printable(rest_.substr(0, 1)), "\" is no conversion: want one of sdiurfeEgGxXo");
  spec.type = rest_[0];
  rest_.remove_prefix(1);
  TRY(Value value, argument(name, named));
  TRY(value, converted(std::move(value), spec));
  if (spec.align == '=') spec.fill.assign(1, value.is_number() ? '0' : ' ');
  TRY(const Value text, format_value(machine_, value, spec));
  return out_.add(*text.bytes());
}

// str.format: {}, {0}, {name.attribute[key]!r:spec}, {{ and }}.
class BraceFormatter {
 public:
  BraceFormatter(Machine& machine, const Text& format, const Arguments& arguments)
      : machine_(machine), rest_(format.bytes), arguments_(arguments), out_(machine) {}

  Result<Value> run(bool safe) {
    while (!rest_.empty()) {
      const size_t at = std::min(rest_.find_first_of("{}"), rest_.size());
      TRY_STATUS(out_.add(rest_.substr(0, at)));
      rest_.remove_prefix(at);
      if (!rest_.empty()) TRY_STATUS(brace());
    }
    return out_.take(safe);
  }

 private:
  Status brace();
  Status field(std::string_view text);
  Result<Value> first(std::string_view name);
  Result<Value> path(Value value, std::string_view steps);

  Machine& machine_;
  std::string_view rest_;
  const Arguments& arguments_;
  size_t next_ = 0;
  Writer out_;
};

Status BraceFormatter::brace() {
  const char brace = rest_[0];
  if (rest_.size() > 1 && rest_[1] == brace) {
    rest_.remove_prefix(2);
    return out_.add(std::string_view(&brace, 1));
  }
  const size_t end = rest_.find('}');
  if (brace == '}' || end == std::string_view::npos)
    return machine_.fail("format: found a single \"", brace, "\": want a pair, or two of them for one");
  const std::string_view text = rest_.substr(1, end - 1);
  rest_.remove_prefix(end + 1);
  return field(text);
}

Result<Value> BraceFormatter::first(std::string_view name) {
  size_t index = next_;
  if (!name.empty() && (name[0] < '0' || name[0] > '9')) {
    TRY_STATUS(machine_.step(arguments_.named.size() / 8));
    for (const auto& [key, value] : arguments_.named)
      if (key == name) return value;
    return machine_.fail("format: there is no argument \"", printable(name), "\"");
  }
  if (name.empty())
    ++next_;
  else
    index = static_cast<size_t>(parse_integer(name).value_or(INT64_MAX));
  if (index >= arguments_.positional.size()) return machine_.fail("format: the format wants more arguments");
  return arguments_.positional[index];
}

// ".name" and "[key]", one after the other.
Result<Value> BraceFormatter::path(Value value, std::string_view steps) {
  while (!steps.empty()) {
    const bool item = steps[0] == '[';
    const size_t end = item ? steps.find(']') : std::min(steps.find_first_of(".[", 1), steps.size());
    if (end == std::string_view::npos) return machine_.fail("format: found \"[\" without \"]\"");
    const std::string_view name = steps.substr(1, end - 1);
    steps.remove_prefix(end + (item ? 1 : 0));
    if (!item) {
      TRY(value, get_attribute(machine_, value, name));
      continue;
    }
    const auto index = parse_integer(name);
    TRY(const Value key, index ? Result<Value>(Value(*index)) : machine_.text(std::string(name)));
    TRY(value, get_item(machine_, value, key));
    if (!steps.empty() && steps[0] != '.' && steps[0] != '[')
      return machine_.fail("format: found \"", printable(steps), "\" after \"]\": want \".\" or \"[\"");
  }
  return value;
}

Status BraceFormatter::field(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string_view spec_text = text.substr(std::min(colon + 1, text.size()));
  std::string_view name = text.substr(0, colon);
  const bool repr = ends_with(name, "!r");
  if (repr || ends_with(name, "!s")) name.remove_suffix(2);
  const size_t steps = std::min(name.find_first_of(".["), name.size());
  TRY(Value value, first(name.substr(0, steps)));
  TRY(value, path(std::move(value), name.substr(steps)));
  if (repr) TRY_ASSIGN(value, to_repr(machine_, value));
  TRY(const FormatSpec spec, parse_spec(machine_, spec_text));
  TRY(const Value shown, format_value(machine_, value, spec));
  return out_.add(*shown.bytes());
}

}  // namespace

Result<Value> format_percent(Machine& machine, const Text& format, const Value& arguments) {
  return PercentFormatter(machine, format, arguments).run(format.safe);
}

Result<Value> format_braces(Machine& machine, const Text& format, const Arguments& arguments) {
  return BraceFormatter(machine, format, arguments).run(format.safe);
}

}  // namespace sluice::jinja
