// The expressions of the grammar, from "a if b else c" down to literals, filters and tests.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/parse/ast.h"
#include "text/jinja/parse/token_stream.h"

namespace sluice::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  // With the conditional form "a if b else c", or without it when "if" means something else.
  enum class Form : uint8_t { with_conditional, without_conditional };
  Result<ExpressionPtr> expression(Form form = Form::with_conditional);
  // One expression, or several with commas: a tuple.
  Result<ExpressionPtr> tuple(Form form = Form::with_conditional);
  // "| name(..) | name(..)" upon `input`, which may be null (ast.h, FilterOf).
  Result<ExpressionPtr> filters(ExpressionPtr input);
  // "name(..) | name(..)", without the first bar.
  Result<ExpressionPtr> filters_of_block();

  // The names "varargs", "kwargs" and "caller" mean something in the macros around them.
  struct MacroNames {
    bool varargs = false;
    bool kwargs = false;
    bool caller = false;
  };
  std::vector<MacroNames>& macros() { return macros_; }

  // Goes one level deeper while it lives; false when that is too deep.
  class Nested {
   public:
    explicit Nested(ExpressionParser& parser) : parser_(parser) { ++parser_.depth_; }
    ~Nested() { --parser_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    Status allowed() const;

   private:
    ExpressionParser& parser_;
  };

 private:
  // From the loosest binding to the tightest.
  enum Level : uint8_t { kOr, kAnd, kNot, kCompare, kSum, kConcat, kProduct, kPower, kUnary };
  Result<ExpressionPtr> operand(int level);
  Result<ExpressionPtr> conditional();
  Result<ExpressionPtr> binary(int level);
  Result<ExpressionPtr> negation();
  Result<ExpressionPtr> comparison();
  Result<ExpressionPtr> concat();
  Result<ExpressionPtr> unary(bool with_filters);
  Result<ExpressionPtr> primary();
  Result<ExpressionPtr> constant();
  Result<ExpressionPtr> name_or_constant();
  Result<ExpressionPtr> parentheses();
  Result<ExpressionPtr> list();
  Result<ExpressionPtr> dict();
  Result<ExpressionPtr> postfix(ExpressionPtr of);
  Result<ExpressionPtr> attribute(ExpressionPtr of);
  Result<ExpressionPtr> subscript(ExpressionPtr of);
  Result<ExpressionPtr> slice(ExpressionPtr of, ExpressionPtr start, int line);
  Result<ExpressionPtr> slice_part();
  Result<ExpressionPtr> filters_and_tests(ExpressionPtr input);
  Result<ExpressionPtr> one_filter(ExpressionPtr input);
  Result<ExpressionPtr> test(ExpressionPtr input);
  Result<ExpressionPtr> call(ExpressionPtr callee);
  Result<CallArguments> arguments();
  Status argument(CallArguments& out);
  std::optional<Comparison> take_comparison();
  bool at_test_operand() const;
  bool at_tuple_end() const;
  // A node above children of the given height.
  template <class Node>
  Result<ExpressionPtr> make(int line, Node node, int below);

  TokenStream& tokens_;
  std::vector<MacroNames> macros_;
  int depth_ = 0;
};

}  // namespace sluice::jinja
