// Walks a template's tree: expressions give values, statements print. One Interpreter renders once.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/machine.h"
#include "text/jinja/parse/ast.h"
#include "text/jinja/scope.h"

namespace sluice::jinja {

class Interpreter {
 public:
  // All arguments must outlive the Interpreter. The keys of `context` are texts.
  Interpreter(Machine& machine, const Dict& context);
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  ~Interpreter();

  Result<std::string> run(const Block& block);

  // Calls a macro of this template, in the scope of its definition.
  Result<Value> call_macro(const Macro& macro, const std::shared_ptr<Scope>& around, const Arguments& arguments);
  // The text of loop(items) in a recursive loop.
  Result<Value> repeat_loop(const For& loop, const std::shared_ptr<Scope>& around, const Value& items, int depth);

 private:
  enum class Flow : uint8_t { on, next_turn, leave_loop };
  class Inside;  // while one lives, another scope is current

  Result<Value> evaluate(const Expression& tree);
  Result<Value> evaluate_or(const ExpressionPtr& tree, Value otherwise);
  Result<Value> eval(const Literal& node);
  Result<Value> eval(const NameOf& node);
  Result<Value> eval(const AttributeOf& node);
  Result<Value> eval(const ItemOf& node);
  Result<Value> eval(const SliceOf& node);
  Result<Value> eval(const CallOf& node);
  Result<Value> eval(const FilterOf& node);
  Result<Value> eval(const TestOf& node);
  Result<Value> eval(const Unary& node);
  Result<Value> eval(const Binary& node);
  Result<Value> eval(const Logical& node);
  Result<Value> eval(const Compare& node);
  Result<Value> eval(const Concat& node);
  Result<Value> eval(const Conditional& node);
  Result<Value> eval(const ListOf& node);
  Result<Value> eval(const DictOf& node);
  Result<Arguments> evaluate(const CallArguments& arguments);
  Status spread(const ExpressionPtr& tree, Arguments& out);
  Status spread_named(const ExpressionPtr& tree, Arguments& out);
  Result<Value> call(const Value& callee, const Arguments& arguments);

  Result<Flow> execute(const Block& block);
  Result<Flow> execute_in(const Block& block, std::shared_ptr<Scope> scope);
  // Prints into a separate text, not the output.
  Result<Flow> capture(const Block& block, std::shared_ptr<Scope> scope, Writer& text);
  Result<Flow> exec(const Data& node);
  Result<Flow> exec(const Output& node);
  Result<Flow> exec(const If& node);
  Result<Flow> exec(const For& node);
  Result<Flow> exec(const Set& node);
  Result<Flow> exec(const SetBlock& node);
  Result<Flow> exec(const Macro& node);
  Result<Flow> exec(const CallBlock& node);
  Result<Flow> exec(const FilterBlock& node);
  Result<Flow> exec(const With& node);
  Result<Flow> exec(const LoopControl& node);
  Result<Flow> run_loop(const For& node, const Value& iterable, int depth);
  Result<Value> chosen_items(const For& node, const Value& iterable);
  Result<Value> filtered(const ExpressionPtr& filter, Writer& text);

  Status assign(const Target& target, const Value& value);
  Status bind_parameters(const Macro& macro, const Arguments& arguments);
  Status bind_rest(const Macro& macro, const Arguments& arguments);
  Result<Value> macro_value(const Macro& macro);
  void keep(const std::shared_ptr<Scope>& scope);
  std::shared_ptr<Scope> inner_scope() const { return std::make_shared<Scope>(scope_); }
  Status print(const Value& value);
  Status print(std::string_view text);

  Machine& machine_;
  std::shared_ptr<Scope> scope_;
  // Scopes that macros or loops hold, and that may hold them. They are emptied when the rendering ends, to free cycles.
  std::vector<std::shared_ptr<Scope>> kept_;
  Value block_text_;  // the input of a block's filters
  Writer output_;
  Writer* out_ = &output_;
};

}  // namespace sluice::jinja
