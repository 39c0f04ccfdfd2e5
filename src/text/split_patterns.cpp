#include "text/split_patterns.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/unicode.h"

namespace sluice {
namespace {

// The classes of a character, as a set of these. A byte that is not UTF-8 is a character without a class.
enum : uint32_t {
  kLetter = 1,       // \p{L}
  kMark = 2,         // \p{M}
  kNumber = 4,       // \p{N}
  kPunctuation = 8,  // \p{P}
  kSymbol = 16,      // \p{S}
  kSpace = 32,       // \s
  kNewline = 64,     // [\r\n]
  kUpper = 128,      // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
  kLower = 256,      // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
};

uint32_t classes_of_category(Category category) {
  switch (category) {
    case Category::lu:
    case Category::lt: return kLetter | kUpper;
    case Category::ll: return kLetter | kLower;
    case Category::lm:
    case Category::lo: return kLetter | kUpper | kLower;
    case Category::mn:
    case Category::mc:
    case Category::me: return kMark | kUpper | kLower;
    case Category::nd:
    case Category::nl:
    case Category::no: return kNumber;
    case Category::pc:
    case Category::pd:
    case Category::ps:
    case Category::pe:
    case Category::pi:
    case Category::pf:
    case Category::po: return kPunctuation;
    case Category::sm:
    case Category::sc:
    case Category::sk:
    case Category::so: return kSymbol;
    case Category::other:
    case Category::zs:
    case Category::zl:
    case Category::zp: break;
  }
  return 0;
}

uint32_t classes_of(uint32_t code_point) {
  uint32_t classes = classes_of_category(category(code_point));
  if (is_space(code_point)) classes |= kSpace;
  if (code_point == '\r' || code_point == '\n') classes |= kNewline;
  return classes;
}

struct Char {
  uint32_t classes = 0;
  uint32_t bytes = 1;
  uint32_t code_point = 0xffffffff;
};

Char char_at(std::string_view text, size_t at) {
  static const std::array<uint32_t, 128> ascii = [] {
    std::array<uint32_t, 128> classes{};
    for (uint32_t c = 0; c < classes.size(); ++c) classes[c] = classes_of(c);
    return classes;
  }();
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < ascii.size()) return {ascii[byte], 1, byte};
  const Decoded c = decode_utf8(text.substr(at));
  if (c.bytes == 0) return {};
  return {classes_of(c.code_point), c.bytes, c.code_point};
}

// These skip characters from `at` on that belong to one of `classes`, or to none of them.
size_t skip(std::string_view text, size_t at, uint32_t classes) {
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if ((c.classes & classes) == 0) break;
    at += c.bytes;
  }
  return at;
}
size_t skip_others(std::string_view text, size_t at, uint32_t classes) {
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if ((c.classes & classes) != 0) break;
    at += c.bytes;
  }
  return at;
}

// The matchers below return the end of the match that begins at `at`, or `at` when there is none. None matches the
// empty string.

enum class Case : uint8_t { exact, any };

