#include "text/jinja/builtins/filters.h"

namespace sluice::jinja {

const Builtin* find_filter(std::string_view name) {
  for (const std::span<const Builtin> table : {text_filters(), value_filters(), list_filters()})
    if (const Builtin* row = find_builtin(table, name)) return row;
  return nullptr;
}

Result<Value> apply_filter(Machine& machine, std::string_view name, const Value& input, const Arguments& arguments) {
  const Builtin* row = find_filter(name);
  if (row == nullptr) return machine.fail("the filter \"", printable(name), "\" is not known");
  return call_builtin(machine, *row, input, arguments);
}

}  // namespace sluice::jinja
