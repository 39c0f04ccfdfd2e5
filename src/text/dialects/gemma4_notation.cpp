#include "text/dialects/gemma4_notation.h"

#include <string>
#include <utility>

#include "base/text.h"

namespace sluice {
namespace {

constexpr int kMaxDepth = 64;

class Reader {
 public:
  Reader(std::string_view text, const Json& tools, std::string_view tool) : text_(text), tools_(tools), tool_(tool) {}

  // The arguments, and nothing behind them.
  Result<Json> read() {
    TRY(Json arguments, object(0));
    skip_blanks();
    if (!text_.empty()) return wrong("the end of the call");
    return arguments;
  }

 private:
  Error wrong(std::string_view want) const {
    return error(ErrorKind::invalid, "call of ", printable(tool_), ": ", printable(text_), ": want ", want);
  }
  void skip_blanks() { text_.remove_prefix(std::min(text_.find_first_not_of(" \t\r\n"), text_.size())); }
  bool take(std::string_view part) {
    if (!starts_with(text_, part)) return false;
    text_.remove_prefix(part.size());
    return true;
  }
  std::string_view take_until(size_t at) {
    const std::string_view taken = text_.substr(0, at);
    text_.remove_prefix(taken.size());
    return taken;
  }

  Result<Json> object(int depth) {
    Json::Object members;
    if (!take("{")) return wrong("{");
    for (skip_blanks(); !take("}"); skip_blanks()) {
      if (!members.empty() && !take(",")) return wrong(", or }");
      skip_blanks();
      TRY(std::string key, read_key());
      skip_blanks();
      TRY(Json value, value_of(key, depth));
      members.emplace_back(std::move(key), std::move(value));
    }
    return Json(std::move(members));
  }

  Result<Json> list(int depth) {
    Json::Array elements;
    if (!take("[")) return wrong("[");
    for (skip_blanks(); !take("]"); skip_blanks()) {
      if (!elements.empty() && !take(",")) return wrong(", or ]");
      skip_blanks();
      TRY(Json element, value_of({}, depth));
      elements.push_back(std::move(element));
    }
    return Json(std::move(elements));
  }

  Result<std::string> read_key() {
    for (const std::string_view quote : {kGemma4Quote, std::string_view("\"")}) {
      if (!take(quote)) continue;
      TRY(std::string key, quoted(quote));
      if (!take(":")) return wrong(":");
      return key;
    }
    const size_t colon = text_.find(':');
    if (colon == std::string_view::npos || colon == 0) return wrong("a key and :");
    const std::string key(take_until(colon));
    text_.remove_prefix(1);
    if (key.find_first_of(",{}[]") != std::string::npos) return wrong("a key and :");
    return key;
  }

  // Up to the closing quote. Plain quotes may be escaped within.
  Result<std::string> quoted(std::string_view quote) {
    if (quote == kGemma4Quote) {
      const size_t end = text_.find(quote);
      if (end == std::string_view::npos) return wrong("a closing <|\"|>");
      std::string text(take_until(end));
      text_.remove_prefix(quote.size());
      return text;
    }
    size_t end = 0;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) return wrong("a closing quote");
    TRY(const Json text, parse_json(cat('"', take_until(end), '"'), "text"));
    text_.remove_prefix(1);
    return text.as_string();
  }

  Result<Json> value_of(std::string_view key, int depth) {
    if (depth >= kMaxDepth) return wrong(cat("at most ", kMaxDepth, " lists and objects in each other"));
    for (const std::string_view quote : {kGemma4Quote, std::string_view("\"")}) {
      if (!take(quote)) continue;
      TRY(std::string text, quoted(quote));
      return Json(std::move(text));
    }
    if (starts_with(text_, "{")) return object(depth + 1);
    if (starts_with(text_, "[")) return list(depth + 1);
    return bare(depth == 0 ? find_parameter(tools_, tool_, key) : nullptr);
  }

  // A number, a word of JSON, or a string whose quotes are missing.
  Result<Json> bare(const Json* schema) {
    std::string_view text = take_until(std::min(text_.find_first_of(",}]"), text_.size()));
    text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
    if (text.empty()) return wrong("a value");
    const Json* type = schema == nullptr ? nullptr : schema->find("type");
    const bool is_text = type != nullptr && type->is_string() && type->as_string() == "string";
    Result<Json> read = parse_json(text, "value");
    return read && !is_text ? *std::move(read) : Json(text);
  }

  std::string_view text_;
  const Json& tools_;
  std::string_view tool_;
};

}  // namespace

Result<ToolCall> parse_gemma4_call(std::string_view body, const Json& tools) {
  while (!body.empty() && (body.front() == ':' || body.front() == ' ' || body.front() == '\n')) body.remove_prefix(1);
  constexpr std::string_view kCall = "call:";
  if (!starts_with(body, kCall)) return error(ErrorKind::invalid, "call of a tool: ", printable(body), ": want call:");
  body.remove_prefix(kCall.size());
  const size_t brace = body.find('{');
  const std::string name(body.substr(0, brace));
  if (brace == std::string_view::npos || name.empty() || name.find_first_of(" \n,}") != std::string::npos)
    return error(ErrorKind::invalid, "call of a tool: ", printable(body), ": want a name and {");
  TRY(Json arguments, Reader(body.substr(brace), tools, name).read());
  return ToolCall{.name = name, .arguments = std::move(arguments)};
}

}  // namespace sluice
