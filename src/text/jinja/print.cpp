#include "text/jinja/print.h"

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

// Characters repr() shows as they are: not controls, separators (save the space), unassigned ones.
bool is_printable(uint32_t c) {
  const Category kind = category(c);
  return c == ' ' || (kind != Category::other && kind != Category::zs && kind != Category::zl && kind != Category::zp);
}

void append_escaped(std::string& out, uint32_t c) {
  char digits[16];
  std::snprintf(digits, sizeof digits, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
  out += digits;
}

// Single quotes, unless only those are inside.
std::string quote(std::string_view text) {
  const bool single = text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char mark = single ? '\'' : '"';
  std::string out(1, mark);
  while (!text.empty()) {
    const Decoded c = decode_utf8(text);
    if (text[0] == '\n') {
      out += "\\n";
    } else if (text[0] == '\r') {
      out += "\\r";
    } else if (text[0] == '\t') {
      out += "\\t";
    } else if (text[0] == mark || text[0] == '\\') {
      out += '\\';
      out += text[0];
    } else if (c.bytes == 0 || !is_printable(c.code_point)) {
      append_escaped(out, c.bytes == 0 ? static_cast<unsigned char>(text[0]) : c.code_point);
    } else {
      out += text.substr(0, c.bytes);
    }
    text.remove_prefix(c.bytes == 0 ? 1 : c.bytes);
  }
  return out + mark;
}

class Printer {
 public:
  explicit Printer(Machine& machine) : machine_(machine), out_(machine) {}

  Status repr(const Value& value);
  std::string take() { return out_.take_bytes(); }

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
      return out_.add(text.safe ? cat("Markup(", quote(text.bytes), ")") : quote(text.bytes));
    }
    case Kind::list: return list(value.as_list());
    case Kind::dict: return dict(value.as_dict());
    case Kind::object: return out_.add(cat("<", value.as_object().type_name(), ">"));
  }
  return {};
}

}  // namespace

Result<std::string> to_repr(Machine& machine, const Value& value) {
  Printer printer(machine);
  TRY_STATUS(printer.repr(value));
  return printer.take();
}

Result<std::string> to_text(Machine& machine, const Value& value) {
  if (value.is(Kind::undefined)) return std::string();
  if (!value.is(Kind::text)) return to_repr(machine, value);
  TRY_STATUS(machine.can_make(value.as_text().bytes.size()));
  return value.as_text().bytes;
}

}  // namespace sluice::jinja
