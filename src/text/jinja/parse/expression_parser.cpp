#include "text/jinja/parse/expression_parser.h"

#include <algorithm>
#include <initializer_list>

#include "base/limits.h"

namespace sluice::jinja {

namespace {

int height(const ExpressionPtr& tree) { return tree ? tree->height : 0; }

int tallest(std::initializer_list<int> heights) { return std::max(heights); }

int tallest(const std::vector<ExpressionPtr>& trees) {
  int most = 0;
  for (const ExpressionPtr& tree : trees) most = std::max(most, height(tree));
  return most;
}

int tallest(const CallArguments& arguments) {
  int most = tallest({tallest(arguments.positional), height(arguments.spread), height(arguments.spread_named)});
  for (const auto& [name, value] : arguments.named) most = std::max(most, height(value));
  return most;
}

}  // namespace

Status ExpressionParser::Nested::allowed() const {
  if (parser_.depth_ <= kMaxTemplateHeight) return {};
  return parser_.tokens_.fail(parser_.tokens_.line(), "the template is nested deeper than ", kMaxTemplateHeight);
}

template <class Node>
Result<ExpressionPtr> ExpressionParser::make(int line, Node node, int below) {
  if (below >= kMaxTemplateHeight)
    return tokens_.fail(line, "the expression has more than ", kMaxTemplateHeight, " parts in a chain");
  auto tree = std::make_unique<Expression>();
  tree->node = std::move(node);
  tree->line = line;
  tree->height = below + 1;
  return tree;
}

Result<ExpressionPtr> ExpressionParser::expression(Form form) {
  const Nested nested(*this);
  TRY_STATUS(nested.allowed());
  return form == Form::with_conditional ? conditional() : operand(kOr);
}

bool ExpressionParser::at_tuple_end() const {
  return tokens_.at(TokenKind::block_end) || tokens_.at(TokenKind::output_end) || tokens_.at_symbol(")");
}

Result<ExpressionPtr> ExpressionParser::tuple(Form form) {
  const int line = tokens_.line();
  TRY(ExpressionPtr first, expression(form));
  if (!tokens_.at_symbol(",")) return first;
  ListOf items;
  items.is_tuple = true;
  items.items.push_back(std::move(first));
  while (tokens_.take_symbol(",") && !at_tuple_end()) {
    TRY(ExpressionPtr item, expression(form));
    items.items.push_back(std::move(item));
  }
  const int below = tallest(items.items);
  return make(line, std::move(items), below);
}

// a if b else c; "else" may be missing, and then the value is undefined where b does not hold.
Result<ExpressionPtr> ExpressionParser::conditional() {
  TRY(ExpressionPtr tree, operand(kOr));
  while (tokens_.at_name("if")) {
    const int line = tokens_.take().line;
    Conditional node;
    node.yes = std::move(tree);
    TRY(node.condition, operand(kOr));
    if (tokens_.take_name("else")) TRY_ASSIGN(node.no, expression());
    const int below = tallest({height(node.yes), height(node.condition), height(node.no)});
    TRY(tree, make(line, std::move(node), below));
  }
  return tree;
}

Result<ExpressionPtr> ExpressionParser::operand(int level) {
  switch (level) {
    case kNot: return negation();
    case kCompare: return comparison();
    case kConcat: return concat();
    case kUnary: return unary(true);
    default: return binary(level);
  }
}

namespace {

struct BinarySymbol {
  std::string_view symbol;
  BinaryOperator op;
  int level;
};

}  // namespace

// Operators that bind to the left: or, and, + -, * / // %, and ** too, as jinja2 has it.
Result<ExpressionPtr> ExpressionParser::binary(int level) {
  static constexpr BinarySymbol kSymbols[] = {
      {"+", BinaryOperator::add, kSum},
      {"-", BinaryOperator::subtract, kSum},
      {"*", BinaryOperator::multiply, kProduct},
      {"/", BinaryOperator::divide, kProduct},
      {"//", BinaryOperator::floor_divide, kProduct},
      {"%", BinaryOperator::modulo, kProduct},
      {"**", BinaryOperator::power, kPower},
  };
  TRY(ExpressionPtr tree, operand(level + 1));
  for (;;) {
    const int line = tokens_.line();
    const bool logical = level == kOr || level == kAnd;
    const auto* found = std::find_if(std::begin(kSymbols), std::end(kSymbols), [&](const BinarySymbol& entry) {
      return entry.level == level && tokens_.at_symbol(entry.symbol);
    });
    if (logical ? !tokens_.at_name(level == kOr ? "or" : "and") : found == std::end(kSymbols)) return tree;
    tokens_.take();
    TRY(ExpressionPtr right, operand(level + 1));
    const int below = tallest({height(tree), height(right)});
    if (logical)
      TRY_ASSIGN(tree, make(line, Logical{level == kAnd, std::move(tree), std::move(right)}, below));
    else
      TRY_ASSIGN(tree, make(line, Binary{found->op, std::move(tree), std::move(right)}, below));
  }
}

Result<ExpressionPtr> ExpressionParser::negation() {
  if (!tokens_.at_name("not")) return operand(kCompare);
  const Nested nested(*this);
  TRY_STATUS(nested.allowed());
  const int line = tokens_.take().line;
  TRY(ExpressionPtr inner, negation());
  const int below = height(inner);
  return make(line, Unary{UnaryOperator::logical_not, std::move(inner)}, below);
}

std::optional<Comparison> ExpressionParser::take_comparison() {
  static constexpr std::pair<std::string_view, Comparison> kSymbols[] = {
      {"==", Comparison::equal},      {"!=", Comparison::not_equal}, {"<", Comparison::less},
      {"<=", Comparison::less_equal}, {">", Comparison::greater},    {">=", Comparison::greater_equal},
  };
  for (const auto& [symbol, op] : kSymbols)
    if (tokens_.take_symbol(symbol)) return op;
  if (tokens_.take_name("in")) return Comparison::in;
  if (!tokens_.at_name("not") || !tokens_.after_next().is_name("in")) return std::nullopt;
  tokens_.take();
  tokens_.take();
  return Comparison::not_in;
}

Result<ExpressionPtr> ExpressionParser::comparison() {
  const int line = tokens_.line();
  TRY(ExpressionPtr first, operand(kSum));
  Compare node;
  int below = height(first);
  while (const auto op = take_comparison()) {
    TRY(ExpressionPtr right, operand(kSum));
    below = std::max(below, height(right));
    node.rest.emplace_back(*op, std::move(right));
  }
  if (node.rest.empty()) return first;
  node.first = std::move(first);
  return make(line, std::move(node), below);
}

Result<ExpressionPtr> ExpressionParser::concat() {
  const int line = tokens_.line();
  TRY(ExpressionPtr first, operand(kProduct));
  if (!tokens_.at_symbol("~")) return first;
  Concat node;
  node.parts.push_back(std::move(first));
  while (tokens_.take_symbol("~")) {
    TRY(ExpressionPtr part, operand(kProduct));
    node.parts.push_back(std::move(part));
  }
  const int below = tallest(node.parts);
  return make(line, std::move(node), below);
}

// A sign binds tighter than a filter: -1 | abs is (-1) | abs.
Result<ExpressionPtr> ExpressionParser::unary(bool with_filters) {
  const int line = tokens_.line();
  ExpressionPtr tree;
  if (tokens_.at_symbol("-") || tokens_.at_symbol("+")) {
    const Nested nested(*this);
    TRY_STATUS(nested.allowed());
    const UnaryOperator op = tokens_.take().text == "-" ? UnaryOperator::minus : UnaryOperator::plus;
    TRY(ExpressionPtr inner, unary(false));
    const int below = height(inner);
    TRY(tree, make(line, Unary{op, std::move(inner)}, below));
  } else {
    TRY(tree, primary());
  }
  TRY(tree, postfix(std::move(tree)));
  if (!with_filters) return tree;
  return filters_and_tests(std::move(tree));
}

Result<ExpressionPtr> ExpressionParser::primary() {
  if (tokens_.at(TokenKind::name)) return name_or_constant();
  if (tokens_.at_symbol("(")) return parentheses();
  if (tokens_.at_symbol("[")) return list();
  if (tokens_.at_symbol("{")) return dict();
  return constant();
}

Result<ExpressionPtr> ExpressionParser::constant() {
  const int line = tokens_.line();
  if (tokens_.at(TokenKind::integer)) return make(line, Literal{Value(tokens_.take().integer)}, 0);
  if (tokens_.at(TokenKind::number)) return make(line, Literal{Value(tokens_.take().number)}, 0);
  if (!tokens_.at(TokenKind::string)) return tokens_.unexpected("an expression");
  std::string text = tokens_.take().text;  // strings that stand side by side are one
  while (tokens_.at(TokenKind::string)) text += tokens_.take().text;
  return make(line, Literal{Value(std::move(text))}, 0);
}

Result<ExpressionPtr> ExpressionParser::name_or_constant() {
  const Token token = tokens_.take();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return make(token.line, Literal{Value(true)}, 0);
  if (name == "false" || name == "False") return make(token.line, Literal{Value(false)}, 0);
  if (name == "none" || name == "None") return make(token.line, Literal{Value(None{})}, 0);
  for (MacroNames& macro : macros_) {
    macro.varargs |= name == "varargs";
    macro.kwargs |= name == "kwargs";
    macro.caller |= name == "caller";
  }
  return make(token.line, NameOf{name}, 0);
}

Result<ExpressionPtr> ExpressionParser::parentheses() {
  const int line = tokens_.take().line;
  if (tokens_.take_symbol(")")) return make(line, ListOf{.items = {}, .is_tuple = true}, 0);
  TRY(ExpressionPtr tree, tuple());
  TRY_STATUS(tokens_.expect_symbol(")"));
  return tree;
}

Result<ExpressionPtr> ExpressionParser::list() {
  const int line = tokens_.take().line;
  ListOf node;
  while (!tokens_.at_symbol("]")) {
    if (!node.items.empty()) TRY_STATUS(tokens_.expect_symbol(","));
    if (tokens_.at_symbol("]")) break;
    TRY(ExpressionPtr item, expression());
    node.items.push_back(std::move(item));
  }
  TRY_STATUS(tokens_.expect_symbol("]"));
  const int below = tallest(node.items);
  return make(line, std::move(node), below);
}

Result<ExpressionPtr> ExpressionParser::dict() {
  const int line = tokens_.take().line;
  DictOf node;
  int below = 0;
  while (!tokens_.at_symbol("}")) {
    if (!node.members.empty()) TRY_STATUS(tokens_.expect_symbol(","));
    if (tokens_.at_symbol("}")) break;
    TRY(ExpressionPtr key, expression());
    TRY_STATUS(tokens_.expect_symbol(":"));
    TRY(ExpressionPtr value, expression());
    below = tallest({below, height(key), height(value)});
    node.members.emplace_back(std::move(key), std::move(value));
  }
  TRY_STATUS(tokens_.expect_symbol("}"));
  return make(line, std::move(node), below);
}

Result<ExpressionPtr> ExpressionParser::postfix(ExpressionPtr of) {
  for (;;)
    if (tokens_.at_symbol("."))
      TRY_ASSIGN(of, attribute(std::move(of)));
    else if (tokens_.at_symbol("["))
      TRY_ASSIGN(of, subscript(std::move(of)));
    else if (tokens_.at_symbol("("))
      TRY_ASSIGN(of, call(std::move(of)));
    else
      return of;
}

Result<ExpressionPtr> ExpressionParser::attribute(ExpressionPtr of) {
  const int line = tokens_.take().line;
  const int below = height(of);
  if (tokens_.at(TokenKind::name)) return make(line, AttributeOf{std::move(of), tokens_.take().text}, below);
  if (!tokens_.at(TokenKind::integer)) return tokens_.unexpected("a name or a number after \".\"");
  TRY(ExpressionPtr key, constant());
  return make(line, ItemOf{std::move(of), std::move(key)}, below);
}

// of[key] or of[start:stop:step]
Result<ExpressionPtr> ExpressionParser::subscript(ExpressionPtr of) {
  const int line = tokens_.take().line;
  ExpressionPtr key;
  if (!tokens_.at_symbol(":")) TRY_ASSIGN(key, tuple());
  if (tokens_.at_symbol(":")) return slice(std::move(of), std::move(key), line);
  TRY_STATUS(tokens_.expect_symbol("]"));
  const int below = tallest({height(of), height(key)});
  return make(line, ItemOf{std::move(of), std::move(key)}, below);
}

Result<ExpressionPtr> ExpressionParser::slice_part() {
  if (!tokens_.take_symbol(":") || tokens_.at_symbol(":") || tokens_.at_symbol("]")) return ExpressionPtr();
  return expression();
}

Result<ExpressionPtr> ExpressionParser::slice(ExpressionPtr of, ExpressionPtr start, int line) {
  SliceOf node{std::move(of), std::move(start), nullptr, nullptr};
  TRY(node.stop, slice_part());
  TRY(node.step, slice_part());
  TRY_STATUS(tokens_.expect_symbol("]"));
  const int below = tallest({height(node.of), height(node.start), height(node.stop), height(node.step)});
  return make(line, std::move(node), below);
}

Result<ExpressionPtr> ExpressionParser::filters_and_tests(ExpressionPtr input) {
  for (;;)
    if (tokens_.take_symbol("|"))
      TRY_ASSIGN(input, one_filter(std::move(input)));
    else if (tokens_.take_name("is"))
      TRY_ASSIGN(input, test(std::move(input)));
    else if (tokens_.at_symbol("("))
      TRY_ASSIGN(input, call(std::move(input)));
    else
      return input;
}

Result<ExpressionPtr> ExpressionParser::filters(ExpressionPtr input) {
  while (tokens_.take_symbol("|")) TRY_ASSIGN(input, one_filter(std::move(input)));
  return input;
}

Result<ExpressionPtr> ExpressionParser::filters_of_block() {
  TRY(ExpressionPtr first, one_filter(nullptr));
  return filters(std::move(first));
}

Result<ExpressionPtr> ExpressionParser::one_filter(ExpressionPtr input) {
  const int line = tokens_.line();
  FilterOf node;
  node.input = std::move(input);
  TRY(node.name, tokens_.expect_name());
  if (tokens_.at_symbol("(")) TRY_ASSIGN(node.arguments, arguments());
  const int below = tallest({height(node.input), tallest(node.arguments)});
  return make(line, std::move(node), below);
}

// "is divisibleby 3" has its argument without parentheses.
bool ExpressionParser::at_test_operand() const {
  if (tokens_.at_symbol("[") || tokens_.at_symbol("{")) return true;
  if (tokens_.at(TokenKind::string) || tokens_.at(TokenKind::integer) || tokens_.at(TokenKind::number)) return true;
  return tokens_.at(TokenKind::name) && !tokens_.at_name("else") && !tokens_.at_name("or") && !tokens_.at_name("and");
}

Result<ExpressionPtr> ExpressionParser::test(ExpressionPtr input) {
  const int line = tokens_.line();
  const bool negated = tokens_.take_name("not");
  TestOf node;
  node.input = std::move(input);
  TRY(node.name, tokens_.expect_name());
  if (tokens_.at_name("is")) return tokens_.fail(line, "found \"is\" after a test: want one test only");
  if (tokens_.at_symbol("(")) {
    TRY(node.arguments, arguments());
  } else if (at_test_operand()) {
    TRY(ExpressionPtr operand, primary());
    TRY(operand, postfix(std::move(operand)));
    node.arguments.positional.push_back(std::move(operand));
  }
  const int below = tallest({height(node.input), tallest(node.arguments)});
  TRY(ExpressionPtr tree, make(line, std::move(node), below));
  if (!negated) return tree;
  return make(line, Unary{UnaryOperator::logical_not, std::move(tree)}, below + 1);
}

Result<ExpressionPtr> ExpressionParser::call(ExpressionPtr callee) {
  const int line = tokens_.line();
  CallOf node;
  node.callee = std::move(callee);
  TRY(node.arguments, arguments());
  const int below = tallest({height(node.callee), tallest(node.arguments)});
  return make(line, std::move(node), below);
}

Result<CallArguments> ExpressionParser::arguments() {
  const Nested nested(*this);
  TRY_STATUS(nested.allowed());
  TRY_STATUS(tokens_.expect_symbol("("));
  CallArguments out;
  while (!tokens_.at_symbol(")")) {
    TRY_STATUS(argument(out));
    if (!tokens_.at_symbol(")")) TRY_STATUS(tokens_.expect_symbol(","));
  }
  TRY_STATUS(tokens_.expect_symbol(")"));
  return out;
}

Status ExpressionParser::argument(CallArguments& out) {
  const int line = tokens_.line();
  if (out.spread_named || (out.spread && tokens_.at_symbol("*")))
    return tokens_.fail(line, "found an argument after *list or **dict: want none");
  if (tokens_.take_symbol("*")) {
    TRY(out.spread, expression());
  } else if (tokens_.take_symbol("**")) {
    TRY(out.spread_named, expression());
  } else if (tokens_.at(TokenKind::name) && tokens_.after_next().is_symbol("=")) {
    std::string name = tokens_.take().text;
    tokens_.take();
    TRY(ExpressionPtr value, expression());
    out.named.emplace_back(std::move(name), std::move(value));
  } else {
    if (!out.named.empty() || out.spread)
      return tokens_.fail(line, "found a positional argument after a named one: want them first");
    TRY(ExpressionPtr value, expression());
    out.positional.push_back(std::move(value));
  }
  return {};
}

}  // namespace sluice::jinja
