#include "text/jinja/interpreter.h"

#include <algorithm>

#include "text/jinja/builtins/globals.h"
#include "text/jinja/builtins/print.h"
#include "text/jinja/loop.h"
#include "text/jinja/objects.h"
#include "text/jinja/operators.h"

namespace sluice::jinja {

class Interpreter::Inside {
 public:
  Inside(Interpreter& interpreter, std::shared_ptr<Scope> scope)
      : interpreter_(interpreter), outer_(std::exchange(interpreter.scope_, std::move(scope))) {}
  ~Inside() { interpreter_.scope_ = std::move(outer_); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  Interpreter& interpreter_;
  std::shared_ptr<Scope> outer_;
};

namespace {

class MacroObject final : public Object {
 public:
  MacroObject(Interpreter& interpreter, const Macro& macro, std::shared_ptr<Scope> around)
      : interpreter_(interpreter), macro_(macro), around_(std::move(around)) {}
  std::string_view type_name() const override { return "Macro"; }
  bool callable() const override { return true; }
  Result<Value> call(Machine&, const Arguments& arguments) override {
    return interpreter_.call_macro(macro_, around_, arguments);
  }
  Result<Value> attribute(Machine& machine, std::string_view name) override {
    return name == "name" ? machine.text(macro_.name) : Object::attribute(machine, name);
  }

