// The parser's view of the tokens: the next token, and errors about an unexpected token.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/parse/lexer.h"

namespace sluice::jinja {

class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, std::string_view name) : tokens_(std::move(tokens)), name_(name) {}

  const Token& next() const { return tokens_[at_]; }
  const Token& after_next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  bool at_name(std::string_view name) const { return next().is_name(name); }
  bool at_symbol(std::string_view symbol) const { return next().is_symbol(symbol); }
  bool at(TokenKind kind) const { return next().kind == kind; }
  int line() const { return next().line; }

  Token take() {
    Token token = std::move(tokens_[at_]);
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool take_name(std::string_view name) { return at_name(name) && (++at_, true); }
  bool take_symbol(std::string_view symbol) { return at_symbol(symbol) && (++at_, true); }

  Status expect_symbol(std::string_view symbol);
  Status expect_name(std::string_view name);
  Status expect(TokenKind kind);
  // Any name.
  Result<std::string> expect_name();

  // "chat.jinja:3: found "%}": want X"
  Error unexpected(std::string_view wanted) const;
  template <class... Parts>
  Error fail(int line, const Parts&... parts) const {
    return error(ErrorKind::invalid, name_, ":", line, ": ", parts...);
  }

 private:
  std::vector<Token> tokens_;  // the last one is `end` and stays
  std::string_view name_;
  size_t at_ = 0;
};

}  // namespace sluice::jinja
