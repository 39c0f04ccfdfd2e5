#include "text/grammar/regex.h"

#include <algorithm>
#include <utility>

#include "base/unicode.h"

namespace sluice {
namespace {

constexpr uint32_t kMaxRepeats = 1'000'000;
constexpr uint64_t kEndless = uint64_t{kUnbounded};

CodePoints digits() { return CodePoints::range('0', '9'); }
CodePoints word_characters() {
  CodePoints set = digits();
  set.add('A', 'Z');
  set.add('_', '_');
  set.add('a', 'z');
  return set;
}
CodePoints spaces() {
  CodePoints set = CodePoints::range(9, 13);
  for (const uint32_t one : {0x20u, 0xa0u, 0x1680u}) set.add(one, one);
  set.add(0x2000, 0x200a);
  set.add(0x2028, 0x2029);
  for (const uint32_t one : {0x202fu, 0x205fu, 0x3000u, 0xfeffu}) set.add(one, one);
  return set;
}
CodePoints line_ends() {
  CodePoints set = CodePoints::of('\n');
  set.add('\r', '\r');
  set.add(0x2028, 0x2029);
  return set;
}

CodePoints characters_of(bool (*is_in)(uint32_t)) {
  CodePoints set;
  for (uint32_t first = 0; first <= kMaxCodePoint; ++first) {
    if (!is_in(first)) continue;
    uint32_t last = first;
    while (last < kMaxCodePoint && is_in(last + 1)) ++last;
    set.add(first, last);
    first = last;
  }
  return set;
}

// The characters of a general category, by names like "L" and "Lu". They are found once: it means a look at every
// character.
const CodePoints* category_set(std::string_view name) {
  struct Named {
    std::string_view short_name, name;
    CodePoints characters;
  };
  static const Named kSets[] = {
      {"L", "Letter", characters_of(is_letter)},
      {"M", "Mark", characters_of(is_mark)},
      {"N", "Number", characters_of(is_number)},
      {"P", "Punctuation", characters_of(is_punctuation)},
      {"S", "Symbol", characters_of(is_symbol)},
      {"Lu", "Uppercase_Letter", characters_of([](uint32_t c) { return category(c) == Category::lu; })},
      {"Ll", "Lowercase_Letter", characters_of([](uint32_t c) { return category(c) == Category::ll; })},
      {"Nd", "Decimal_Number", characters_of([](uint32_t c) { return category(c) == Category::nd; })}};
  const Named* found =
      std::ranges::find_if(kSets, [&](const Named& one) { return name == one.short_name || name == one.name; });
  return found == std::end(kSets) ? nullptr : &found->characters;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class RegexParser {
 public:
  RegexParser(GrammarBuilder& builder, std::string_view regex, RegexOptions options)
      : builder_(&builder), regex_(regex), options_(options) {}

  Result<RegexPart> parse() {
    if (!is_utf8(regex_)) return wrong("it is not UTF-8");
    TRY(RegexPart part, alternatives(0));
    if (at_ < regex_.size()) return wrong("a ) closes nothing");
    return part;
  }

 private:
  Error wrong(std::string_view what, std::string_view want = "a valid regular expression") const {
    return error(ErrorKind::invalid, "regular expression ", printable(regex_), ": ", what, " at byte ", at_, ": want ",
                 want);
  }
  Error refused(std::string_view what) const {
    return error(ErrorKind::unsupported, "regular expression ", printable(regex_), ": ", what, " at byte ", at_,
                 " cannot be honoured: want an expression without it");
  }
  bool at_end() const { return at_ >= regex_.size(); }
  bool sees(std::string_view text) const { return regex_.substr(at_).substr(0, text.size()) == text; }
  bool take(std::string_view text) {
    if (!sees(text)) return false;
    at_ += text.size();
    return true;
  }

  RegexPart character(CodePoints set) {
    const Expression one = options_.json ? json_character(*builder_, set) : utf8_character(*builder_, set);
    return {one, 1, 1, CharacterRun{std::move(set), 1, 1}};
  }
  Expression anything() {
    const CodePoints all = CodePoints::all();
    return builder_->repeat(options_.json ? json_character(*builder_, all) : utf8_character(*builder_, all), 0,
                            kUnbounded);
  }

  Result<RegexPart> alternatives(int depth) {
    if (depth > kMaxGrammarDepth) return wrong("groups nest too deep", cat("at most ", kMaxGrammarDepth));
    std::vector<Expression> parts;
    RegexPart whole{0, kEndless, 0};
    do {
      TRY(RegexPart part, alternative(depth));
      parts.push_back(part.expression);
      whole.shortest = std::min(whole.shortest, part.shortest);
      whole.longest = std::max(whole.longest, part.longest);
      whole.run = parts.size() == 1 ? std::move(part.run) : std::nullopt;
    } while (take("|"));
    whole.expression = builder_->either(std::move(parts));
    return whole;
  }

  Result<RegexPart> alternative(int depth) {
    std::vector<Expression> parts;
    RegexPart whole;
    const bool open_begin = depth == 0 && options_.search && !sees("^");
    if (depth == 0) take("^");
    size_t count = 0;
    while (!at_end() && !sees("|") && !sees(")") && !sees("$")) {
      TRY_STATUS(builder_->check_size());
      TRY(RegexPart part, repeated(depth));
      parts.push_back(part.expression);
      whole.shortest = std::min(kEndless, whole.shortest + part.shortest);
      whole.longest = std::min(kEndless, whole.longest + part.longest);
      whole.run = ++count == 1 ? std::move(part.run) : std::nullopt;
    }
    const bool anchored = depth == 0 && take("$");
    if (sees("$") || (anchored && !at_end() && !sees("|"))) return refused("a $ that is not at the end");
    if (open_begin) parts.insert(parts.begin(), anything());
    if (depth == 0 && options_.search && !anchored) parts.push_back(anything());
    if (depth == 0 && options_.search && (open_begin || !anchored)) {
      whole.longest = kEndless;
      whole.run.reset();
    }
    whole.expression = builder_->sequence(std::move(parts));
    return whole;
  }

  Result<RegexPart> repeated(int depth) {
    TRY(RegexPart part, atom(depth));
    for (bool again = false;; again = true) {
      uint32_t least = 0, most = kUnbounded;
      const size_t before = at_;
      if (take("+")) {
        least = 1;
      } else if (take("?")) {
        most = 1;
      } else if (!take("*")) {
        TRY(const bool found, counts(least, most));
        if (!found) return part;
      }
      if (again) {
        at_ = before;
        return wrong("a quantifier follows another");
      }
      if (sees("+")) return refused("a possessive quantifier");
      take("?");  // lazy: the same texts
      part = times(part, least, most);
    }
  }

  RegexPart times(const RegexPart& part, uint32_t least, uint32_t most) {
    const auto product = [](uint64_t length, uint64_t count) {
      return length == 0 || count == 0 ? 0 : std::min(kEndless, length >= kEndless ? kEndless : length * count);
    };
    RegexPart whole{builder_->repeat(part.expression, least, most), product(part.shortest, least),
                    product(part.longest, most)};
    if (part.run && part.run->least == 1 && part.run->most == 1)
      whole.run = CharacterRun{part.run->characters, least, most};
    return whole;
  }

  // {n}, {n,} and {n,m}. A brace that begins nothing like it stands for itself.
  Result<bool> counts(uint32_t& least, uint32_t& most) {
    if (!sees("{")) return false;
    size_t i = at_ + 1;
    const auto number = [&](uint32_t& into) {
      const size_t begin = i;
      uint64_t value = 0;
      for (; i < regex_.size() && regex_[i] >= '0' && regex_[i] <= '9'; ++i)
        value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(regex_[i] - '0'), kMaxRepeats + 1);
      into = static_cast<uint32_t>(value);
      return i > begin;
    };
    if (!number(least)) return false;
    most = least;
    if (i < regex_.size() && regex_[i] == ',') {
      ++i;
      if (!number(most)) most = kUnbounded;
    }
    if (i >= regex_.size() || regex_[i] != '}') return false;
    if (least > kMaxRepeats || (most != kUnbounded && most > kMaxRepeats))
      return wrong("a count is too large", cat("at most ", kMaxRepeats));
    if (least > most) return wrong("a range of counts descends");
    at_ = i + 1;
    return true;
  }

  Result<RegexPart> atom(int depth) {
    if (sees("(")) return group(depth);
    if (sees("[")) {
      TRY(CodePoints set, bracket());
      return character(std::move(set));
    }
    if (sees("^")) return refused("a ^ that is not at the beginning");
    for (const std::string_view one : {"*", "+", "?"})
      if (sees(one)) return wrong("a quantifier follows nothing");
    if (take(".")) return character(line_ends().inverse());
    TRY(CodePoints set, one_character(/*in_class=*/false));
    return character(std::move(set));
  }

  Result<RegexPart> group(int depth) {
    for (const auto& [mark, name] : {std::pair<std::string_view, std::string_view>{"(?=", "look-ahead (?="},
                                     {"(?!", "look-ahead (?!"},
                                     {"(?<=", "look-behind (?<="},
                                     {"(?<!", "look-behind (?<!"},
                                     {"(?>", "atomic group (?>"}})
      if (sees(mark)) return refused(name);
    take("(");
    if (take("?")) {
      if (!take(":")) {
        take("P");
        if (!take("<")) return refused("a group with flags");
        const size_t end = regex_.find('>', at_);
        if (end == std::string_view::npos) return wrong("the name of a group does not end");
        at_ = end + 1;
      }
    }
    TRY(RegexPart part, alternatives(depth + 1));
    if (!take(")")) return wrong("a group does not end", "a )");
    return part;
  }

  Result<CodePoints> bracket() {
    take("[");
    const bool inverse = take("^");
    CodePoints set;
    while (!take("]")) {
      if (at_end()) return wrong("a class does not end", "a ]");
      if (sees("[:")) return refused("a named class [:");
      TRY(const CodePoints first, one_character(/*in_class=*/true));
      const bool is_range = sees("-") && !sees("-]") && is_single(first);
      if (!is_range) {
        set.add(first);
        continue;
      }
      take("-");
      if (at_end()) return wrong("a class does not end", "a ]");
      TRY(const CodePoints last, one_character(/*in_class=*/true));
      if (!is_single(last) || last.ranges()[0].first < first.ranges()[0].first)
        return wrong("a range of a class is none");
      set.add(first.ranges()[0].first, last.ranges()[0].first);
    }
    return inverse ? set.inverse() : set;
  }
  static bool is_single(const CodePoints& set) {
    return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].second;
  }

