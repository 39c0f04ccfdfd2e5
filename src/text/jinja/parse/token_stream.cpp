#include "text/jinja/parse/token_stream.h"

namespace sluice::jinja {

namespace {

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::data: return "text";
    case TokenKind::block_begin: return "{%";
    case TokenKind::block_end: return "%}";
    case TokenKind::output_begin: return "{{";
    case TokenKind::output_end: return "}}";
    case TokenKind::end: return "the end of the template";
    case TokenKind::string: return cat("the string \"", printable(token.text), "\"");
    default: return cat("\"", printable(token.text), "\"");
  }
}

}  // namespace

Error TokenStream::unexpected(std::string_view wanted) const {
  return fail(line(), "found ", describe(next()), ": want ", wanted);
}

Status TokenStream::expect_symbol(std::string_view symbol) {
  if (take_symbol(symbol)) return {};
  return unexpected(cat("\"", symbol, "\""));
}

Status TokenStream::expect_name(std::string_view name) {
  if (take_name(name)) return {};
  return unexpected(cat("\"", name, "\""));
}

Status TokenStream::expect(TokenKind kind) {
  if (!at(kind)) return unexpected(describe(Token{.kind = kind, .text = {}}));
  take();
  return {};
}

Result<std::string> TokenStream::expect_name() {
  if (!at(TokenKind::name)) return unexpected("a name");
  return take().text;
}

}  // namespace sluice::jinja
