#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/strings.h"

namespace sluice::jinja {

namespace {

// What the filter works on: the input printed; markup stays markup.
Result<Text> text_of(Machine& machine, const Value& input) {
  if (input.is(Kind::text)) return input.as_text();
  TRY(std::string text, to_text(machine, input));
  return Text{std::move(text)};
}

template <std::string (*change)(std::string_view)>
Result<Value> changed(Machine& machine, const Value& input, const Arguments&) {
  TRY(const Text text, text_of(machine, input));
  return machine.text(change(text.bytes), text.safe);
}

Result<Value> as_string(Machine& machine, const Value& input, const Arguments&) {
  if (input.is(Kind::text)) return input;
  TRY(std::string text, to_text(machine, input));
  return machine.text(std::move(text));
}

Result<Value> trim(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY(const Text text, text_of(machine, input));
  if (!given(arguments.positional[0])) {
    return machine.text(std::string(strip(text.bytes, Side::both)), text.safe);
  }
  TRY(const std::string* set, want_text(machine, arguments.positional[0], "trim"));
  TRY_STATUS(machine.search(text.bytes.size(), set->size()));
  return machine.text(std::string(strip(text.bytes, Side::both, *set)), text.safe);
}

Result<Value> mark_safe(Machine& machine, const Value& input, const Arguments&) {
  TRY(std::string text, to_text(machine, input));
  return machine.text(std::move(text), true);
}

Result<Value> escape(Machine& machine, const Value& input, const Arguments&) {
  TRY(const Text text, text_of(machine, input));
  return machine.text(text.safe ? text.bytes : escape_html(text.bytes), true);
}

Result<Value> replaced(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY(const std::string text, to_text(machine, input));
  TRY(const std::string old, to_text(machine, arguments.positional[0]));
  TRY(const std::string with, to_text(machine, arguments.positional[1]));
  TRY(const int64_t most, integer_or(machine, arguments.positional[2], -1, "replace"));
  return replace(machine, Text{text}, old, with, most);
}

// Lines after the first are indented, blank ones only if asked to.
Result<Value> indent(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY_STATUS(want_text(machine, input, "indent"));
  const Text& text = input.as_text();
  const Value& width = arguments.positional[0];
  std::string margin = "    ";
  if (width.is(Kind::text)) {
    margin = width.as_text().bytes;
  } else if (given(width)) {
    TRY(const int64_t blanks, integer_or(machine, width, 4, "indent"));
    TRY(const Value spaces, pad(machine, Text{}, " ", std::max<int64_t>(blanks, 0), 0));
    margin = spaces.as_text().bytes;
  }
  const bool first = truth_or(arguments.positional[1], false);
  const bool blank = truth_or(arguments.positional[2], false);
  const std::string ended = text.bytes + '\n';  // so that a last empty line counts
  Writer out(machine);
  bool begun = false;
  for (const std::string_view line : split_lines(ended)) {
    if (begun) TRY_STATUS(out.add("\n"));
    if (begun ? blank || !line.empty() : first) TRY_STATUS(out.add(margin));
    begun = true;
    TRY_STATUS(out.add(line));
  }
  return out.take(text.safe);
}

Result<Value> center(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY(const Text text, text_of(machine, input));
  TRY(const int64_t width, integer_or(machine, arguments.positional[0], 80, "center"));
  const auto size = static_cast<int64_t>(count_characters(text.bytes));
  const int64_t missing = std::max<int64_t>(width - size, 0);
  const int64_t left = missing / 2 + (missing & width & 1);
  return pad(machine, text, " ", left, missing - left);
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
  TRY(const Text text, text_of(machine, input));
  int64_t count = 0;
  bool inside = false;
  for (const std::string_view character : characters(text.bytes)) {
    const bool word = all_of(character, Class::alnum) || character == "_";
    count += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value(count);
}

Result<Value> formatted(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY(const Text text, text_of(machine, input));
  if (arguments.named.empty()) {
    TRY(const Value list, machine.list(arguments.positional, Flavour::tuple));
    return format_percent(machine, text, list);
  }
  if (!arguments.positional.empty()) return machine.fail("format: found both kinds of arguments: want one of them");
  DictMaker maker(machine);
  for (const auto& [name, value] : arguments.named) TRY_STATUS(maker.add(Value(name), value));
  TRY(const Value dict, maker.take());
  return format_percent(machine, text, dict);
}

bool stays_in_url(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  return letter || std::string_view("-_.~/").find(c) != std::string_view::npos;
}

Result<Value> url_encode(Machine& machine, const Value& input, const Arguments&) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  if (input.is(Kind::list) || input.is(Kind::dict)) TRY_STATUS(want_text(machine, input, "urlencode"));
  TRY(const std::string text, to_text(machine, input));
  std::string out;
  for (const char c : text) {
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
