#include "text/jinja/builtins/print.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/unicode.h"

namespace sluice::jinja {

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return format_number(value);
}

namespace {

// Characters that repr() shows unchanged: all but controls, separators (except the space) and unassigned ones.
bool is_printable(uint32_t c) {
  const Category kind = category(c);
  return c == ' ' || (kind != Category::other && kind != Category::zs && kind != Category::zl && kind != Category::zp);
}

std::string escaped(uint32_t c) {
  char digits[16];
  std::snprintf(digits, sizeof digits, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
  return digits;
}

// The escape of a character between quotes of the kind `mark`; empty if it needs none.
std::string quoted(std::string_view text, const Decoded& c, char mark) {
  if (text[0] == '\n') return "\\n";
  if (text[0] == '\r') return "\\r";
  if (text[0] == '\t') return "\\t";
  if (text[0] == mark || text[0] == '\\') return {'\\', text[0]};
  if (c.bytes == 0) return escaped(static_cast<unsigned char>(text[0]));
  return is_printable(c.code_point) ? std::string() : escaped(c.code_point);
}

// Single quotes, unless only those are inside.
Status quote(Writer& out, std::string_view text) {
  const bool single = text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const std::string_view mark = single ? "'" : "\"";
  TRY_STATUS(out.add(mark));
  size_t plain = 0;  // bytes without escapes that are not written yet
  while (plain < text.size()) {
    const std::string_view rest = text.substr(plain);
    const Decoded c = decode_utf8(rest);
    const std::string other = quoted(rest, c, mark[0]);
    if (!other.empty()) {
      TRY_STATUS(out.add(text.substr(0, plain)));
      TRY_STATUS(out.add(other));
      text = rest.substr(std::max(c.bytes, 1u));
      plain = 0;
    } else {
      plain += c.bytes;
    }
  }
  TRY_STATUS(out.add(text));
  return out.add(mark);
}

class Printer {
 public:
  explicit Printer(Machine& machine) : machine_(machine), out_(machine) {}

  Status repr(const Value& value);
  Result<Value> take() { return out_.take(); }

 private:
  Status items(const List& list);
  Status list(const List& list);
  Status dict(const Dict& dict);

  Machine& machine_;
  Writer out_;
};

Status Printer::items(const List& list) {
  bool first = true;
  for (const Value& item : list.items) {
    if (!first) TRY_STATUS(out_.add(", "));
    first = false;
    TRY_STATUS(repr(item));
  }
  return {};
}

Status Printer::list(const List& list) {
  switch (list.flavour) {
    case Flavour::range: return out_.add(list.shown);
    case Flavour::generator: return out_.add("<generator object>");
    case Flavour::list:
      TRY_STATUS(out_.add("["));
      TRY_STATUS(items(list));
      return out_.add("]");
    case Flavour::tuple:
      TRY_STATUS(out_.add("("));
      TRY_STATUS(items(list));
      return out_.add(list.items.size() == 1 ? ",)" : ")");
    case Flavour::view: break;
  }
  TRY_STATUS(out_.add(list.shown));
  TRY_STATUS(out_.add("(["));
  TRY_STATUS(items(list));
  return out_.add("])");
}

Status Printer::dict(const Dict& dict) {
  TRY_STATUS(out_.add("{"));
  bool first = true;
  for (const auto& [key, value] : dict.members) {
    if (!first) TRY_STATUS(out_.add(", "));
    first = false;
    TRY_STATUS(repr(key));
    TRY_STATUS(out_.add(": "));
    TRY_STATUS(repr(value));
  }
  return out_.add("}");
}

Status Printer::repr(const Value& value) {
  TRY_STATUS(machine_.step());
  switch (value.kind()) {
    case Kind::undefined: return out_.add("Undefined");
    case Kind::none: return out_.add("None");
    case Kind::boolean: return out_.add(value.as_bool() ? "True" : "False");
    case Kind::integer: return out_.add(cat(value.as_integer()));
    case Kind::number: return out_.add(float_text(value.as_number()));
    case Kind::text: {
      const Text& text = value.as_text();
      if (!text.safe) return quote(out_, text.bytes);
      TRY_STATUS(out_.add("Markup("));
      TRY_STATUS(quote(out_, text.bytes));
      return out_.add(")");
    }
    case Kind::list: return list(value.as_list());
    case Kind::dict: return dict(value.as_dict());
    case Kind::object: return out_.add(cat("<", value.as_object().type_name(), ">"));
  }
  return {};
}

}  // namespace

Result<Value> to_repr(Machine& machine, const Value& value) {
  Printer printer(machine);
  TRY_STATUS(printer.repr(value));
  return printer.take();
}

Result<Value> to_text(Machine& machine, const Value& value) {
  if (value.is(Kind::undefined)) return machine.text("");
  if (!value.is(Kind::text)) return to_repr(machine, value);
  TRY_STATUS(machine.look(value));
  return value;
}

}  // namespace sluice::jinja
