#include "text/jinja/parse/lexer.h"

#include <algorithm>
#include <array>

#include "base/unicode.h"
#include "text/jinja/builtins/strings.h"
#include "text/jinja/parse/literals.h"

namespace sluice::jinja {

namespace {

// Line ends become \n, and one line end at the end of the text is dropped.
std::string normalize_lines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] != '\r')
      out += text[i];
    else if (i + 1 == text.size() || text[i + 1] != '\n')
      out += '\n';
  if (ends_with(out, "\n")) out.pop_back();
  return out;
}

bool all_blank(std::string_view text) { return strip(text, Side::left).empty(); }

constexpr std::string_view kSymbols[] = {"==", "!=", ">=", "<=", "//", "**", "+", "-", "/", "*", "%", "~", "[",
                                         "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view name) : source_(normalize_lines(text)), rest_(source_), name_(name) {}

  Result<std::vector<Token>> run() {
    while (!rest_.empty()) TRY_STATUS(data_and_tag());
    add(TokenKind::end);
    return std::move(tokens_);
  }

 private:
  template <class... Parts>
  Error fail(const Parts&... parts) const {
    return error(ErrorKind::invalid, name_, ":", line_, ": ", parts...);
  }

  Token& add(TokenKind kind, std::string text = {}) {
    tokens_.push_back(Token{.kind = kind, .line = line_, .text = std::move(text)});
    return tokens_.back();
  }

  // Skips `bytes` of the remaining text and counts their lines.
  void skip(size_t bytes) {
    const std::string_view gone = rest_.substr(0, bytes);
    line_ += static_cast<int>(std::count(gone.begin(), gone.end(), '\n'));
    if (!gone.empty()) line_starts_ = gone.back() == '\n';
    rest_.remove_prefix(gone.size());
  }
  void skip_blanks() { skip(rest_.size() - strip(rest_, Side::left).size()); }
  bool take(std::string_view text) {
    if (!starts_with(rest_, text)) return false;
    skip(text.size());
    return true;
  }

  Status data_and_tag();
  Status comment();
  Status inside_tag(TokenKind end, std::string_view closing);
  Status one_token();
  Status string_token();
  Status number_token();
  Status bracket(std::string_view symbol);
  bool raw_begin();
  Status raw_data();
  void add_data(std::string_view data, char sign, bool output);
  size_t find_tag() const;
  bool end_of_tag(std::string_view closing);
  void after_block(bool minus, bool plus);

  std::string source_;
  std::string_view rest_;
  std::string_view name_;
  std::vector<Token> tokens_;
  std::string open_;  // brackets to be closed in this tag
  int line_ = 1;
  bool line_starts_ = true;  // the last character that was read is a newline
};

size_t Lexer::find_tag() const {
  for (size_t at = rest_.find('{'); at != std::string_view::npos; at = rest_.find('{', at + 1)) {
    const char next = at + 1 < rest_.size() ? rest_[at + 1] : '\0';
    if (next == '{' || next == '%' || next == '#') return at;
  }
  return rest_.size();
}

// `data` ends at a tag that begins with `sign` ('-', '+' or anything else).
void Lexer::add_data(std::string_view data, char sign, bool output) {
  std::string_view kept = data;
  if (sign == '-') {
    kept = strip(data, Side::right);
  } else if (sign != '+' && !output) {
    const size_t newline = data.rfind('\n');
    const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    if ((line > 0 || line_starts_) && all_blank(data.substr(line))) kept = data.substr(0, line);
  }
  if (!kept.empty()) add(TokenKind::data, std::string(kept));
  skip(data.size());
}

Status Lexer::data_and_tag() {
  const size_t at = find_tag();
  if (at == rest_.size()) {
    add(TokenKind::data, std::string(rest_));
    skip(rest_.size());
    return {};
  }
  const char kind = rest_[at + 1];
  const char sign = at + 2 < rest_.size() ? rest_[at + 2] : '\0';
  add_data(rest_.substr(0, at), sign, kind == '{');
  if (kind == '%' && raw_begin()) return raw_data();
  skip(sign == '-' || sign == '+' ? 3 : 2);
  if (kind == '#') return comment();
  add(kind == '{' ? TokenKind::output_begin : TokenKind::block_begin);
  return kind == '{' ? inside_tag(TokenKind::output_end, "}}") : inside_tag(TokenKind::block_end, "%}");
}

// Drops white space behind a block or comment: all of it after "-", nothing after "+", else one newline.
void Lexer::after_block(bool minus, bool plus) {
  if (minus)
    skip_blanks();
  else if (!plus)
    take("\n");
}

Status Lexer::comment() {
  const size_t end = rest_.find("#}");
  if (end == std::string_view::npos) return fail("the comment is not closed: want #}");
  const char sign = end > 0 ? rest_[end - 1] : '\0';
  skip(end + 2);
  after_block(sign == '-', sign == '+');
  return {};
}