// 's|'t|'re|'ve|'m|'ll|'d
size_t contraction(std::string_view text, size_t at, Case mode) {
  if (text[at] != '\'' || at + 1 >= text.size()) return at;
  const auto letter = [&](size_t i) {
    const char c = i < text.size() ? text[i] : '\0';
    return mode == Case::any && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  };
  const char first = letter(at + 1);
  const char second = letter(at + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
  if (first == 'l' && second == 'l') return at + 3;
  const bool long_s = mode == Case::any && text.substr(at + 1, 2) == "\u017f";
  return long_s ? at + 3 : at;
}

// [^P]?[W]+ where P is `not_before` and W is `word`.
size_t word_with_lead(std::string_view text, size_t at, uint32_t not_before, uint32_t word) {
  const Char lead = char_at(text, at);
  if ((lead.classes & not_before) == 0) {
    const size_t begin = at + lead.bytes;
    const size_t end = skip(text, begin, word);
    if (end > begin) return end;
  }
  return skip(text, at, word);
}

// \p{N}{1,most}
size_t digits_at(std::string_view text, size_t at, int most) {
  for (int n = 0; n < most && at < text.size(); ++n) {
    const Char c = char_at(text, at);
    if ((c.classes & kNumber) == 0) break;
    at += c.bytes;
  }
  return at;
}

size_t after_one_space(std::string_view text, size_t at) { return text[at] == ' ' ? at + 1 : at; }

//  ?[^N]+ where N is `not_in`, which has \s in it
size_t others_after_space(std::string_view text, size_t at, uint32_t not_in) {
  const size_t begin = after_one_space(text, at);
  const size_t end = skip_others(text, begin, not_in);
  return end > begin ? end : at;
}

// \s+(?!\S)|\s+
size_t space_before_word(std::string_view text, size_t at) {
  size_t end = at;
  size_t last = at;  // where the last of the spaces begins
  while (end < text.size()) {
    const Char c = char_at(text, end);
    if ((c.classes & kSpace) == 0) break;
    last = end;
    end += c.bytes;
  }
  return end == text.size() || last == at ? end : last;
}

// \s*[\r\n]+|\s+(?!\S)|\s+
size_t space_by_lines(std::string_view text, size_t at) {
  const size_t end = skip(text, at, kSpace);
  for (size_t i = end; i > at; --i)
    if (text[i - 1] == '\n' || text[i - 1] == '\r') return i;
  return space_before_word(text, at);
}

size_t match_gpt2(std::string_view text, size_t at) {
  if (const size_t end = contraction(text, at, Case::exact); end > at) return end;
  const size_t begin = after_one_space(text, at);
  for (const uint32_t kind : {kLetter, kNumber})
    if (const size_t end = skip(text, begin, kind); end > begin) return end;
  if (const size_t end = others_after_space(text, at, kSpace | kLetter | kNumber); end > at) return end;
  return space_before_word(text, at);
}

// The form that Qwen and Llama 3 share; `word` is \p{L} or [\p{L}\p{M}].
size_t match_words(std::string_view text, size_t at, uint32_t word, int most_digits) {
  if (const size_t end = contraction(text, at, Case::any); end > at) return end;
  if (const size_t end = word_with_lead(text, at, kNewline | kLetter | kNumber, word); end > at) return end;
  if (const size_t end = digits_at(text, at, most_digits); end > at) return end;
  if (const size_t end = others_after_space(text, at, kSpace | word | kNumber); end > at)
    return skip(text, end, kNewline);
  return space_by_lines(text, at);
}
size_t match_qwen2(std::string_view text, size_t at) { return match_words(text, at, kLetter, 1); }
size_t match_qwen35(std::string_view text, size_t at) { return match_words(text, at, kLetter | kMark, 1); }
size_t match_llama3(std::string_view text, size_t at) { return match_words(text, at, kLetter, 3); }

// [upper]*[lower]+ at `at`. Letters without case are in both classes, so the first run may have to give back some.
size_t upper_then_lower(std::string_view text, size_t at) {
  size_t taken_back = at;  // the match's end if the first run gives back its last lower-class character
  size_t i = at;
  while (i < text.size()) {
    const Char c = char_at(text, i);
    if ((c.classes & kUpper) == 0) break;
    i += c.bytes;
    if ((c.classes & kLower) != 0) taken_back = i;
  }
  const size_t end = skip(text, i, kLower);
  return end > i ? end : taken_back;
}
// [upper]+[lower]*
size_t upper_with_lower(std::string_view text, size_t at) {
  const size_t end = skip(text, at, kUpper);
  return end > at ? skip(text, end, kLower) : at;
}

size_t match_gpt4o(std::string_view text, size_t at) {
  const Char lead = char_at(text, at);
  const bool may_lead = (lead.classes & (kNewline | kLetter | kNumber)) == 0 && at + lead.bytes < text.size();
  for (const auto word : {upper_then_lower, upper_with_lower}) {
    const size_t begin = may_lead ? at + lead.bytes : at;
    size_t end = word(text, begin);
    if (end == begin) end = word(text, at);
    if (end > at) return end < text.size() ? contraction(text, end, Case::any) : end;
  }
  if (const size_t end = digits_at(text, at, 3); end > at) return end;
  if (size_t end = others_after_space(text, at, kSpace | kLetter | kNumber); end > at) {
    while (end < text.size() && (text[end] == '\r' || text[end] == '\n' || text[end] == '/')) ++end;
    return end;
  }
  return space_by_lines(text, at);
}

bool is_ascii_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

size_t match_deepseek_v3(std::string_view text, size_t at) {
  const Char first = char_at(text, at);
  if (first.code_point < 0x80 && (first.classes & (kPunctuation | kSymbol)) != 0) {
    size_t end = at + 1;
    while (end < text.size() && is_ascii_letter(text[end])) ++end;
    if (end > at + 1) return end;
  }
  const uint32_t not_before = kNewline | kLetter | kPunctuation | kSymbol;
  if (const size_t end = word_with_lead(text, at, not_before, kLetter | kMark); end > at) return end;
  const size_t begin = after_one_space(text, at);
  if (const size_t end = skip(text, begin, kPunctuation | kSymbol); end > begin) return skip(text, end, kNewline);
  return space_by_lines(text, at);
}

// The characters between the brackets of a class such as [0-9_], as ranges.
class CharacterSet {
 public:
  // `regex` holds one class in brackets, without escapes in it.
  explicit CharacterSet(std::string_view regex) {
    const size_t open = regex.find('[');
    std::string_view rest = regex.substr(open + 1, regex.rfind(']') - open - 1);
    while (!rest.empty()) {
      const uint32_t low = take(rest);
      const bool range = rest.size() > 1 && rest[0] == '-';
      if (range) rest.remove_prefix(1);
      ranges_.push_back({low, range ? take(rest) : low});
    }
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.low < b.low; });
  }
  bool contains(uint32_t code_point) const {
    const auto above = std::upper_bound(ranges_.begin(), ranges_.end(), code_point,
                                        [](uint32_t c, const Range& range) { return c < range.low; });
    return above != ranges_.begin() && code_point <= std::prev(above)->high;
  }

 private:
  struct Range {
    uint32_t low, high;
  };
  static uint32_t take(std::string_view& rest) {
    const Decoded c = decode_utf8(rest);
    CHECK(c.bytes > 0);
    rest.remove_prefix(c.bytes);
    return c.code_point;
  }
  std::vector<Range> ranges_;
};

