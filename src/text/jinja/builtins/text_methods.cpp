#include "text/jinja/builtins/text_methods.h"

#include <algorithm>
#include <array>
#include <limits>

#include "text/jinja/builtins/format.h"
#include "text/jinja/builtins/print.h"
#include "text/jinja/builtins/strings.h"
#include "text/jinja/operators.h"

namespace sluice::jinja {

namespace {

const std::string& bytes_of(const Value& self) { return self.as_text().bytes; }

// Every string made from Markup is Markup.
Result<Value> made(Machine& machine, const Value& self, std::string_view text) {
  return machine.text(std::string(text), self.as_text().safe);
}

template <std::string (*change)(std::string_view)>
Result<Value> changed(Machine& machine, const Value& self, const Arguments&) {
  return made(machine, self, change(bytes_of(self)));
}

template <Class wanted>
Result<Value> is_class(Machine&, const Value& self, const Arguments&) {
  return Value(all_of(bytes_of(self), wanted));
}

template <bool (*test)(std::string_view)>
Result<Value> tested(Machine&, const Value& self, const Arguments&) {
  return Value(test(bytes_of(self)));
}

template <Side side>
Result<Value> stripped(Machine& machine, const Value& self, const Arguments& arguments) {
  if (!given(arguments.positional[0])) return made(machine, self, strip(bytes_of(self), side));
  TRY(const std::string* set, want_text(machine, arguments.positional[0], "strip"));
  return made(machine, self, strip(bytes_of(self), side, *set));
}

// Collects parts of a text.
class PartList {
 public:
  PartList(Machine& machine, const Value& self) : machine_(machine), self_(self), items_(machine) {}
  Status add(std::string_view part) {
    TRY(Value item, made(machine_, self_, part));
    return items_.add(std::move(item));
  }
  Sink sink() {
    return [this](std::string_view part) { return add(part); };
  }
  void reverse() { items_.reverse(); }
  Result<Value> take(Flavour flavour = Flavour::list) { return items_.take(flavour); }

