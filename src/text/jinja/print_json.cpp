#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/unicode.h"
#include "text/jinja/print.h"

namespace sluice::jinja {

namespace {

void append_unit(std::string& out, uint32_t unit) {
  char digits[16];
  std::snprintf(digits, sizeof digits, "\\u%04x", unit);
  out += digits;
}

void append_json_character(std::string& out, std::string_view character, uint32_t c, bool ensure_ascii) {
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    case '\b': out += "\\b"; return;
    case '\f': out += "\\f"; return;
    default: break;
  }
  if (c >= 0x20 && (!ensure_ascii || c < 0x7f)) {
    out += character;
  } else if (c < 0x10000) {
    append_unit(out, c);
  } else {
    append_unit(out, 0xd800 + ((c - 0x10000) >> 10));
    append_unit(out, 0xdc00 + ((c - 0x10000) & 0x3ff));
  }
}

std::string quote_json(std::string_view text, bool ensure_ascii) {
  std::string out = "\"";
  while (!text.empty()) {
    const Decoded c = decode_utf8(text);
    const size_t bytes = std::max(c.bytes, 1u);
    append_json_character(out, text.substr(0, bytes), c.bytes == 0 ? 0xfffd : c.code_point, ensure_ascii);
    text.remove_prefix(bytes);
  }
  return out + '"';
}

class JsonPrinter {
 public:
  JsonPrinter(Machine& machine, const JsonDumps& style) : machine_(machine), style_(style), out_(machine) {}

  Status value(const Value& value);
  std::string take() { return out_.take_bytes(); }

 private:
  Status newline();
  Status separator(bool first);
  Status list(const List& list);
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

Status JsonPrinter::list(const List& list) {
  if (list.flavour == Flavour::generator || list.flavour == Flavour::view || list.flavour == Flavour::range) {
    return machine_.fail("tojson: found a ", Value(std::make_shared<const List>(list)).type_name(),
                         ": want lists, dicts, strings, numbers, true, false or none");
  }
  if (list.items.empty()) return out_.add("[]");
  TRY_STATUS(out_.add("["));
  ++level_;
  for (const Value& item : list.items) {
    TRY_STATUS(separator(&item == list.items.data()));
    TRY_STATUS(value(item));
  }
  --level_;
  TRY_STATUS(newline());
  return out_.add("]");
}

Status JsonPrinter::key(const Value& key) {
  if (key.is(Kind::text)) return value(key);
  if (!key.is_number() && !key.is(Kind::none)) {
    return machine_.fail("tojson: a key is a ", key.type_name(), ": want a string");
  }
  TRY_STATUS(out_.add("\""));
  TRY_STATUS(value(key));
  return out_.add("\"");
}

Status JsonPrinter::dict(const Dict& dict) {
  if (dict.members.empty()) return out_.add("{}");
  std::vector<const Dict::Member*> members;
  members.reserve(dict.members.size());
  for (const Dict::Member& member : dict.members) members.push_back(&member);
  if (style_.sort_keys) {
    for (const auto& [name, member] : dict.members) {
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
    case Kind::text: return out_.add(quote_json(value.as_text().bytes, style_.ensure_ascii));
    case Kind::list: return list(value.as_list());
    case Kind::dict: return dict(value.as_dict());
    case Kind::undefined: return machine_.fail("tojson: ", value.reason());
    case Kind::object: break;
  }
  return machine_.fail("tojson: found a ", value.type_name(),
                       ": want lists, dicts, strings, numbers, true, false or none");
}

}  // namespace

Result<std::string> to_json(Machine& machine, const Value& value, const JsonDumps& style) {
  JsonPrinter printer(machine, style);
  TRY_STATUS(printer.value(value));
  return printer.take();
}

}  // namespace sluice::jinja
