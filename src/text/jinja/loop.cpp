#include "text/jinja/loop.h"

#include "text/jinja/builtins/builtin.h"
#include "text/jinja/operators.h"

namespace sluice::jinja {

namespace {

Loop& loop_of(const Value& self) { return static_cast<Loop&>(self.as_object()); }

Result<Value> cycle(Machine& machine, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) return machine.fail("loop.cycle: want one item at least");
  return arguments.positional[loop_of(self).index() % arguments.positional.size()];
}

Result<Value> changed(Machine& machine, const Value& self, const Arguments& arguments) {
  TRY(Value values, machine.list(arguments.positional, Flavour::tuple));
  TRY(const bool differs, loop_of(self).changed(machine, std::move(values)));
  return Value(differs);
}

constexpr Builtin kMethods[] = {{"cycle", cycle, "*", 0, Looks::at_little}, {"changed", changed, "*"}};

}  // namespace

Result<bool> Loop::changed(Machine& machine, Value value) {
  TRY(const bool same, has_last_ ? equal(machine, last_, value) : Result<bool>(false));
  last_ = std::move(value);
  has_last_ = true;
  return !same;
}

Result<Value> Loop::call(Machine& machine, const Arguments& arguments) {
  if (!node_.recursive) return machine.fail("loop is called, but the loop is not marked \"recursive\"");
  if (arguments.positional.size() != 1) return machine.fail("loop: want one list to go through");
  return interpreter_.repeat_loop(node_, around_, arguments.positional[0], depth_ + 1);
}

Result<Value> Loop::attribute(Machine& machine, std::string_view name) {
  const auto count = [](size_t number) { return Value(static_cast<int64_t>(number)); };
  const size_t size = items_->items.size();
  if (name == "index") return count(index_ + 1);
  if (name == "index0") return count(index_);
  if (name == "revindex") return count(size - index_);
  if (name == "revindex0") return count(size - index_ - 1);
  if (name == "first") return Value(index_ == 0);
  if (name == "last") return Value(index_ + 1 == size);
  if (name == "length") return count(size);
  if (name == "depth") return Value(int64_t{depth_});
  if (name == "depth0") return Value(int64_t{depth_} - 1);
  if (name == "previtem")
    return index_ == 0 ? machine.undefined("there is no previous item") : items_->items[index_ - 1];
  if (name == "nextitem")
    return index_ + 1 == size ? machine.undefined("there is no next item") : items_->items[index_ + 1];
  const Builtin* method = find_builtin(kMethods, name);
  if (method == nullptr) return Object::attribute(machine, name);
  return function_value(machine, *method, Value(std::static_pointer_cast<Object>(shared_from_this())));
}

}  // namespace sluice::jinja