size_t skip_set(std::string_view text, size_t at, const CharacterSet& set) {
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if (!set.contains(c.code_point)) break;
    at += c.bytes;
  }
  return at;
}

// [set]+ or, with `space`, \s?[set]+, where the set is the one of the pattern's expression.
template <Split kSplit, bool kSpaceFirst>
size_t match_set(std::string_view text, size_t at) {
  static const CharacterSet set(split_pattern(kSplit).regex);
  if (kSpaceFirst) {
    const Char lead = char_at(text, at);
    const size_t begin = (lead.classes & kSpace) != 0 ? at + lead.bytes : at;
    if (const size_t end = skip_set(text, begin, set); end > begin) return end;
  }
  return skip_set(text, at, set);
}

// \s?[classes]+
template <uint32_t kClasses>
size_t match_after_any_space(std::string_view text, size_t at) {
  const Char lead = char_at(text, at);
  const size_t begin = (lead.classes & kSpace) != 0 ? at + lead.bytes : at;
  const size_t end = skip(text, begin, kClasses);
  return end > begin ? end : at;
}

size_t match_newline(std::string_view text, size_t at) { return text[at] == '\r' || text[at] == '\n' ? at + 1 : at; }
size_t match_digit(std::string_view text, size_t at) { return digits_at(text, at, 1); }
size_t match_digits(std::string_view text, size_t at) { return skip(text, at, kNumber); }
size_t match_digits_up_to_3(std::string_view text, size_t at) { return digits_at(text, at, 3); }

size_t match_ascii_digits_3(std::string_view text, size_t at) {
  for (size_t i = at; i < at + 3; ++i)
    if (i >= text.size() || text[i] < '0' || text[i] > '9') return at;
  return at + 3;
}

