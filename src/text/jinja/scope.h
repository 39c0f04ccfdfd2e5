// Variables by name. A scope sees those of the scopes around it and sets only its own: Jinja's rule, by which what a
// loop sets is gone after each turn.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace sluice::jinja {

class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> around) : around_(std::move(around)) {}

  // nullptr when neither this scope nor one around it has the name.
  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->around_.get()) {
      for (const auto& [key, value] : scope->variables_) {
        if (key == name) return &value;
      }
    }
    return nullptr;
  }

  // `name` must outlive the scope: it is in the tree or in the caller's input.
  void set(std::string_view name, Value value) {
    for (auto& [key, old] : variables_) {
      if (key != name) continue;
      old = std::move(value);
      return;
    }
    variables_.emplace_back(name, std::move(value));
  }

  void clear() { variables_.clear(); }

 private:
  std::shared_ptr<Scope> around_;
  std::vector<std::pair<std::string_view, Value>> variables_;
};

}  // namespace sluice::jinja
