#include "text/jinja/builtins/methods.h"

#include <algorithm>

#include "text/jinja/builtins/text_methods.h"
#include "text/jinja/operators.h"

namespace sluice::jinja {

namespace {

Result<Value> dict_get(Machine& machine, const Value& self, const Arguments& arguments) {
  TRY(const Value* member, find_member(machine, self.as_dict().members, arguments.positional[0]));
  if (member != nullptr) return *member;
  return arguments.positional[1].is(Kind::undefined) ? Value(None{}) : arguments.positional[1];
}

Result<Value> dict_items(Machine& machine, const Value& self, const Arguments&) {
  return item_view(machine, self.as_dict());
}
Result<Value> dict_keys(Machine& machine, const Value& self, const Arguments&) {
  return key_view(machine, self.as_dict());
}
Result<Value> dict_values(Machine& machine, const Value& self, const Arguments&) {
  return value_view(machine, self.as_dict());
}
Result<Value> copy(Machine&, const Value& self, const Arguments&) { return self; }

Result<Value> list_index(Machine& machine, const Value& self, const Arguments& arguments) {
  int64_t index = 0;
  for (const Value& item : self.as_list().items) {
    TRY(const bool same, equal(machine, item, arguments.positional[0]));
    if (same) return Value(index);
    ++index;
  }
  return machine.fail("index: the value is not in the ", self.type_name());
}

Result<Value> list_count(Machine& machine, const Value& self, const Arguments& arguments) {
  int64_t count = 0;
  for (const Value& item : self.as_list().items) {
    TRY(const bool same, equal(machine, item, arguments.positional[0]));
    count += same ? 1 : 0;
  }
  return Value(count);
}

constexpr Builtin kDictMethods[] = {
    {"get", dict_get, "key,default", 1, Looks::at_little},
    {"items", dict_items},
    {"keys", dict_keys},
    {"values", dict_values},
    {"copy", copy, "", 0, Looks::at_little},
};

constexpr Builtin kListMethods[] = {
    {"index", list_index, "value", 1},
    {"count", list_count, "value", 1},
    {"copy", copy, "", 0, Looks::at_little},
};

constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListChanges[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};

bool would_change(const Value& object, std::string_view method) {
  std::span<const std::string_view> changes;
  if (object.is(Kind::dict)) changes = kDictChanges;
  if (object.is(Kind::list) && object.as_list().flavour == Flavour::list) changes = kListChanges;
  return std::find(changes.begin(), changes.end(), method) != changes.end();
}

std::span<const Builtin> methods_of(const Value& object) {
  if (object.is(Kind::text)) return text_methods();
  if (object.is(Kind::dict)) return kDictMethods;
  if (!object.is(Kind::list)) return {};
  const Flavour flavour = object.as_list().flavour;
  if (flavour == Flavour::list) return kListMethods;
  // Of these, tuples and ranges have index and count.
  const bool counts = flavour == Flavour::tuple || flavour == Flavour::range;
  return std::span<const Builtin>(kListMethods).first(counts ? 2 : 0);
}

}  // namespace

Result<std::optional<Value>> find_method(Machine& machine, const Value& object, std::string_view name) {
  if (would_change(object, name)) {
    TRY(Value none, machine.undefined("\"", name, "\" would change a ", object.type_name()));
    return std::optional(std::move(none));
  }
  const Builtin* row = find_builtin(methods_of(object), name);
  if (row == nullptr) return std::optional<Value>();
  TRY(Value method, function_value(machine, *row, object));
  return std::optional(std::move(method));
}

}  // namespace sluice::jinja