size_t skip_marks_and(std::string_view signs, std::string_view text, size_t at) {
  while (at < text.size()) {
    const Char c = char_at(text, at);
    const bool sign = c.code_point < 0x80 && signs.find(text[at]) != std::string_view::npos;
    if (!sign && (c.classes & kPunctuation) == 0) break;
    at += c.bytes;
  }
  return at;
}

size_t match_marks_and_signs(std::string_view text, size_t at) { return skip_marks_and("$+<=>^~|", text, at); }
size_t match_marks_signs_and_ticks(std::string_view text, size_t at) { return skip_marks_and("$+<=>^~|`", text, at); }

// The first match, trying each character as its beginning. This is linear, because a matcher reads no further than its
// own run and the runs of the next matches.
template <size_t (*match)(std::string_view, size_t)>
Match first(std::string_view text, size_t from) {
  while (from < text.size()) {
    if (const size_t end = match(text, from); end > from) return {from, end};
    from += char_at(text, from).bytes;
  }
  return {};
}

// \s+$, where $ is the end of the text or the place before a \n. A run of spaces without a match is skipped as a whole,
// because none of its characters can begin a match.
Match find_trailing_space(std::string_view text, size_t from) {
  while (from < text.size()) {
    const size_t end = skip(text, from, kSpace);
    if (end > from && end == text.size()) return {from, end};
    for (size_t i = end; i-- > from + 1;)
      if (text[i] == '\n') return {from, i};
    from = end > from ? end : end + char_at(text, end).bytes;
  }
  return {};
}

constexpr SplitPattern kPatterns[] = {
    {Split::gpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", first<match_gpt2>},
    {Split::qwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     first<match_qwen2>},
    {Split::qwen35,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
     first<match_qwen35>},
    {Split::llama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
     first<match_llama3>},
    {Split::gpt4o,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     first<match_gpt4o>},
    {Split::deepseek_v3,
     R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
     first<match_deepseek_v3>},
    {Split::kana_and_han, "[一-龥぀-ゟ゠-ヿ]+", first<match_set<Split::kana_and_han, false>>},
    {Split::han_and_hangul, "[一-龥ࠀ-一가-퟿]+", first<match_set<Split::han_and_hangul, false>>},
    {Split::newline, R"([\r\n])", first<match_newline>},
    {Split::cased_letters,
     R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿ)"
     R"(ᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨ)"
     R"(K-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲)"
     R"(𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)",
     first<match_set<Split::cased_letters, true>>},
    {Split::letters, R"(\s?\p{L}+)", first<match_after_any_space<kLetter>>},
    {Split::fullwidth_punctuation, "\\s?[!-/:-~！-／：-～‘-‟　-。]+",
     first<match_set<Split::fullwidth_punctuation, true>>},
    {Split::punctuation, R"(\s?\p{P}+)", first<match_after_any_space<kPunctuation>>},
    {Split::trailing_space, R"(\s+$)", find_trailing_space},
    {Split::marks_and_signs, R"([\p{P}\$\+<=>\^~\|]+)", first<match_marks_and_signs>},
    {Split::marks_signs_and_ticks, R"([\p{P}\$\+<=>\^~\|`]+)", first<match_marks_signs_and_ticks>},
    {Split::digit, R"(\p{N})", first<match_digit>},
    {Split::digits, R"(\p{N}+)", first<match_digits>},
    {Split::digits_up_to_3, R"(\p{N}{1,3})", first<match_digits_up_to_3>},
    {Split::ascii_digits_3, "[0-9][0-9][0-9]", first<match_ascii_digits_3>},
};

}  // namespace

const SplitPattern& split_pattern(Split split) {
  const auto* row = std::find_if(std::begin(kPatterns), std::end(kPatterns),
                                 [&](const SplitPattern& pattern) { return pattern.split == split; });
  CHECK(row != std::end(kPatterns));
  return *row;
}

const SplitPattern* find_split_pattern(std::string_view regex) {
  for (const SplitPattern& pattern : kPatterns)
    if (pattern.regex == regex) return &pattern;
  return nullptr;
}

}  // namespace sluice
