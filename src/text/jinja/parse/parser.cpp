#include "text/jinja/parse/parser.h"

#include <algorithm>
#include <initializer_list>

#include "text/jinja/parse/expression_parser.h"

namespace sluice::jinja {

namespace {

using Names = std::initializer_list<std::string_view>;

class Parser {
 public:
  Parser(std::vector<Token> tokens, std::string_view name) : tokens_(std::move(tokens), name), expressions_(tokens_) {}

  Result<Block> whole() {
    TRY(Block out, block({}));
    return out;
  }

 private:
  // Parses up to a tag whose name is among `ends`, and leaves that tag as the next token. With no `ends`, parses up to
  // the end of the template.
  Result<Block> block(Names ends);
  // The same, and consumes the closing tag. `of` is the tag that opened the block, for the error if it never ends.
  Result<Block> body(std::string_view of, int line, std::string_view end);
  // After the opening tag's %}.
  Result<Block> block_of(std::string_view of, int line, Names ends);
  Status one(Block& out);
  Status tag(Block& out);

  Result<Statement> if_block();
  Result<Statement> for_loop();
  Result<Statement> set();
  Result<Statement> macro();
  Result<Statement> call_block();
  Result<Statement> filter_block();
  Result<Statement> with();
  Result<Statement> generation();
  Result<Statement> loop_control();

  Result<Target> target();
  Result<Target> one_target();
  Status check_name(const std::string& name) const;
  Status parameters(Macro& macro);
  Result<Macro> macro_body(Macro macro, std::string_view of, std::string_view end);

