// The variable "loop" inside {% for %}.
#pragma once

#include <memory>
#include <string_view>

#include "text/jinja/interpreter.h"

namespace sluice::jinja {

class Loop final : public Object, public std::enable_shared_from_this<Loop> {
 public:
  // `depth` is 1, and higher inside a recursive loop. The Interpreter must outlive every value.
  Loop(Interpreter& interpreter, const For& node, std::shared_ptr<Scope> around, std::shared_ptr<const List> items,
       int depth)
      : interpreter_(interpreter), node_(node), around_(std::move(around)), items_(std::move(items)), depth_(depth) {}

  std::string_view type_name() const override { return "LoopContext"; }
  bool callable() const override { return true; }
  int nesting() const override { return 1 + items_->nesting; }
  Result<Value> call(Machine& machine, const Arguments& arguments) override;
  Result<Value> attribute(Machine& machine, std::string_view name) override;

  void go_to(size_t index) { index_ = index; }
  size_t index() const { return index_; }
  // Whether the value differs from that of the last call.
  Result<bool> changed(Machine& machine, Value value);

 private:
  Interpreter& interpreter_;
  const For& node_;
  std::shared_ptr<Scope> around_;
  std::shared_ptr<const List> items_;
  int depth_;
  size_t index_ = 0;
  Value last_;
  bool has_last_ = false;
};

}  // namespace sluice::jinja
