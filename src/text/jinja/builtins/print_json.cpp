// tojson: values as JSON (print.h).
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/unicode.h"
#include "text/jinja/builtins/print.h"

namespace sluice::jinja {

namespace {

std::string unit(uint32_t value) {
  char digits[16];
  std::snprintf(digits, sizeof digits, "\\u%04x", value);
  return digits;
}

// The escape of a character in a JSON string; empty if it needs none.
std::string escaped(uint32_t c, bool ensure_ascii) {
  switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '\b': return "\\b";
    case '\f': return "\\f";
    default: break;
  }
  if (c >= 0x20 && (!ensure_ascii || c < 0x7f)) return {};
  if (c < 0x10000) return unit(c);
  return unit(0xd800 + ((c - 0x10000) >> 10)) + unit(0xdc00 + ((c - 0x10000) & 0x3ff));
}

Status quote(Writer& out, std::string_view text, bool ensure_ascii) {
  TRY_STATUS(out.add("\""));
  size_t plain = 0;  // bytes without escapes that are not written yet
  while (plain < text.size()) {
    const std::string_view rest = text.substr(plain);
    const Decoded c = decode_utf8(rest);
    const size_t bytes = std::max(c.bytes, 1u);
    const std::string other = escaped(c.bytes == 0 ? 0xfffd : c.code_point, ensure_ascii);
    if (!other.empty()) {
      TRY_STATUS(out.add(text.substr(0, plain)));
      TRY_STATUS(out.add(other));
      text = rest.substr(bytes);
      plain = 0;
    } else {
      plain += bytes;
    }
  }
  TRY_STATUS(out.add(text));
  return out.add("\"");
}

class JsonPrinter {
 public:
  JsonPrinter(Machine& machine, const JsonDumps& style) : machine_(machine), style_(style), out_(machine) {}

  Status value(const Value& value);
  Result<Value> take() { return out_.take(); }

 private:
  Status newline();
  Status separator(bool first);
  Status list(const Value& value);
  Status dict(const Dict& dict);
  Status key(const Value& key);

  Machine& machine_;
  const JsonDumps& style_;
  Writer out_;
  int level_ = 0;
};

Status JsonPrinter::newline() {
  if (!style_.indent) return {};
  TRY_STATUS(out_.add("\n"));
  for (int i = 0; i < level_; ++i) TRY_STATUS(out_.add(*style_.indent));
  return {};
}

Status JsonPrinter::separator(bool first) {
  if (!first) TRY_STATUS(out_.add(style_.item_separator));
  return newline();
}

Status JsonPrinter::list(const Value& value) {
  const List& list = value.as_list();
  if (list.flavour == Flavour::generator || list.flavour == Flavour::view || list.flavour == Flavour::range) {
    return machine_.fail("tojson: found a ", value.type_name(),
                         ": want lists, dicts, strings, numbers, true, false or none");
  }
  if (list.items.empty()) return out_.add("[]");
  TRY_STATUS(out_.add("["));
  ++level_;
  for (const Value& item : list.items) {
    TRY_STATUS(separator(&item == list.items.data()));
    TRY_STATUS(this->value(item));
  }
  --level_;
  TRY_STATUS(newline());
  return out_.add("]");
}

Status JsonPrinter::key(const Value& key) {
  if (key.is(Kind::text)) return value(key);
  if (!key.is_number() && !key.is(Kind::none))
    return machine_.fail("tojson: a key is a ", key.type_name(), ": want a string");
  TRY_STATUS(out_.add("\""));
  TRY_STATUS(value(key));
  return out_.add("\"");
}

Status JsonPrinter::dict(const Dict& dict) {
  if (dict.members.empty()) return out_.add("{}");
  TRY(const Room room, machine_.room(dict.members.size() * sizeof(const Dict::Member*)));
  std::vector<const Dict::Member*> members;
  members.reserve(dict.members.size());
  for (const Dict::Member& member : dict.members) members.push_back(&member);
  if (style_.sort_keys) {
    for (const auto& [name, member] : dict.members) {
      TRY_STATUS(machine_.look(name));
      if (!name.is(Kind::text)) return machine_.fail("tojson: sort_keys found a ", name.type_name(), ": want strings");
    }
    std::sort(members.begin(), members.end(),
              [](const auto* a, const auto* b) { return *a->first.bytes() < *b->first.bytes(); });
  }
  TRY_STATUS(out_.add("{"));
  ++level_;
  for (const Dict::Member* member : members) {
    TRY_STATUS(separator(member == members[0]));
    TRY_STATUS(key(member->first));
    TRY_STATUS(out_.add(style_.key_separator));
    TRY_STATUS(value(member->second));
  }
  --level_;
  TRY_STATUS(newline());
  return out_.add("}");
}

Status JsonPrinter::value(const Value& value) {
  TRY_STATUS(machine_.step());
  switch (value.kind()) {
    case Kind::none: return out_.add("null");
    case Kind::boolean: return out_.add(value.as_bool() ? "true" : "false");
    case Kind::integer: return out_.add(cat(value.as_integer()));
    case Kind::number: return out_.add(format_number(value.as_number()));
    case Kind::text: return quote(out_, value.as_text().bytes, style_.ensure_ascii);
    case Kind::list: return list(value);
    case Kind::dict: return dict(value.as_dict());
    case Kind::undefined: return machine_.fail("tojson: ", value.reason());
    case Kind::object: break;
  }
  return machine_.fail("tojson: found a ", value.type_name(),
                       ": want lists, dicts, strings, numbers, true, false or none");
}

}  // namespace

Result<Value> to_json(Machine& machine, const Value& value, const JsonDumps& style) {
  JsonPrinter printer(machine, style);
  TRY_STATUS(printer.value(value));
  return printer.take();
}

}  // namespace sluice::jinja