// {% raw %}: its closing mark keeps the newline after it.
bool Lexer::raw_begin() {
  std::string_view tag = rest_.substr(2);
  if (!tag.empty() && (tag[0] == '-' || tag[0] == '+')) tag.remove_prefix(1);
  tag = strip(tag, Side::left);
  if (!starts_with(tag, "raw")) return false;
  tag = strip(tag.substr(3), Side::left);
  const bool minus = starts_with(tag, "-%}");
  if (!minus && !starts_with(tag, "%}")) return false;
  tag.remove_prefix(minus ? 3 : 2);
  skip(rest_.size() - tag.size());
  if (minus) skip_blanks();
  return true;
}

Status Lexer::raw_data() {
  for (size_t at = rest_.find("{%"); at != std::string_view::npos; at = rest_.find("{%", at + 2)) {
    std::string_view tag = rest_.substr(at + 2);
    const char sign = !tag.empty() && (tag[0] == '-' || tag[0] == '+') ? tag[0] : '\0';
    tag = strip(sign == '\0' ? tag : tag.substr(1), Side::left);
    if (!starts_with(tag, "endraw")) continue;
    tag = strip(tag.substr(6), Side::left);
    const bool signed_end = starts_with(tag, "-%}") || starts_with(tag, "+%}");
    if (!signed_end && !starts_with(tag, "%}")) continue;
    const char end_sign = tag[0];
    tag.remove_prefix(signed_end ? 3 : 2);
    const size_t after = rest_.size() - tag.size();
    add_data(rest_.substr(0, at), sign, false);
    skip(after - at);
    after_block(end_sign == '-', end_sign == '+');
    return {};
  }
  return fail("the raw block is not closed: want {% endraw %}");
}

// Takes the end of the tag, if it is here. An output's end keeps the newline after it.
bool Lexer::end_of_tag(std::string_view closing) {
  const bool output = closing == "}}";
  if (take(closing)) {
    if (!output) after_block(false, false);
    return true;
  }
  const bool minus = starts_with(rest_, "-") && starts_with(rest_.substr(1), closing);
  const bool plus = !output && starts_with(rest_, "+") && starts_with(rest_.substr(1), closing);
  if (!minus && !plus) return false;
  skip(1 + closing.size());
  after_block(minus, true);
  return true;
}

Status Lexer::inside_tag(TokenKind end, std::string_view closing) {
  const int begun = line_;
  open_.clear();
  while (!rest_.empty()) {
    const int line = line_;
    if (open_.empty() && end_of_tag(closing)) {
      add(end).line = line;
      return {};
    }
    TRY_STATUS(one_token());
  }
  line_ = begun;
  return fail("the tag is not closed: want ", closing);
}

Status Lexer::one_token() {
  const Decoded c = decode_utf8(rest_);
  if (c.bytes == 0) return fail("the template is not UTF-8");
  if (is_blank(c.code_point)) {
    skip_blanks();
    return {};
  }
  const char first = rest_[0];
  if (first == '"' || first == '\'') return string_token();
  if (first >= '0' && first <= '9') return number_token();
  if (is_name_byte(first)) {
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), is_name_byte);
    const auto length = static_cast<size_t>(end - rest_.begin());
    add(TokenKind::name, std::string(rest_.substr(0, length)));
    skip(length);
    return {};
  }
  for (const std::string_view symbol : kSymbols)
    if (starts_with(rest_, symbol)) return bracket(symbol);
  return fail("found the character \"", printable(rest_.substr(0, c.bytes)), "\", which no expression has");
}

Status Lexer::bracket(std::string_view symbol) {
  static constexpr std::string_view kOpening = "([{";
  static constexpr std::string_view kClosing = ")]}";
  const size_t opened = kOpening.find(symbol);
  if (opened != std::string_view::npos) open_ += kClosing[opened];
  if (kClosing.find(symbol) != std::string_view::npos) {
    if (open_.empty()) return fail("found \"", symbol, "\", which closes nothing");
    if (open_.back() != symbol[0]) return fail("found \"", symbol, "\": want \"", open_.back(), "\"");
    open_.pop_back();
  }
  add(TokenKind::symbol, std::string(symbol));
  skip(symbol.size());
  return {};
}

Status Lexer::string_token() {
  const char quote = rest_[0];
  size_t end = 1;
  while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2 : 1;
  if (end >= rest_.size()) return fail("the string is not closed: want ", quote);
  std::string problem;
  std::optional<std::string> text = unescape(rest_.substr(1, end - 1), problem);
  if (!text) return fail(problem);
  add(TokenKind::string, *std::move(text));
  skip(end + 1);
  return {};
}

Status Lexer::number_token() {
  // After "." only digits follow: "messages.0.1" is no number 0.1.
  const bool after_dot = !tokens_.empty() && tokens_.back().is_symbol(".");
  const NumberText found = scan_number(rest_, !after_dot);
  const std::string_view digits = rest_.substr(0, found.bytes);
  if (found.is_float) {
    const auto value = read_float(digits);
    if (!value) return fail("the number ", printable(digits), " is too large");
    add(TokenKind::number, std::string(digits)).number = *value;
  } else {
    const auto value = read_integer(digits);
    if (!value) return fail("the integer ", printable(digits), " does not fit 64 bits");
    add(TokenKind::integer, std::string(digits)).integer = *value;
  }
  skip(found.bytes);
  return {};
}

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view text, std::string_view name) { return Lexer(text, name).run(); }

}  // namespace sluice::jinja