  Result<CodePoints> one_character(bool in_class) {
    if (sees("\\")) return escape(in_class);
    const Decoded one = decode_utf8(regex_.substr(at_));
    at_ += one.bytes;
    return CodePoints::of(one.code_point);
  }

  Result<CodePoints> escape(bool in_class) {
    if (at_ + 1 >= regex_.size()) return wrong("a \\ ends it");
    const char c = regex_[at_ + 1];
    if (!in_class && (c == 'b' || c == 'B')) return refused("word boundary \\b");
    if (c >= '1' && c <= '9') return refused("a back-reference");
    if (c == 'k') return refused("a back-reference \\k");
    if (c == 'p' || c == 'P') return property(c == 'P');
    if (c == 'x' || c == 'u') return code_point();
    const Decoded one = decode_utf8(regex_.substr(at_ + 1));
    at_ += 1 + one.bytes;
    switch (c) {
      case 'd': return digits();
      case 'D': return digits().inverse();
      case 'w': return word_characters();
      case 'W': return word_characters().inverse();
      case 's': return spaces();
      case 'S': return spaces().inverse();
      case 't': return CodePoints::of('\t');
      case 'n': return CodePoints::of('\n');
      case 'r': return CodePoints::of('\r');
      case 'f': return CodePoints::of('\f');
      case 'v': return CodePoints::of('\v');
      case 'b': return CodePoints::of('\b');
      case '0': return CodePoints::of(0);
      case 'A':
      case 'Z':
      case 'z':
      case 'G': return refused(cat("anchor \\", c));
      default: break;
    }
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return wrong(cat("escape \\", c, " is unknown"));
    return CodePoints::of(one.code_point);
  }

