#include "text/jinja/value.h"

#include <algorithm>

#include "text/jinja/machine.h"

namespace sluice::jinja {

namespace {

bool is_ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0x80) != 0; });
}

}  // namespace

Value::Value() = default;
Value::Value(const Value& other) = default;
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) = default;
Value& Value::operator=(Value&& other) noexcept = default;
Value::~Value() = default;

Value::Value(std::string text, bool safe, Room room) {
  const bool ascii = is_ascii(text);
  held_ = std::make_shared<const Text>(Text{std::move(text), safe, ascii, std::move(room)});
}

Value Value::undefined(std::string reason, Room room) {
  Value value;
  value.held_ = std::make_shared<const ReasonText>(ReasonText{std::move(reason), std::move(room)});
  return value;
}

bool Value::as_bool() const {
  CHECK(is(Kind::boolean));
  return *std::get_if<bool>(&held_);
}
int64_t Value::as_integer() const {
  if (const bool* truth = std::get_if<bool>(&held_)) return *truth ? 1 : 0;
  CHECK(is(Kind::integer));
  return *std::get_if<int64_t>(&held_);
}
double Value::as_number() const {
  if (const double* number = std::get_if<double>(&held_)) return *number;
  return static_cast<double>(as_integer());
}
const Text& Value::as_text() const {
  CHECK(is(Kind::text));
  return **std::get_if<std::shared_ptr<const Text>>(&held_);
}
const std::shared_ptr<const List>& Value::list_pointer() const {
  CHECK(is(Kind::list));
  return *std::get_if<std::shared_ptr<const List>>(&held_);
}
const List& Value::as_list() const { return *list_pointer(); }
const Dict& Value::as_dict() const {
  CHECK(is(Kind::dict));
  return **std::get_if<std::shared_ptr<const Dict>>(&held_);
}
const std::shared_ptr<Object>& Value::object_pointer() const {
  CHECK(is(Kind::object));
  return *std::get_if<std::shared_ptr<Object>>(&held_);
}
Object& Value::as_object() const { return *object_pointer(); }

std::string_view Value::reason() const {
  const auto* reason = std::get_if<Reason>(&held_);
  return reason != nullptr && *reason ? std::string_view((*reason)->text) : "the value is undefined";
}

const std::string* Value::bytes() const { return is(Kind::text) ? &as_text().bytes : nullptr; }

bool Value::truthy() const {
  switch (kind()) {
    case Kind::undefined:
    case Kind::none: return false;
    case Kind::boolean: return as_bool();
    case Kind::integer: return as_integer() != 0;
    case Kind::number: return as_number() != 0;
    case Kind::text: return !as_text().bytes.empty();
    case Kind::list: return as_list().flavour == Flavour::generator || !as_list().items.empty();
    case Kind::dict: return !as_dict().members.empty();
    case Kind::object: return true;
  }
  return false;
}

std::string_view Value::type_name() const {
  switch (kind()) {
    case Kind::undefined: return "Undefined";
    case Kind::none: return "NoneType";
    case Kind::boolean: return "bool";
    case Kind::integer: return "int";
    case Kind::number: return "float";
    case Kind::text: return "str";
    case Kind::dict: return "dict";
    case Kind::object: return as_object().type_name();
    case Kind::list: break;
  }
  switch (as_list().flavour) {
    case Flavour::list: return "list";
    case Flavour::tuple: return "tuple";
    case Flavour::range: return "range";
    case Flavour::view: return as_list().shown;
    case Flavour::generator: return "generator";
  }
  return "list";
}

int Value::nesting() const {
  if (is(Kind::list)) return as_list().nesting;
  if (is(Kind::object)) return as_object().nesting();
  return is(Kind::dict) ? as_dict().nesting : 0;
}

bool Value::same_as(const Value& other) const { return held_ == other.held_; }

Result<Value> Object::call(Machine& machine, const Arguments&) {
  return machine.fail("a ", type_name(), " is called: want a function or a macro");
}

Result<Value> Object::attribute(Machine& machine, std::string_view name) {
  return machine.undefined("'", type_name(), " object' has no attribute '", printable(name), "'");
}

namespace {

// Makes values through the machine, which counts them, or without a machine.
struct Converter {
  Machine* machine;

  Result<Value> text(const std::string& bytes) const { return machine ? machine->text(bytes) : Value(bytes); }
  Result<Value> array(const Json::Array& array, int depth) const;
  Result<Value> object(const Json::Object& object, int depth) const;
  Result<Value> convert(const Json& json, int depth) const;
};

Result<Value> Converter::array(const Json::Array& array, int depth) const {
  List list;
  list.items.reserve(array.size());
  for (const Json& item : array) {
    TRY(Value value, convert(item, depth + 1));
    list.nesting = std::max(list.nesting, 1 + value.nesting());
    list.items.push_back(std::move(value));
  }
  if (machine != nullptr) return machine->list(std::move(list.items));
  return Value(std::make_shared<const List>(std::move(list)));
}

Result<Value> Converter::object(const Json::Object& object, int depth) const {
  Dict dict;
  dict.members.reserve(object.size());
  for (const auto& [name, member] : object) {
    TRY(Value key, text(name));
    TRY(Value value, convert(member, depth + 1));
    dict.nesting = std::max(dict.nesting, 1 + value.nesting());
    dict.members.emplace_back(std::move(key), std::move(value));
  }
  if (machine != nullptr) return machine->dict(std::move(dict.members));
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

Result<Value> Converter::convert(const Json& json, int depth) const {
  if (depth > kMaxTemplateNesting)
    return error(ErrorKind::invalid, "a template's input is nested deeper than ", kMaxTemplateNesting);
  if (json.is_null()) return Value(None{});
  if (json.is_bool()) return Value(json.as_bool());
  if (json.is_integer()) return Value(json.as_integer());
  if (json.is_number()) return Value(json.as_number());
  if (json.is_string()) return text(json.as_string());
  return json.is_array() ? array(json.as_array(), depth) : object(json.as_object(), depth);
}

}  // namespace

Result<Value> to_value(const Json& json, Machine* machine) { return Converter{machine}.convert(json, 1); }

}  // namespace sluice::jinja
