// The objects a template makes with its global functions: namespace, cycler, joiner.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/machine.h"

namespace sluice::jinja {

// namespace(name=value): the one thing whose attributes {% set %} can change, also from inside a loop.
class Namespace final : public Object {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  Result<Value> attribute(Machine& machine, std::string_view name) override;
  Status set(Machine& machine, const std::string& name, Value value);
  void clear() { attributes_.clear(); }

 private:
  std::vector<std::pair<std::string, Value>> attributes_;
};

// cycler("odd", "even"): next() gives its items in turn, without end.
class Cycler final : public Object, public std::enable_shared_from_this<Cycler> {
 public:
  explicit Cycler(std::vector<Value> items);
  std::string_view type_name() const override { return "Cycler"; }
  Result<Value> attribute(Machine& machine, std::string_view name) override;
  int nesting() const override { return nesting_; }
  Value next();
  void reset() { at_ = 0; }

 private:
  std::vector<Value> items_;  // not empty
  int nesting_ = 1;
  size_t at_ = 0;
};

// joiner(", "): the first call returns an empty text, every later call the separator.
class Joiner final : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string_view type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Result<Value> call(Machine& machine, const Arguments& arguments) override;

 private:
  Value separator_;  // a text
  bool used_ = false;
};

}  // namespace sluice::jinja
