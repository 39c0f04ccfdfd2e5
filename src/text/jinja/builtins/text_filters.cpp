// Filters of texts: trim, replace, indent, escape and their kin (filters.h).
#include <algorithm>

#include "text/jinja/builtins/filters.h"
#include "text/jinja/builtins/format.h"
#include "text/jinja/builtins/print.h"
#include "text/jinja/builtins/strings.h"
#include "text/jinja/operators.h"

namespace sluice::jinja {

namespace {

bool is_safe(const Value& input) { return input.is(Kind::text) && input.as_text().safe; }

// Applies `change` to the input as text. Markup stays markup.
template <std::string (*change)(std::string_view)>
Result<Value> changed(Machine& machine, const Value& input, const Arguments&) {
  TRY(const Value text, to_text(machine, input));
  return machine.text(change(*text.bytes()), is_safe(input));
}

Result<Value> as_string(Machine& machine, const Value& input, const Arguments&) { return to_text(machine, input); }

Result<Value> trim(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY(const Value text, to_text(machine, input));
  if (!given(arguments.positional[0]))
    return machine.text(std::string(strip(*text.bytes(), Side::both)), is_safe(input));
  TRY(const std::string* set, want_text(machine, arguments.positional[0], "trim"));
  return machine.text(std::string(strip(*text.bytes(), Side::both, *set)), is_safe(input));
}

Result<Value> mark_safe(Machine& machine, const Value& input, const Arguments&) {
  TRY(const Value text, to_text(machine, input));
  return machine.text(*text.bytes(), true);
}

Result<Value> escape(Machine& machine, const Value& input, const Arguments&) {
  if (is_safe(input)) return input;
  TRY(const Value text, to_text(machine, input));
  Writer out(machine);
  TRY_STATUS(escape_html(out, *text.bytes()));
  return out.take(true);
}

Result<Value> replaced(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY(const Value text, to_text(machine, input));
  TRY(const Value old, to_text(machine, arguments.positional[0]));
  TRY(const Value with, to_text(machine, arguments.positional[1]));
  TRY(const int64_t most, integer_or(machine, arguments.positional[2], -1, "replace"));
  return replace(machine, *text.bytes(), *old.bytes(), *with.bytes(), most);
}

// Lines after the first are indented, blank ones only if asked to.
Result<Value> indent(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY_STATUS(want_text(machine, input, "indent"));
  const Text& text = input.as_text();
  const Value& width = arguments.positional[0];
  Value margin = width;
  if (!width.is(Kind::text)) {
    TRY(const int64_t blanks, integer_or(machine, width, 4, "indent"));
    TRY(margin, pad(machine, "", " ", std::max<int64_t>(blanks, 0), 0));
  }
  const bool first = truth_or(arguments.positional[1], false);
  const bool blank = truth_or(arguments.positional[2], false);
  const std::string ended = text.bytes + '\n';  // so that a last empty line counts
  Writer out(machine);
  bool begun = false;
  const auto add_line = [&](std::string_view line) -> Status {
    if (begun) TRY_STATUS(out.add("\n"));
    if (begun ? blank || !line.empty() : first) TRY_STATUS(out.add(*margin.bytes()));
    begun = true;
    return out.add(line);
  };
  TRY_STATUS(split_lines(ended, false, add_line));
  return out.take(text.safe);
}

Result<Value> center(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY(const Value text, to_text(machine, input));
  TRY(const int64_t width, integer_or(machine, arguments.positional[0], 80, "center"));
  const auto size = static_cast<int64_t>(count_characters(*text.bytes()));
  const int64_t missing = std::max<int64_t>(width - size, 0);
  const int64_t left = missing / 2 + (missing & width & 1);
  return pad(machine, *text.bytes(), " ", left, missing - left, is_safe(input));
}

Result<Value> truncate(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY_STATUS(want_text(machine, input, "truncate"));
  const Text& text = input.as_text();
  TRY(const int64_t length, integer_or(machine, arguments.positional[0], 255, "truncate"));
  TRY(const std::string end, text_or(machine, arguments.positional[2], "...", "truncate"));
  TRY(const int64_t leeway, integer_or(machine, arguments.positional[3], 5, "truncate"));
  const auto end_size = static_cast<int64_t>(count_characters(end));
  if (length < end_size) return machine.fail("truncate: found a length of ", length, ": want ", end_size, " at least");
  if (leeway < 0) return machine.fail("truncate: found a leeway of ", leeway, ": want 0 at least");
  const auto size = static_cast<int64_t>(count_characters(text.bytes));
  if (size - length <= leeway) return machine.text(text.bytes, text.safe);
  std::string kept = text.bytes.substr(0, character_offset(text.bytes, static_cast<size_t>(length - end_size)));
  if (!truth_or(arguments.positional[1], false)) kept.resize(std::min(kept.rfind(' '), kept.size()));
  return machine.text(kept + end, text.safe);
}

Result<Value> word_count(Machine& machine, const Value& input, const Arguments&) {
  TRY(const Value text, to_text(machine, input));
  int64_t count = 0;
  bool inside = false;
  for (std::string_view rest = *text.bytes(); !rest.empty();) {
    const std::string_view character = rest.substr(0, character_bytes(rest));
    const bool word = all_of(character, Class::alnum) || character == "_";
    count += word && !inside ? 1 : 0;
    inside = word;
    rest.remove_prefix(character.size());
  }
  return Value(count);
}

Result<Value> formatted(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY(const Value text, to_text(machine, input));
  if (arguments.named.empty()) {
    TRY(const Value list, machine.list(arguments.positional, Flavour::tuple));
    return format_percent(machine, text.as_text(), list);
  }
  if (!arguments.positional.empty()) return machine.fail("format: found both kinds of arguments: want one of them");
  DictMaker maker(machine);
  for (const auto& [name, value] : arguments.named) {
    TRY(Value key, machine.text(name));
    TRY_STATUS(maker.add(std::move(key), value));
  }
  TRY(const Value dict, maker.take());
  return format_percent(machine, text.as_text(), dict);
}

bool stays_in_url(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  return letter || std::string_view("-_.~/").find(c) != std::string_view::npos;
}

Result<Value> url_encode(Machine& machine, const Value& input, const Arguments&) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  if (input.is(Kind::list) || input.is(Kind::dict)) TRY_STATUS(want_text(machine, input, "urlencode"));
  TRY(const Value text, to_text(machine, input));
  std::string out;  // three times as long at most
  for (const char c : *text.bytes()) {
    if (stays_in_url(c)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return machine.text(std::move(out));
}

constexpr Builtin kFilters[] = {
    {"trim", trim, "chars"},
    {"string", as_string},
    {"safe", mark_safe},
    {"upper", changed<upper>},
    {"lower", changed<lower>},
    {"capitalize", changed<capitalize>},
    {"title", changed<title_words>},
    {"replace", replaced, "old,new,count", 2},
    {"indent", indent, "width,first,blank"},
    {"center", center, "width"},
    {"truncate", truncate, "length,killwords,end,leeway"},
    {"wordcount", word_count},
    {"format", formatted, "*"},
    {"escape", escape},
    {"e", escape},
    {"urlencode", url_encode},
};

}  // namespace

std::span<const Builtin> text_filters() { return kFilters; }

}  // namespace sluice::jinja