 private:
  Machine& machine_;
  const Value& self_;
  ListMaker items_;
};

// Adds the parts between separators, from the left or from the right.
Status split_at(std::string_view text, const Search& separator, int64_t most, bool from_right, PartList& parts) {
  for (; most != 0; --most) {
    const size_t at = separator.in(text);
    if (at == std::string_view::npos) break;
    const std::string_view after = text.substr(at + separator.size());
    TRY_STATUS(parts.add(from_right ? after : text.substr(0, at)));
    text = from_right ? text.substr(0, at) : after;
  }
  return parts.add(text);
}

template <bool from_right>
Result<Value> split_text(Machine& machine, const Value& self, const Arguments& arguments) {
  constexpr Search::From kFrom = from_right ? Search::From::right : Search::From::left;
  TRY(const int64_t most, integer_or(machine, arguments.positional[1], -1, "split"));
  const std::string& text = bytes_of(self);
  PartList parts(machine, self);
  if (given(arguments.positional[0])) {
    TRY(const std::string* separator, want_text(machine, arguments.positional[0], "split"));
    if (separator->empty()) return machine.fail("split: found an empty separator: want a character at least");
    TRY_STATUS(split_at(text, Search(*separator, kFrom), most, from_right, parts));
  } else {
    TRY_STATUS(from_right ? split_blanks_right(text, most, parts.sink()) : split_blanks(text, most, parts.sink()));
  }
  if (from_right) parts.reverse();
  return parts.take();
}

Result<Value> lines_of(Machine& machine, const Value& self, const Arguments& arguments) {
  PartList lines(machine, self);
  TRY_STATUS(split_lines(bytes_of(self), truth_or(arguments.positional[0], false), lines.sink()));
  return lines.take();
}

template <bool from_right>
Result<Value> partition(Machine& machine, const Value& self, const Arguments& arguments) {
  TRY(const std::string* separator, want_text(machine, arguments.positional[0], "partition"));
  if (separator->empty()) return machine.fail("partition: found an empty separator: want a character at least");
  const std::string_view text = bytes_of(self);
  TRY(const size_t at, find_text(machine, text, *separator, from_right));
  std::array<std::string_view, 3> parts = {text, "", ""};
  if (at != std::string_view::npos)
    parts = {text.substr(0, at), *separator, text.substr(at + separator->size())};
  else if (from_right)
    parts = {"", "", text};
  PartList list(machine, self);
  for (const std::string_view part : parts) TRY_STATUS(list.add(part));
  return list.take(Flavour::tuple);
}

// The part of the text between the optional arguments "start" and "end", which count characters.
struct Window {
  std::string_view text;
  int64_t start = 0;  // in characters
};

Result<Window> window_of(Machine& machine, const Value& self, const Value& start, const Value& end) {
  const Text& text = self.as_text();
  if (!given(start) && !given(end)) return Window{text.bytes, 0};
  TRY(const int64_t size, length(machine, self));
  TRY(int64_t first, integer_or(machine, start, 0, "start"));
  TRY(int64_t last, integer_or(machine, end, size, "end"));
  first = std::max<int64_t>(first < 0 ? first + size : first, 0);
  last = std::clamp<int64_t>(last < 0 ? last + size : last, 0, size);
  if (first > last) return Window{std::string_view(), -1};
  const size_t from = character_offset(text.bytes, static_cast<size_t>(first));
  const size_t to = character_offset(text.bytes, static_cast<size_t>(last));
  return Window{std::string_view(text.bytes).substr(from, to - from), first};
}

template <bool at_end>
Result<Value> has_affix(Machine& machine, const Value& self, const Arguments& arguments) {
  TRY(const Window window, window_of(machine, self, arguments.positional[1], arguments.positional[2]));
  const Value& wanted = arguments.positional[0];
  const bool several = wanted.is(Kind::list) && wanted.as_list().flavour == Flavour::tuple;
  const std::span<const Value> affixes =
      several ? std::span<const Value>(wanted.as_list().items) : std::span(&wanted, 1);
  for (const Value& affix : affixes) {
    TRY(const std::string* text, want_text(machine, affix, at_end ? "endswith" : "startswith"));
    if (window.start >= 0 && (at_end ? ends_with(window.text, *text) : starts_with(window.text, *text)))
      return Value(true);
  }
  return Value(false);
}

// Character index of the argument in the text, or -1.
Result<int64_t> position(Machine& machine, const Value& self, const Arguments& arguments, bool from_right) {
  TRY(const std::string* wanted, want_text(machine, arguments.positional[0], "find"));
  TRY(const Window window, window_of(machine, self, arguments.positional[1], arguments.positional[2]));
  if (window.start < 0) return int64_t{-1};
  TRY(const size_t at, find_text(machine, window.text, *wanted, from_right));
  if (at == std::string_view::npos) return int64_t{-1};
  return window.start + static_cast<int64_t>(count_characters(window.text.substr(0, at)));
}

template <bool from_right, bool must_be_there>
Result<Value> find_in(Machine& machine, const Value& self, const Arguments& arguments) {
  TRY(const int64_t at, position(machine, self, arguments, from_right));
  if (at < 0 && must_be_there) return machine.fail("index: the string has no such part");
  return Value(at);
}

Result<Value> count_text(Machine& machine, const Value& self, const Arguments& arguments) {
  TRY(const std::string* wanted, want_text(machine, arguments.positional[0], "count"));
  TRY(const Window window, window_of(machine, self, arguments.positional[1], arguments.positional[2]));
  if (window.start < 0) return Value(int64_t{0});
  if (wanted->empty()) return Value(static_cast<int64_t>(count_characters(window.text)) + 1);
  const Search search(*wanted);
  std::string_view rest = window.text;
  int64_t count = 0;
  for (size_t at = search.in(rest); at != std::string_view::npos; ++count, at = search.in(rest))
    rest.remove_prefix(at + wanted->size());
  return Value(count);
}

Result<Value> replace_text(Machine& machine, const Value& self, const Arguments& arguments) {
  TRY(const std::string* old, want_text(machine, arguments.positional[0], "replace"));
  TRY(const std::string* with, want_text(machine, arguments.positional[1], "replace"));
  TRY(const int64_t most, integer_or(machine, arguments.positional[2], -1, "replace"));
  return replace(machine, bytes_of(self), *old, *with, most, self.as_text().safe);
}

Result<Value> join_items(Machine& machine, const Value& self, const Arguments& arguments) {
  TRY(const auto items, items_of(machine, arguments.positional[0]));
  Writer out(machine);
  bool first = true;
  for (const Value& item : items->items) {
    if (!first) TRY_STATUS(out.add(bytes_of(self)));
    first = false;
    TRY(const std::string* text, want_text(machine, item, "join"));
    TRY_STATUS(out.add(*text));
  }
  return out.take(self.as_text().safe);
}

enum class Alignment : uint8_t { left, right, center };

template <Alignment alignment>
Result<Value> aligned(Machine& machine, const Value& self, const Arguments& arguments) {
  TRY(const int64_t width, integer_or(machine, arguments.positional[0], 0, "width"));
  TRY(const std::string fill, text_or(machine, arguments.positional[1], " ", "fillchar"));
  if (count_characters(fill) != 1) return machine.fail("fillchar: found \"", printable(fill), "\": want one character");
  TRY(const int64_t size, length(machine, self));
  const int64_t missing = std::max<int64_t>(width - size, 0);
  // Where the padding is odd, Python puts the larger half left if the width is odd.
  const int64_t half = missing / 2 + (missing & width & 1);
  const int64_t left = alignment == Alignment::left ? 0 : alignment == Alignment::right ? missing : half;
  return pad(machine, bytes_of(self), fill, left, missing - left, self.as_text().safe);
}

Result<Value> zero_filled(Machine& machine, const Value& self, const Arguments& arguments) {
  TRY(const int64_t width, integer_or(machine, arguments.positional[0], 0, "zfill"));
  TRY(const int64_t size, length(machine, self));
  const std::string_view text = bytes_of(self);
  const size_t sign = starts_with(text, "-") || starts_with(text, "+") ? 1 : 0;
  TRY(const Value filled, pad(machine, text.substr(sign), "0", std::max<int64_t>(width - size, 0), 0));
  return made(machine, self, cat(text.substr(0, sign), bytes_of(filled)));
}

template <bool at_end>
Result<Value> without_affix(Machine& machine, const Value& self, const Arguments& arguments) {
  TRY(const std::string* affix, want_text(machine, arguments.positional[0], "affix"));
  std::string_view text = bytes_of(self);
  if (at_end && ends_with(text, *affix))
    text.remove_suffix(affix->size());
  else if (!at_end && starts_with(text, *affix))
    text.remove_prefix(affix->size());
  return made(machine, self, text);
}

Result<Value> formatted(Machine& machine, const Value& self, const Arguments& arguments) {
  return format_braces(machine, self.as_text(), arguments);
}

constexpr Builtin kMethods[] = {
    {"upper", changed<upper>},
    {"lower", changed<lower>},
    {"casefold", changed<lower>},
    {"capitalize", changed<capitalize>},
    {"title", changed<title>},
    {"swapcase", changed<swap_case>},
    {"strip", stripped<Side::both>, "chars"},
    {"lstrip", stripped<Side::left>, "chars"},
    {"rstrip", stripped<Side::right>, "chars"},
    {"split", split_text<false>, "sep,maxsplit"},
    {"rsplit", split_text<true>, "sep,maxsplit"},
    {"splitlines", lines_of, "keepends"},
    {"partition", partition<false>, "sep", 1},
    {"rpartition", partition<true>, "sep", 1},
    {"startswith", has_affix<false>, "prefix,start,end", 1},
    {"endswith", has_affix<true>, "suffix,start,end", 1},
    {"removeprefix", without_affix<false>, "prefix", 1},
    {"removesuffix", without_affix<true>, "suffix", 1},
    {"find", find_in<false, false>, "sub,start,end", 1},
    {"rfind", find_in<true, false>, "sub,start,end", 1},
    {"index", find_in<false, true>, "sub,start,end", 1},
    {"rindex", find_in<true, true>, "sub,start,end", 1},
    {"count", count_text, "sub,start,end", 1},
    {"replace", replace_text, "old,new,count", 2},
    {"join", join_items, "iterable", 1},
    {"center", aligned<Alignment::center>, "width,fillchar", 1},
    {"ljust", aligned<Alignment::left>, "width,fillchar", 1},
    {"rjust", aligned<Alignment::right>, "width,fillchar", 1},
    {"zfill", zero_filled, "width", 1},
    {"format", formatted, "*"},
    {"isalpha", is_class<Class::alpha>},
    {"isdigit", is_class<Class::digit>},
    {"isdecimal", is_class<Class::decimal>},
    {"isnumeric", is_class<Class::numeric>},
    {"isalnum", is_class<Class::alnum>},
    {"isspace", is_class<Class::space>},
    {"isupper", tested<is_upper_case>},
    {"islower", tested<is_lower_case>},
};

}  // namespace

std::span<const Builtin> text_methods() { return kMethods; }

}  // namespace sluice::jinja
