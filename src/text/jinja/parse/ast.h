// A template as a tree. Expressions and statements are variants, so a visitor that forgets one does not compile. The
// parser limits the depth of a tree (kMaxTemplateHeight), and so the depth of every recursion over it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/value.h"

namespace sluice::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;  // may be null where a comment says so

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr spread;        // f(*spread); null without
  ExpressionPtr spread_named;  // f(**spread_named); null without
};

struct Literal {
  Value value;
};
struct NameOf {
  std::string name;
};
struct AttributeOf {  // of.name
  ExpressionPtr of;
  std::string name;
};
struct ItemOf {  // of[key]
  ExpressionPtr of;
  ExpressionPtr key;
};
struct SliceOf {  // of[start:stop:step], each may be null
  ExpressionPtr of;
  ExpressionPtr start;
  ExpressionPtr stop;
  ExpressionPtr step;
};
struct CallOf {
  ExpressionPtr callee;
  CallArguments arguments;
};
struct FilterOf {  // input | name(arguments); input is null for the text of the filter's block
  ExpressionPtr input;
  std::string name;
  CallArguments arguments;
};
struct TestOf {  // input is name(arguments)
  ExpressionPtr input;
  std::string name;
  CallArguments arguments;
};
enum class UnaryOperator : uint8_t { logical_not, minus, plus };
struct Unary {
  UnaryOperator op;
  ExpressionPtr operand;
};
enum class BinaryOperator : uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };
struct Binary {
  BinaryOperator op;
  ExpressionPtr left;
  ExpressionPtr right;
};
struct Logical {  // and, or: the operand that decides
  bool is_and;
  ExpressionPtr left;
  ExpressionPtr right;
};
enum class Comparison : uint8_t { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };
struct Compare {  // first < second <= third
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
};
struct Concat {  // a ~ b ~ c
  std::vector<ExpressionPtr> parts;
};
struct Conditional {  // yes if condition else no; `no` may be null
  ExpressionPtr condition;
  ExpressionPtr yes;
  ExpressionPtr no;
};
struct ListOf {
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
};
struct DictOf {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> members;
};

struct Expression {
  std::variant<Literal, NameOf, AttributeOf, ItemOf, SliceOf, CallOf, FilterOf, TestOf, Unary, Binary, Logical, Compare,
               Concat, Conditional, ListOf, DictOf>
      node;
  int line = 1;
  int height = 1;  // of the tree below, this node included
};

struct Statement;
using Block = std::vector<Statement>;

// A target of an assignment: a name, an attribute of a namespace (name.attribute), or several targets.
struct Target {
  std::string name;
  std::string attribute;
  std::vector<Target> parts;  // not empty for a tuple
};

struct Data {
  std::string text;
};
struct Output {
  ExpressionPtr value;
};
struct If {
  struct Branch {
    ExpressionPtr condition;  // null for else
    Block body;
  };
  std::vector<Branch> branches;
};
struct For {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr condition;  // for .. in .. if condition; may be null
  Block body;
  Block otherwise;
  bool recursive = false;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {  // {% set x | filter %}text{% endset %}; filter may be null
  Target target;
  ExpressionPtr filter;
  Block body;
};
struct Parameter {
  std::string name;
  ExpressionPtr preset;  // null when it must be given
};
struct Macro {
  std::string name;
  std::vector<Parameter> parameters;
  Block body;
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
};
struct CallBlock {  // {% call(parameters) f(..) %}body{% endcall %}: f gets the body as the macro "caller"
  Macro caller;
  ExpressionPtr call;
};
struct FilterBlock {
  ExpressionPtr filter;
  Block body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> variables;
  Block body;
};
struct LoopControl {
  bool leaves = false;  // break, else continue
};

struct Statement {
  std::variant<Data, Output, If, For, Set, SetBlock, Macro, CallBlock, FilterBlock, With, LoopControl> node;
  int line = 1;
};

}  // namespace sluice::jinja