  TokenStream tokens_;
  ExpressionParser expressions_;
  int loops_ = 0;
};

template <class Node>
Statement statement(int line, Node node) {
  return Statement{std::move(node), line};
}

Result<Block> Parser::block(Names ends) {
  const ExpressionParser::Nested nested(expressions_);
  TRY_STATUS(nested.allowed());
  Block out;
  for (;;) {
    if (tokens_.at(TokenKind::end)) return out;
    const auto is_next = [&](std::string_view end) { return tokens_.after_next().is_name(end); };
    if (tokens_.at(TokenKind::block_begin) && std::any_of(ends.begin(), ends.end(), is_next)) {
      tokens_.take();
      return out;
    }
    TRY_STATUS(one(out));
  }
}

Result<Block> Parser::block_of(std::string_view of, int line, Names ends) {
  tokens_.take_symbol(":");
  TRY_STATUS(tokens_.expect(TokenKind::block_end));
  TRY(Block out, block(ends));
  if (tokens_.at(TokenKind::end))
    return tokens_.fail(line, "the block \"", of, "\" is not closed: want {% ", *(ends.end() - 1), " %}");
  return out;
}

Result<Block> Parser::body(std::string_view of, int line, std::string_view end) {
  TRY(Block out, block_of(of, line, {end}));
  tokens_.take();
  return out;
}

Status Parser::one(Block& out) {
  const int line = tokens_.line();
  if (tokens_.at(TokenKind::data)) {
    out.push_back(statement(line, Data{tokens_.take().text}));
    return {};
  }
  if (tokens_.at(TokenKind::output_begin)) {
    tokens_.take();
    TRY(ExpressionPtr value, expressions_.tuple());
    TRY_STATUS(tokens_.expect(TokenKind::output_end));
    out.push_back(statement(line, Output{std::move(value)}));
    return {};
  }
  tokens_.take();
  TRY_STATUS(tag(out));
  return tokens_.expect(TokenKind::block_end);
}

Status Parser::tag(Block& out) {
  using Rule = Result<Statement> (Parser::*)();
  static constexpr std::pair<std::string_view, Rule> kRules[] = {
      {"if", &Parser::if_block},
      {"for", &Parser::for_loop},
      {"set", &Parser::set},
      {"macro", &Parser::macro},
      {"call", &Parser::call_block},
      {"filter", &Parser::filter_block},
      {"with", &Parser::with},
      {"generation", &Parser::generation},
      {"break", &Parser::loop_control},
      {"continue", &Parser::loop_control},
  };
  for (const auto& [name, rule] : kRules) {
    if (!tokens_.at_name(name)) continue;
    TRY(Statement made, (this->*rule)());
    out.push_back(std::move(made));
    return {};
  }
  if (!tokens_.at(TokenKind::name)) return tokens_.unexpected("the name of a tag");
  const Token& name = tokens_.next();
  if (starts_with(name.text, "end") || name.text == "else" || name.text == "elif")
    return tokens_.fail(name.line, "found {% ", name.text, " %}, which closes nothing");
  return tokens_.fail(name.line, "the tag \"", printable(name.text), "\" is not known");
}

Result<Statement> Parser::if_block() {
  const int line = tokens_.line();
  If node;
  while (!tokens_.at_name("endif")) {
    const bool last = tokens_.take().text == "else";  // if, elif or else
    If::Branch branch;
    if (!last) {
      TRY(branch.condition, expressions_.tuple(ExpressionParser::Form::without_conditional));
      TRY(branch.body, block_of("if", line, {"elif", "else", "endif"}));
    } else {
      TRY(branch.body, block_of("if", line, {"endif"}));
    }
    node.branches.push_back(std::move(branch));
  }
  tokens_.take();
  return statement(line, std::move(node));
}

Result<Statement> Parser::for_loop() {
  const int line = tokens_.take().line;
  For node;
  TRY(node.target, target());
  TRY_STATUS(tokens_.expect_name("in"));
  TRY(node.iterable, expressions_.tuple(ExpressionParser::Form::without_conditional));
  if (tokens_.take_name("if")) TRY_ASSIGN(node.condition, expressions_.expression());
  node.recursive = tokens_.take_name("recursive");
  ++loops_;
  TRY(node.body, block_of("for", line, {"else", "endfor"}));
  --loops_;
  if (tokens_.take().text == "else") TRY_ASSIGN(node.otherwise, body("for", line, "endfor"));
  return statement(line, std::move(node));
}

Result<Statement> Parser::loop_control() {
  const Token token = tokens_.take();
  if (loops_ == 0) return tokens_.fail(token.line, "found {% ", token.text, " %} outside of a loop");
  return statement(token.line, LoopControl{token.text == "break"});
}

Status Parser::check_name(const std::string& name) const {
  static constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
  if (std::find(std::begin(kConstants), std::end(kConstants), name) == std::end(kConstants)) return {};
  return tokens_.fail(tokens_.line(), "found an assignment to ", name, ": want a variable");
}

Result<Target> Parser::one_target() {
  Target out;
  if (tokens_.take_symbol("(")) {
    TRY(out, target());
    TRY_STATUS(tokens_.expect_symbol(")"));
    return out;
  }
  TRY(out.name, tokens_.expect_name());
  TRY_STATUS(check_name(out.name));
  return out;
}

Result<Target> Parser::target() {
  const ExpressionParser::Nested nested(expressions_);
  TRY_STATUS(nested.allowed());
  TRY(Target first, one_target());
  if (!tokens_.at_symbol(",")) return first;
  Target out;
  out.parts.push_back(std::move(first));
  while (tokens_.take_symbol(",")) {
    if (!tokens_.at(TokenKind::name) && !tokens_.at_symbol("(")) break;
    if (tokens_.at_name("in")) break;
    TRY(Target next, one_target());
    out.parts.push_back(std::move(next));
  }
  return out;
}

Result<Statement> Parser::set() {
  const int line = tokens_.take().line;
  Target to;
  if (tokens_.after_next().is_symbol(".")) {
    TRY(to.name, tokens_.expect_name());
    tokens_.take();
    TRY(to.attribute, tokens_.expect_name());
  } else {
    TRY(to, target());
  }
  if (tokens_.take_symbol("=")) {
    TRY(ExpressionPtr value, expressions_.tuple());
    return statement(line, Set{std::move(to), std::move(value)});
  }
  SetBlock node;
  node.target = std::move(to);
  TRY(node.filter, expressions_.filters(nullptr));
  TRY(node.body, body("set", line, "endset"));
  return statement(line, std::move(node));
}

Status Parser::parameters(Macro& macro) {
  TRY_STATUS(tokens_.expect_symbol("("));
  while (!tokens_.at_symbol(")")) {
    if (!macro.parameters.empty()) TRY_STATUS(tokens_.expect_symbol(","));
    Parameter parameter;
    TRY(parameter.name, tokens_.expect_name());
    TRY_STATUS(check_name(parameter.name));
    if (tokens_.take_symbol("=")) {
      TRY(parameter.preset, expressions_.expression());
    } else if (!macro.parameters.empty() && macro.parameters.back().preset) {
      return tokens_.fail(tokens_.line(), "the parameter \"", parameter.name,
                          "\" has no default: want one, as those before it");
    }
    macro.parameters.push_back(std::move(parameter));
  }
  return tokens_.expect_symbol(")");
}

Result<Macro> Parser::macro_body(Macro macro, std::string_view of, std::string_view end) {
  const int line = tokens_.line();
  const int loops = std::exchange(loops_, 0);  // a macro's body is no part of the loop around it
  expressions_.macros().emplace_back();
  TRY(macro.body, body(of, line, end));
  const ExpressionParser::MacroNames names = expressions_.macros().back();
  expressions_.macros().pop_back();
  loops_ = loops;
  macro.uses_varargs = names.varargs;
  macro.uses_kwargs = names.kwargs;
  macro.uses_caller = names.caller;
  return macro;
}

Result<Statement> Parser::macro() {
  const int line = tokens_.take().line;
  Macro node;
  TRY(node.name, tokens_.expect_name());
  TRY_STATUS(parameters(node));
  TRY(node, macro_body(std::move(node), "macro", "endmacro"));
  return statement(line, std::move(node));
}

Result<Statement> Parser::call_block() {
  const int line = tokens_.take().line;
  CallBlock node;
  node.caller.name = "caller";
  if (tokens_.at_symbol("(")) TRY_STATUS(parameters(node.caller));
  TRY(node.call, expressions_.expression());
  if (!std::holds_alternative<CallOf>(node.call->node))
    return tokens_.fail(line, "found no call in {% call %}: want a macro with its arguments");
  TRY(node.caller, macro_body(std::move(node.caller), "call", "endcall"));
  return statement(line, std::move(node));
}

Result<Statement> Parser::filter_block() {
  const int line = tokens_.take().line;
  FilterBlock node;
  TRY(node.filter, expressions_.filters_of_block());
  TRY(node.body, body("filter", line, "endfilter"));
  return statement(line, std::move(node));
}

Result<Statement> Parser::with() {
  const int line = tokens_.take().line;
  With node;
  while (!tokens_.at(TokenKind::block_end)) {
    if (!node.variables.empty()) TRY_STATUS(tokens_.expect_symbol(","));
    TRY(Target to, one_target());
    TRY_STATUS(tokens_.expect_symbol("="));
    TRY(ExpressionPtr value, expressions_.expression());
    node.variables.emplace_back(std::move(to), std::move(value));
  }
  TRY(node.body, body("with", line, "endwith"));
  return statement(line, std::move(node));
}

// Prints its body. Variables that are set inside are gone behind it, as in "with".
Result<Statement> Parser::generation() {
  const int line = tokens_.take().line;
  With node;
  TRY(node.body, body("generation", line, "endgeneration"));
  return statement(line, std::move(node));
}

}  // namespace

Result<Block> parse(std::string_view text, std::string_view name) {
  TRY(std::vector<Token> tokens, tokenize(text, name));
  return Parser(std::move(tokens), name).whole();
}

}  // namespace sluice::jinja
