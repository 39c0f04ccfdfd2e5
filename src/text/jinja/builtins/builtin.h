// Functions in C++ that a template can call: filters, methods, globals. Each is a table row with its parameters, so
// that binding arguments, defaults and errors is written once.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/machine.h"

namespace sluice::jinja {

// `self` is a filter's input or a method's object. Arguments are bound in order, one for each parameter; an argument
// that was not given is undefined. With the parameters "*" arguments are passed as they were written.
using Body = Result<Value> (*)(Machine& machine, const Value& self, const Arguments& arguments);

// How much of its object and arguments a builtin reads. The call is charged for it.
enum class Looks : uint8_t {
  at_everything,  // at each byte and item, several times
  at_little,      // a constant time, except for operators, which charge for themselves
};

struct Builtin {
  std::string_view name;
  Body body;
  std::string_view parameters = "";  // "old,new,count"
  size_t required = 0;
  Looks looks = Looks::at_everything;
};

const Builtin* find_builtin(std::span<const Builtin> table, std::string_view name);
Result<Value> call_builtin(Machine& machine, const Builtin& builtin, const Value& self, const Arguments& arguments);

// A builtin as a value, bound to its object, such as "text.split" before its call. The row must outlive it.
Result<Value> function_value(Machine& machine, const Builtin& builtin, Value self);
Value function_value(const Builtin& builtin);

// Readers of bound arguments; `builtin` and `parameter` stand in errors.
Result<int64_t> integer_or(Machine& machine, const Value& value, int64_t otherwise, std::string_view where);
Result<std::string> text_or(Machine& machine, const Value& value, std::string_view otherwise, std::string_view where);
// The text, charged as if read once. Another kind of value is an error.
Result<const std::string*> want_text(Machine& machine, const Value& value, std::string_view where);
bool truth_or(const Value& value, bool otherwise);
inline bool given(const Value& value) { return !value.is(Kind::undefined) && !value.is(Kind::none); }

}  // namespace sluice::jinja