 private:
  Interpreter& interpreter_;
  const Macro& macro_;
  std::shared_ptr<Scope> around_;
};

}  // namespace

Interpreter::Interpreter(Machine& machine, const Dict& context) : machine_(machine), output_(machine) {
  auto globals = std::make_shared<Scope>(nullptr);
  for (const Builtin& function : global_functions()) globals->preset(function.name, function_value(function));
  for (const auto& [name, value] : context.members) globals->preset(name.as_text().bytes, value);
  scope_ = std::make_shared<Scope>(std::move(globals));
}

Interpreter::~Interpreter() {
  for (const std::shared_ptr<Scope>& scope : kept_) scope->clear();
}

Result<std::string> Interpreter::run(const Block& block) {
  TRY_STATUS(execute(block));
  return output_.take_bytes();
}

Result<Interpreter::Flow> Interpreter::execute(const Block& block) {
  for (const Statement& statement : block) {
    Machine::Visit visit(machine_, statement.line);
    TRY_STATUS(visit.allowed());
    TRY(const Flow flow, std::visit([this](const auto& node) { return exec(node); }, statement.node));
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Result<Interpreter::Flow> Interpreter::execute_in(const Block& block, std::shared_ptr<Scope> scope) {
  const Inside inside(*this, std::move(scope));
  return execute(block);
}

Result<Interpreter::Flow> Interpreter::capture(const Block& block, std::shared_ptr<Scope> scope, Writer& text) {
  Writer* const outer = std::exchange(out_, &text);
  Result<Flow> flow = execute_in(block, std::move(scope));
  out_ = outer;
  return flow;
}

Status Interpreter::print(std::string_view text) {
  if (out_ == &output_ && output_.size() + text.size() > machine_.limits().text_bytes)
    return machine_.fail("the template prints more than ", format_bytes(machine_.limits().text_bytes));
  return out_->add(text);
}

Status Interpreter::print(const Value& value) {
  TRY(const Value text, to_text(machine_, value));
  return print(std::string_view(*text.bytes()));
}

Result<Interpreter::Flow> Interpreter::exec(const Data& node) {
  TRY_STATUS(print(std::string_view(node.text)));
  return Flow::on;
}

Result<Interpreter::Flow> Interpreter::exec(const Output& node) {
  TRY(const Value value, evaluate(*node.value));
  TRY_STATUS(print(value));
  return Flow::on;
}

Result<Interpreter::Flow> Interpreter::exec(const If& node) {
  for (const If::Branch& branch : node.branches) {
    TRY(const Value condition, evaluate_or(branch.condition, true));
    if (condition.truthy()) return execute(branch.body);
  }
  return Flow::on;
}

Result<Interpreter::Flow> Interpreter::exec(const LoopControl& node) {
  return node.leaves ? Flow::leave_loop : Flow::next_turn;
}

Result<Interpreter::Flow> Interpreter::exec(const For& node) {
  TRY(const Value iterable, evaluate(*node.iterable));
  return run_loop(node, iterable, 1);
}

// The items for which the loop's own "if" holds.
Result<Value> Interpreter::chosen_items(const For& node, const Value& iterable) {
  TRY(auto items, items_of(machine_, iterable));
  if (!node.condition) return Value(std::move(items));
  ListMaker chosen(machine_);
  const Inside inside(*this, inner_scope());
  for (const Value& item : items->items) {
    TRY_STATUS(assign(node.target, item));
    TRY(const Value condition, evaluate(*node.condition));
    if (condition.truthy()) TRY_STATUS(chosen.add(item));
  }
  return chosen.take();
}

Result<Interpreter::Flow> Interpreter::run_loop(const For& node, const Value& iterable, int depth) {
  TRY(const Value chosen, chosen_items(node, iterable));
  const std::shared_ptr<const List>& items = chosen.list_pointer();
  TRY(auto loop, machine_.object<Loop>(2 * sizeof(Scope), *this, node, scope_, items, depth));
  Value loop_value{std::static_pointer_cast<Object>(loop)};
  std::shared_ptr<Scope> scope;
  bool any_whole = false;  // jinja2's "else" runs if no turn of the loop got to its end
  for (size_t i = 0; i < items->items.size(); ++i) {
    loop->go_to(i);
    // Each turn has a fresh scope. The old scope is used again unless a macro holds it.
    if (scope && scope.use_count() == 1)
      scope->clear();
    else
      scope = inner_scope();
    TRY_STATUS(scope->set(machine_, "loop", loop_value));
    const Inside inside(*this, scope);
    TRY_STATUS(assign(node.target, items->items[i]));
    TRY(const Flow flow, execute(node.body));
    if (flow == Flow::leave_loop) break;
    any_whole |= flow == Flow::on;
  }
  scope.reset();
  if (loop.use_count() > 2) keep(scope_);  // a variable holds the loop, which holds this scope
  return any_whole ? Flow::on : execute_in(node.otherwise, inner_scope());
}

Result<Value> Interpreter::repeat_loop(const For& loop, const std::shared_ptr<Scope>& around, const Value& items,
                                       int depth) {
  Writer text(machine_);
  Writer* const outer = std::exchange(out_, &text);
  Result<Flow> flow = [&] {
    const Inside inside(*this, around);
    return run_loop(loop, items, depth);
  }();
  out_ = outer;
  TRY_STATUS(flow);
  return text.take();
}

Status Interpreter::assign(const Target& target, const Value& value) {
  if (!target.parts.empty()) {
    TRY(const auto items, items_of(machine_, value));
    if (items->items.size() != target.parts.size()) {
      return machine_.fail("found ", items->items.size(), " values for ", target.parts.size(),
                           " names: want as many as there are names");
    }
    for (size_t i = 0; i < target.parts.size(); ++i) TRY_STATUS(assign(target.parts[i], items->items[i]));
    return {};
  }
  if (target.attribute.empty()) return scope_->set(machine_, target.name, value);
  TRY(const Value* object, scope_->find(machine_, target.name));
  auto* space = object != nullptr && object->is(Kind::object) && object->as_object().type_name() == "Namespace"
                    ? static_cast<Namespace*>(&object->as_object())
                    : nullptr;
  if (space == nullptr) {
    return machine_.fail("found an assignment to \"", target.name, ".", target.attribute, "\", where \"", target.name,
                         "\" is no namespace");
  }
  return space->set(machine_, target.attribute, value);
}

Result<Interpreter::Flow> Interpreter::exec(const Set& node) {
  TRY(const Value value, evaluate(*node.value));
  TRY_STATUS(assign(node.target, value));
  return Flow::on;
}

Result<Value> Interpreter::filtered(const ExpressionPtr& filter, Writer& text) {
  TRY(Value value, text.take());
  block_text_ = value;
  return evaluate_or(filter, std::move(value));
}

Result<Interpreter::Flow> Interpreter::exec(const SetBlock& node) {
  Writer text(machine_);
  TRY(const Flow flow, capture(node.body, inner_scope(), text));
  if (flow != Flow::on) return flow;
  TRY(const Value value, filtered(node.filter, text));
  TRY_STATUS(assign(node.target, value));
  return Flow::on;
}

Result<Interpreter::Flow> Interpreter::exec(const FilterBlock& node) {
  Writer text(machine_);
  TRY(const Flow flow, capture(node.body, inner_scope(), text));
  if (flow != Flow::on) return flow;
  TRY(const Value value, filtered(node.filter, text));
  TRY_STATUS(print(value));
  return Flow::on;
}

// All values are evaluated in the outer scope, even if an earlier assignment sets the same name.
Result<Interpreter::Flow> Interpreter::exec(const With& node) {
  TRY(const Room room, machine_.room(node.variables.size() * sizeof(Value)));
  std::vector<Value> values;
  values.reserve(node.variables.size());
  for (const auto& [target, tree] : node.variables) {
    TRY(Value value, evaluate(*tree));
    values.push_back(std::move(value));
  }
  const Inside inside(*this, inner_scope());
  for (size_t i = 0; i < values.size(); ++i) TRY_STATUS(assign(node.variables[i].first, values[i]));
  return execute(node.body);
}

Result<Value> Interpreter::macro_value(const Macro& macro) {
  TRY(auto made, machine_.object<MacroObject>(2 * sizeof(Scope), *this, macro, scope_));
  keep(scope_);
  return Value(std::static_pointer_cast<Object>(std::move(made)));
}

void Interpreter::keep(const std::shared_ptr<Scope>& scope) {
  if (kept_.empty() || kept_.back() != scope) kept_.push_back(scope);
}

Result<Interpreter::Flow> Interpreter::exec(const Macro& node) {
  TRY(Value macro, macro_value(node));
  TRY_STATUS(scope_->set(machine_, node.name, std::move(macro)));
  return Flow::on;
}

Result<Interpreter::Flow> Interpreter::exec(const CallBlock& node) {
  const auto& call_node = *std::get_if<CallOf>(&node.call->node);
  TRY(const Value callee, evaluate(*call_node.callee));
  TRY(Arguments arguments, evaluate(call_node.arguments));
  TRY(Value caller, macro_value(node.caller));
  arguments.named.emplace_back("caller", std::move(caller));
  TRY(const Value text, call(callee, arguments));
  TRY_STATUS(print(text));
  return Flow::on;
}

namespace {

bool has_parameter(const Macro& macro, std::string_view name) {
  return std::any_of(macro.parameters.begin(), macro.parameters.end(),
                     [&](const Parameter& parameter) { return parameter.name == name; });
}

}  // namespace

// Arguments beyond the parameters: varargs, kwargs and caller, for macros that use those names.
Status Interpreter::bind_rest(const Macro& macro, const Arguments& arguments) {
  const size_t count = macro.parameters.size();
  ListMaker varargs(machine_);
  for (size_t i = count; i < arguments.positional.size(); ++i) TRY_STATUS(varargs.add(arguments.positional[i]));
  if (varargs.size() > 0 && !macro.uses_varargs) {
    return machine_.fail("the macro \"", macro.name, "\" got ", arguments.positional.size(),
                         " arguments: want at most ", count);
  }
  DictMaker kwargs(machine_);
  TRY(Value caller, machine_.undefined("'caller' is undefined"));
  for (const auto& [name, value] : arguments.named) {
    TRY_STATUS(machine_.step(macro.parameters.size() / 8));
    if (has_parameter(macro, name)) continue;
    if (name == "caller" && macro.uses_caller) {
      caller = value;
    } else if (macro.uses_kwargs) {
      TRY(Value key, machine_.text(name));
      TRY_STATUS(kwargs.add(std::move(key), value));
    } else {
      return machine_.fail("the macro \"", macro.name, "\" has no parameter \"", printable(name), "\"");
    }
  }
  if (macro.uses_caller) TRY_STATUS(scope_->set(machine_, "caller", std::move(caller)));
  if (macro.uses_varargs) {
    TRY(Value list, varargs.take(Flavour::tuple));
    TRY_STATUS(scope_->set(machine_, "varargs", std::move(list)));
  }
  if (macro.uses_kwargs) {
    TRY(Value dict, kwargs.take());
    TRY_STATUS(scope_->set(machine_, "kwargs", std::move(dict)));
  }
  return {};
}

Status Interpreter::bind_parameters(const Macro& macro, const Arguments& arguments) {
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    const bool positional = i < arguments.positional.size();
    TRY_STATUS(machine_.step(arguments.named.size() / 8));
    const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& argument) { return argument.first == parameter.name; });
    if (positional && named != arguments.named.end())
      return machine_.fail("the macro \"", macro.name, "\" got two values for \"", parameter.name, "\"");
    Value value;
    if (positional)
      value = arguments.positional[i];
    else if (named != arguments.named.end())
      value = named->second;
    else if (parameter.preset)
      TRY_ASSIGN(value, evaluate(*parameter.preset));
    else
      TRY_ASSIGN(value, machine_.undefined("parameter '", parameter.name, "' was not given"));
    TRY_STATUS(scope_->set(machine_, parameter.name, std::move(value)));
  }
  return bind_rest(macro, arguments);
}

Result<Value> Interpreter::call_macro(const Macro& macro, const std::shared_ptr<Scope>& around,
                                      const Arguments& arguments) {
  const Inside inside(*this, std::make_shared<Scope>(around));
  TRY_STATUS(bind_parameters(macro, arguments));
  Writer text(machine_);
  TRY_STATUS(capture(macro.body, scope_, text));
  return text.take();
}

}  // namespace sluice::jinja
