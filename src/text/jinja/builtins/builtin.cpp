#include "text/jinja/builtins/builtin.h"

#include <algorithm>

namespace sluice::jinja {

namespace {

std::vector<std::string> parameter_names(const Builtin& builtin) {
  return builtin.parameters.empty() ? std::vector<std::string>() : split(builtin.parameters, ',');
}

Result<Arguments> bind(Machine& machine, const Builtin& builtin, const Arguments& given) {
  const std::vector<std::string> names = parameter_names(builtin);
  if (given.positional.size() > names.size())
    return machine.fail(builtin.name, ": found ", given.positional.size(), " arguments: want at most ", names.size());
  Arguments bound{.positional = given.positional};
  std::vector<bool> filled(names.size());
  std::fill_n(filled.begin(), given.positional.size(), true);
  bound.positional.resize(names.size());
  for (const auto& [name, value] : given.named) {
    const auto at = static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (at == names.size()) return machine.fail(builtin.name, ": the argument \"", printable(name), "\" is not known");
    if (filled[at]) return machine.fail(builtin.name, ": the argument \"", name, "\" is given twice");
    filled[at] = true;
    bound.positional[at] = value;
  }
  const auto missing = static_cast<size_t>(std::find(filled.begin(), filled.end(), false) - filled.begin());
  if (missing < builtin.required)
    return machine.fail(builtin.name, ": the argument \"", names[missing], "\" is missing");
  return bound;
}

class Function final : public Object {
 public:
  Function(const Builtin& builtin, Value self) : builtin_(builtin), self_(std::move(self)) {}
  std::string_view type_name() const override { return "function"; }
  bool callable() const override { return true; }
  int nesting() const override { return 1 + self_.nesting(); }
  Result<Value> call(Machine& machine, const Arguments& arguments) override {
    return call_builtin(machine, builtin_, self_, arguments);
  }

 private:
  const Builtin& builtin_;
  Value self_;
};

}  // namespace

const Builtin* find_builtin(std::span<const Builtin> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Builtin& row) { return row.name == name; });
  return found == table.end() ? nullptr : &*found;
}

namespace {

// The working memory of a builtin, besides its result: copies, tables, items with their keys.
constexpr uint64_t kWorkingCopies = 4;

Result<Room> charge(Machine& machine, const Builtin& builtin, const Value& self, const Arguments& arguments) {
  TRY_STATUS(machine.step(4));  // to find the row and bind the arguments
  if (builtin.looks == Looks::at_little) return Room();
  uint64_t bytes = Machine::bytes_of(self);
  for (const Value& value : arguments.positional) bytes += Machine::bytes_of(value);
  for (const auto& [name, value] : arguments.named) bytes += Machine::bytes_of(value);
  TRY_STATUS(machine.look(bytes));
  return machine.room(kWorkingCopies * bytes);
}

}  // namespace

Result<Value> call_builtin(Machine& machine, const Builtin& builtin, const Value& self, const Arguments& arguments) {
  // Some builtins call others: map('map', 'map', ...).
  Machine::Visit visit(machine, machine.line());
  TRY_STATUS(visit.allowed());
  TRY(const Room room, charge(machine, builtin, self, arguments));
  if (builtin.parameters == "*") return builtin.body(machine, self, arguments);
  TRY(const Arguments bound, bind(machine, builtin, arguments));
  return builtin.body(machine, self, bound);
}

Result<Value> function_value(Machine& machine, const Builtin& builtin, Value self) {
  TRY(auto made, machine.object<Function>(0, builtin, std::move(self)));
  return Value(std::static_pointer_cast<Object>(std::move(made)));
}

Value function_value(const Builtin& builtin) {
  return Value(std::static_pointer_cast<Object>(std::make_shared<Function>(builtin, Value())));
}

Result<int64_t> integer_or(Machine& machine, const Value& value, int64_t otherwise, std::string_view where) {
  if (!given(value)) return otherwise;
  if (!value.is_integral()) return machine.fail(where, ": found a ", value.type_name(), ": want an integer");
  return value.as_integer();
}

Result<const std::string*> want_text(Machine& machine, const Value& value, std::string_view where) {
  if (const std::string* bytes = value.bytes()) {
    TRY_STATUS(machine.look(bytes->size()));
    return bytes;
  }
  if (value.is(Kind::undefined)) return machine.fail(where, ": ", value.reason());
  return machine.fail(where, ": found a ", value.type_name(), ": want a string");
}

Result<std::string> text_or(Machine& machine, const Value& value, std::string_view otherwise, std::string_view where) {
  if (!given(value)) return std::string(otherwise);
  TRY(const std::string* text, want_text(machine, value, where));
  return *text;
}

bool truth_or(const Value& value, bool otherwise) { return value.is(Kind::undefined) ? otherwise : value.truthy(); }

}  // namespace sluice::jinja
