// The interpreter's expressions.
#include "text/jinja/builtins/filters.h"
#include "text/jinja/builtins/is_tests.h"
#include "text/jinja/builtins/print.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"

namespace sluice::jinja {

Result<Value> Interpreter::evaluate(const Expression& tree) {
  Machine::Visit visit(machine_, tree.line);
  TRY_STATUS(visit.allowed());
  return std::visit([this](const auto& node) { return eval(node); }, tree.node);
}

Result<Value> Interpreter::evaluate_or(const ExpressionPtr& tree, Value otherwise) {
  return tree ? evaluate(*tree) : Result<Value>(std::move(otherwise));
}

Result<Value> Interpreter::eval(const Literal& node) { return node.value; }

Result<Value> Interpreter::eval(const NameOf& node) {
  TRY(const Value* value, scope_->find(machine_, node.name));
  if (value != nullptr) return *value;
  return machine_.undefined("'", printable(node.name), "' is undefined");
}

Result<Value> Interpreter::eval(const AttributeOf& node) {
  TRY(const Value of, evaluate(*node.of));
  return get_attribute(machine_, of, node.name);
}

Result<Value> Interpreter::eval(const ItemOf& node) {
  TRY(const Value of, evaluate(*node.of));
  TRY(const Value key, evaluate(*node.key));
  return get_item(machine_, of, key);
}

Result<Value> Interpreter::eval(const SliceOf& node) {
  TRY(const Value of, evaluate(*node.of));
  TRY(const Value start, evaluate_or(node.start, None{}));
  TRY(const Value stop, evaluate_or(node.stop, None{}));
  TRY(const Value step, evaluate_or(node.step, None{}));
  return get_slice(machine_, of, start, stop, step);
}

Status Interpreter::spread(const ExpressionPtr& tree, Arguments& out) {
  TRY(const Value values, evaluate(*tree));
  TRY(const auto items, items_of(machine_, values));
  TRY_STATUS(machine_.step(items->items.size()));
  TRY_STATUS(machine_.grow(out.room, 2 * items->items.size() * sizeof(Value)));
  out.positional.insert(out.positional.end(), items->items.begin(), items->items.end());
  return {};
}

Status Interpreter::spread_named(const ExpressionPtr& tree, Arguments& out) {
  TRY(const Value values, evaluate(*tree));
  if (!values.is(Kind::dict)) return machine_.fail("found ** before a ", values.type_name(), ": want a dict");
  for (const auto& [key, value] : values.as_dict().members) {
    if (!key.is(Kind::text)) return machine_.fail("found a ", key.type_name(), " as an argument's name: want a string");
    TRY_STATUS(machine_.look(key));
    TRY_STATUS(machine_.grow(out.room, 2 * sizeof(out.named[0]) + key.as_text().bytes.size()));
    out.named.emplace_back(key.as_text().bytes, value);
  }
  return {};
}

Result<Arguments> Interpreter::evaluate(const CallArguments& arguments) {
  Arguments out;
  const size_t size = arguments.positional.size() * sizeof(Value) + arguments.named.size() * sizeof(out.named[0]);
  TRY_STATUS(machine_.grow(out.room, size));
  out.positional.reserve(arguments.positional.size());
  out.named.reserve(arguments.named.size());
  for (const ExpressionPtr& tree : arguments.positional) {
    TRY(Value value, evaluate(*tree));
    out.positional.push_back(std::move(value));
  }
  for (const auto& [name, tree] : arguments.named) {
    TRY(Value value, evaluate(*tree));
    out.named.emplace_back(name, std::move(value));
  }
  if (arguments.spread) TRY_STATUS(spread(arguments.spread, out));
  if (arguments.spread_named) TRY_STATUS(spread_named(arguments.spread_named, out));
  return out;
}

Result<Value> Interpreter::call(const Value& callee, const Arguments& arguments) {
  if (callee.is(Kind::object)) return callee.as_object().call(machine_, arguments);
  if (callee.is(Kind::undefined)) return machine_.fail(callee.reason(), ", so it cannot be called");
  return machine_.fail("a ", callee.type_name(), " is called: want a function or a macro");
}

Result<Value> Interpreter::eval(const CallOf& node) {
  TRY(const Value callee, evaluate(*node.callee));
  TRY(const Arguments arguments, evaluate(node.arguments));
  return call(callee, arguments);
}

Result<Value> Interpreter::eval(const FilterOf& node) {
  TRY(const Value input, evaluate_or(node.input, block_text_));
  TRY(const Arguments arguments, evaluate(node.arguments));
  return apply_filter(machine_, node.name, input, arguments);
}

Result<Value> Interpreter::eval(const TestOf& node) {
  TRY(const Value input, evaluate(*node.input));
  TRY(const Arguments arguments, evaluate(node.arguments));
  TRY(const bool holds, apply_test(machine_, node.name, input, arguments));
  return Value(holds);
}

Result<Value> Interpreter::eval(const Unary& node) {
  TRY(const Value operand, evaluate(*node.operand));
  if (node.op == UnaryOperator::logical_not) return Value(!operand.truthy());
  if (node.op == UnaryOperator::minus || !operand.is_number()) return negate(machine_, operand);
  return operand.is(Kind::boolean) ? Value(operand.as_integer()) : operand;
}

Result<Value> Interpreter::eval(const Binary& node) {
  TRY(const Value left, evaluate(*node.left));
  TRY(const Value right, evaluate(*node.right));
  return calculate(machine_, node.op, left, right);
}

Result<Value> Interpreter::eval(const Logical& node) {
  TRY(Value left, evaluate(*node.left));
  if (left.truthy() != node.is_and) return left;
  return evaluate(*node.right);
}

Result<Value> Interpreter::eval(const Compare& node) {
  TRY(Value left, evaluate(*node.first));
  for (const auto& [op, tree] : node.rest) {
    TRY(Value right, evaluate(*tree));
    TRY(const bool holds, compare(machine_, op, left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Interpreter::eval(const Concat& node) {
  Writer out(machine_);
  for (const ExpressionPtr& part : node.parts) {
    TRY(const Value value, evaluate(*part));
    TRY(const Value text, to_text(machine_, value));
    TRY_STATUS(out.add(*text.bytes()));
  }
  return out.take();
}

Result<Value> Interpreter::eval(const Conditional& node) {
  TRY(const Value condition, evaluate(*node.condition));
  if (condition.truthy()) return evaluate(*node.yes);
  if (node.no) return evaluate(*node.no);
  return machine_.undefined("the condition does not hold and there is no else");
}

Result<Value> Interpreter::eval(const ListOf& node) {
  ListMaker items(machine_);
  TRY_STATUS(items.reserve(node.items.size()));
  for (const ExpressionPtr& tree : node.items) {
    TRY(Value item, evaluate(*tree));
    TRY_STATUS(items.add(std::move(item)));
  }
  return items.take(node.is_tuple ? Flavour::tuple : Flavour::list);
}

Result<Value> Interpreter::eval(const DictOf& node) {
  DictMaker maker(machine_);
  for (const auto& [key_tree, value_tree] : node.members) {
    TRY(Value key, evaluate(*key_tree));
    TRY(Value value, evaluate(*value_tree));
    TRY_STATUS(maker.add(std::move(key), std::move(value)));
  }
  return maker.take();
}

}  // namespace sluice::jinja
