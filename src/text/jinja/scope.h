// Variables by name. A scope sees the variables of the scopes around it and sets only its own. That is Jinja's rule: a
// variable set inside a loop is gone after each turn. A template can have many names, so a look-up costs steps.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/machine.h"

namespace sluice::jinja {

class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> around) : around_(std::move(around)) {}

  // nullptr if no scope has the name, this one or one around it.
  Result<const Value*> find(Machine& machine, std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->around_.get()) {
      TRY_STATUS(machine.step(scope->variables_.size() / kNamesPerStep));
      for (const auto& [key, value] : scope->variables_)
        if (key == name) return &value;
    }
    return nullptr;
  }

  // `name` must outlive the scope: it is in the tree or in the caller's input.
  Status set(Machine& machine, std::string_view name, Value value) {
    TRY_STATUS(machine.step(variables_.size() / kNamesPerStep));
    for (auto& [key, old] : variables_) {
      if (key != name) continue;
      old = std::move(value);
      return {};
    }
    TRY_STATUS(machine.grow(room_, 2 * sizeof(variables_[0])));  // twice, as vectors grow
    variables_.emplace_back(name, std::move(value));
    return {};
  }

  // Sets a variable before the rendering begins, in a scope of its own, without charge. It replaces an earlier one.
  void preset(std::string_view name, Value value) {
    for (auto& [key, old] : variables_) {
      if (key != name) continue;
      old = std::move(value);
      return;
    }
    variables_.emplace_back(name, std::move(value));
  }

  void clear() {
    variables_.clear();
    room_.release();
  }

 private:
  static constexpr size_t kNamesPerStep = 16;
  std::shared_ptr<Scope> around_;
  Room room_;
  std::vector<std::pair<std::string_view, Value>> variables_;
};

}  // namespace sluice::jinja
