// Turns template text into tokens, with the white space rules of transformers: trim_blocks drops the newline after a
// block or comment; lstrip_blocks drops blanks before a block or comment that begins its line; the signs - and + inside
// tags; one final newline of the template is dropped. Source: jinja2 3.1 lexer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::jinja {

enum class TokenKind : uint8_t {
  data,  // text between tags
  block_begin,
  block_end,
  output_begin,
  output_end,
  name,
  string,
  integer,
  number,
  symbol,  // an operator or bracket, in `text`
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  int line = 1;
  std::string text;  // unescaped for strings
  int64_t integer = 0;
  double number = 0;

  bool is(TokenKind wanted, std::string_view wanted_text) const { return kind == wanted && text == wanted_text; }
  bool is_name(std::string_view wanted) const { return is(TokenKind::name, wanted); }
  bool is_symbol(std::string_view wanted) const { return is(TokenKind::symbol, wanted); }
};

// The last token is `end`. Errors begin with `name`.
Result<std::vector<Token>> tokenize(std::string_view text, std::string_view name);

}  // namespace sluice::jinja
