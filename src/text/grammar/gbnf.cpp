#include "text/grammar/gbnf.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/unicode.h"
#include "text/grammar/code_points.h"
#include "text/grammar/grammar_builder.h"

namespace sluice {
namespace {

constexpr uint32_t kMaxRepeats = 1'000'000;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view source) : source_(source) {}

  Result<Grammar> parse() {
    if (!is_utf8(source_)) return error(ErrorKind::invalid, "the grammar is not UTF-8");
    for (skip(/*lines=*/true); !at_end(); skip(/*lines=*/true)) TRY_STATUS(rule());
    const auto root = rules_.find("root");
    if (root == rules_.end() || !root->second.defined)
      return error(ErrorKind::invalid, "the grammar has no rule root: want one");
    for (const auto& [name, one] : rules_)
      if (!one.defined) return error(ErrorKind::invalid, "rule ", printable(name), " is used but not there");
    return builder_.finish(root->second.id);
  }

 private:
  struct Rule {
    RuleId id = 0;
    bool defined = false;
  };

  Error wrong(std::string_view want) const {
    const auto line = 1 + std::count(source_.begin(), source_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    return error(ErrorKind::invalid, "line ", line, " of the grammar: found ",
                 at_end() ? "its end" : printable(source_.substr(at_, 20)), ": want ", want);
  }
  bool at_end() const { return at_ >= source_.size(); }
  bool sees(std::string_view text) const { return source_.substr(at_).substr(0, text.size()) == text; }
  bool take(std::string_view text) {
    if (!sees(text)) return false;
    at_ += text.size();
    return true;
  }
  // Blanks and comments; line ends only if `lines`.
  void skip(bool lines) {
    for (; !at_end(); ++at_) {
      const char c = source_[at_];
      if (c == '#')
        while (at_ + 1 < source_.size() && source_[at_ + 1] != '\n') ++at_;
      else if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r')))
        return;
    }
  }

  Rule& named(std::string_view name) {
    const auto found = rules_.find(name);
    if (found != rules_.end()) return found->second;
    return rules_.emplace(std::string(name), Rule{builder_.add_rule(cat("rule ", printable(name)))}).first->second;
  }
  std::string_view name() {
    const size_t begin = at_;
    while (!at_end() && is_name(source_[at_])) ++at_;
    return source_.substr(begin, at_ - begin);
  }

  Status rule() {
    const std::string_view own = name();
    if (own.empty()) return wrong("the name of a rule");
    skip(false);
    if (!take("::=")) return wrong("::=");
    if (named(own).defined) return error(ErrorKind::invalid, "rule ", printable(own), " is there twice");
    TRY(const Expression expression, alternatives(0));
    named(own).defined = true;
    builder_.define(named(own).id, expression);
    if (!at_end() && !sees("\n") && !sees("\r")) return wrong("the end of the rule");
    return {};
  }

  Result<Expression> alternatives(int depth) {
    if (depth > kMaxGrammarDepth) return wrong(cat("at most ", kMaxGrammarDepth, " groups in each other"));
    std::vector<Expression> parts;
    do {
      skip(/*lines=*/true);
      TRY(const Expression part, sequence(depth));
      parts.push_back(part);
    } while (next_alternative(depth));
    return builder_.either(std::move(parts));
  }

  // A | may also begin the next line.
  bool next_alternative(int depth) {
    const size_t before = at_;
    skip(/*lines=*/true);
    if (take("|")) return true;
    if (depth == 0) at_ = before;
    return false;
  }

  Result<Expression> sequence(int depth) {
    std::vector<Expression> parts;
    for (skip(depth > 0); !at_end() && !sees("|") && !sees(")") && !sees("\n") && !sees("\r"); skip(depth > 0)) {
      // Behind an empty right side the next rule begins.
      if (depth == 0 && parts.empty() && begins_rule()) break;
      TRY_STATUS(builder_.check_size());
      TRY(const Expression part, repeated(depth));
      parts.push_back(part);
    }
    return builder_.sequence(std::move(parts));
  }
  bool begins_rule() {
    const size_t before = at_;
    const bool named_one = !name().empty();
    skip(false);
    const bool begins = named_one && sees("::=");
    at_ = before;
    return begins;
  }

  Result<Expression> repeated(int depth) {
    TRY(Expression part, item(depth));
    for (;;) {
      skip(false);
      if (take("*"))
        part = builder_.repeat(part, 0, kUnbounded);
      else if (take("+"))
        part = builder_.repeat(part, 1, kUnbounded);
      else if (take("?"))
        part = builder_.repeat(part, 0, 1);
      else if (take("{"))
        TRY_ASSIGN(part, counted(part));
      else
        return part;
    }
  }

  Result<Expression> counted(Expression part) {
    uint32_t least = 0, most = 0;
    if (!number(least)) return wrong("a count");
    most = least;
    if (take(",")) {
      skip(false);
      if (!number(most)) most = kUnbounded;
    }
    if (!take("}")) return wrong("}");
    if (least > most || least > kMaxRepeats || (most != kUnbounded && most > kMaxRepeats))
      return wrong(cat("ascending counts of at most ", kMaxRepeats));
    return builder_.repeat(part, least, most);
  }
  bool number(uint32_t& into) {
    skip(false);
    const size_t begin = at_;
    uint64_t value = 0;
    for (; !at_end() && source_[at_] >= '0' && source_[at_] <= '9'; ++at_)
      value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(source_[at_] - '0'), kMaxRepeats + 1);
    into = static_cast<uint32_t>(value);
    const bool found = at_ > begin;
    skip(false);
    return found;
  }

