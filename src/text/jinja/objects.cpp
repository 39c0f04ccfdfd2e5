#include "text/jinja/objects.h"

#include <algorithm>

#include "text/jinja/builtins/builtin.h"

namespace sluice::jinja {

Result<Value> Namespace::attribute(Machine& machine, std::string_view name) {
  TRY_STATUS(machine.step(attributes_.size() / 8));
  for (const auto& [key, value] : attributes_)
    if (key == name) return value;
  return machine.undefined("'Namespace' object has no attribute '", printable(name), "'");
}

Status Namespace::set(Machine& machine, const std::string& name, Value value) {
  TRY_STATUS(machine.step(attributes_.size() / 8));
  for (auto& [key, old] : attributes_) {
    if (key != name) continue;
    old = std::move(value);
    return {};
  }
  TRY_STATUS(machine.grow(room_, 2 * sizeof(attributes_[0]) + name.size()));  // twice, as vectors grow
  attributes_.emplace_back(name, std::move(value));
  return {};
}

namespace {

Result<Value> cycler_next(Machine&, const Value& self, const Arguments&) {
  return static_cast<Cycler&>(self.as_object()).next();
}
Result<Value> cycler_reset(Machine&, const Value& self, const Arguments&) {
  static_cast<Cycler&>(self.as_object()).reset();
  return Value(None{});
}

constexpr Builtin kCyclerMethods[] = {{"next", cycler_next}, {"reset", cycler_reset}};

}  // namespace

Result<Value> Cycler::attribute(Machine& machine, std::string_view name) {
  if (name == "current") return items_[at_];
  const Builtin* method = find_builtin(kCyclerMethods, name);
  if (method == nullptr) return Object::attribute(machine, name);
  return function_value(machine, *method, Value(std::static_pointer_cast<Object>(shared_from_this())));
}

Cycler::Cycler(std::vector<Value> items) : items_(std::move(items)) {
  for (const Value& item : items_) nesting_ = std::max(nesting_, 1 + item.nesting());
}

Value Cycler::next() {
  Value item = items_[at_];
  at_ = (at_ + 1) % items_.size();
  return item;
}

Result<Value> Joiner::call(Machine& machine, const Arguments&) {
  if (std::exchange(used_, true)) return separator_;
  return machine.text("");
}

}  // namespace sluice::jinja