  Result<CodePoints> property(bool inverse) {
    const size_t end = regex_.find('}', at_);
    if (regex_.substr(at_ + 2, 1) != "{" || end == std::string_view::npos) return wrong("\\p names no property");
    const std::string_view name = regex_.substr(at_ + 3, end - at_ - 3);
    const CodePoints* set = category_set(name);
    if (set == nullptr) return refused(cat("property \\p{", printable(name), "}"));
    at_ = end + 1;
    return inverse ? set->inverse() : *set;
  }

  // \xHH, \uHHHH and \u{H...}.
  Result<CodePoints> code_point() {
    const bool braced = regex_.substr(at_, 3) == "\\u{";
    const size_t begin = at_ + (braced ? 3 : 2);
    const size_t most = braced ? 6 : regex_[at_ + 1] == 'x' ? 2 : 4;
    uint32_t value = 0;
    size_t i = begin;
    for (; i < regex_.size() && i < begin + most && hex_digit(regex_[i]) >= 0; ++i)
      value = value * 16 + static_cast<uint32_t>(hex_digit(regex_[i]));
    const bool ends = braced ? i > begin && i < regex_.size() && regex_[i] == '}' : i == begin + most;
    if (!ends || value > kMaxCodePoint) return wrong("an escape names no character");
    at_ = i + (braced ? 1 : 0);
    return CodePoints::of(value);
  }

  GrammarBuilder* builder_;
  std::string_view regex_;
  RegexOptions options_;
  size_t at_ = 0;
};

}  // namespace

Result<RegexPart> parse_regex(GrammarBuilder& builder, std::string_view regex, RegexOptions options) {
  return RegexParser(builder, regex, options).parse();
}

}  // namespace sluice