  Result<Expression> item(int depth) {
    if (take("\"")) return literal();
    if (take("[")) return character_class();
    if (take(".")) return utf8_character(builder_, CodePoints::all());
    if (take("(")) {
      TRY(const Expression inner, alternatives(depth + 1));
      if (!take(")")) return wrong("a )");
      return inner;
    }
    const std::string_view own = name();
    if (own.empty()) return wrong("a literal, a class, a group or the name of a rule");
    return builder_.call(named(own).id);
  }

  Result<Expression> literal() {
    std::string text;
    while (!take("\"")) {
      if (at_end() || sees("\n")) return wrong("the end of a literal");
      TRY(const uint32_t one, character());
      append_utf8(text, one);
    }
    return builder_.text(text);
  }

  Result<Expression> character_class() {
    const bool inverse = take("^");
    CodePoints set;
    while (!take("]")) {
      if (at_end() || sees("\n")) return wrong("the end of a class");
      TRY(const uint32_t first, character());
      uint32_t last = first;
      if (sees("-") && !sees("-]")) {
        take("-");
        if (at_end()) return wrong("the end of a class");
        TRY_ASSIGN(last, character());
      }
      if (last < first) return wrong("an ascending range");
      set.add(first, last);
    }
    return utf8_character(builder_, inverse ? set.inverse() : set);
  }

  Result<uint32_t> character() {
    if (!take("\\")) {
      const Decoded one = decode_utf8(source_.substr(at_));
      at_ += one.bytes;
      return one.code_point;
    }
    if (at_end()) return wrong("an escape");
    const char c = source_[at_++];
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0) return hexadecimal(digits);
    switch (c) {
      case 'n': return uint32_t{'\n'};
      case 'r': return uint32_t{'\r'};
      case 't': return uint32_t{'\t'};
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^': return static_cast<uint32_t>(c);
      default: --at_; return wrong("one of the escapes \\n \\r \\t \\\\ \\\" \\[ \\] \\xHH \\uHHHH \\UHHHHHHHH");
    }
  }
  Result<uint32_t> hexadecimal(size_t digits) {
    const std::string_view hex = source_.substr(at_, digits);
    uint32_t value = 0;
    const auto end = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
    if (hex.size() != digits || end.ptr != hex.data() + digits || value > kMaxCodePoint ||
        (value >= 0xd800 && value <= 0xdfff))
      return wrong("the number of a character");
    at_ += digits;
    return value;
  }

  std::string_view source_;
  size_t at_ = 0;
  GrammarBuilder builder_;
  std::map<std::string, Rule, std::less<>> rules_;
};

}  // namespace

Result<Grammar> grammar_of_gbnf(std::string_view source) { return GbnfParser(source).parse(); }

}  // namespace sluice
