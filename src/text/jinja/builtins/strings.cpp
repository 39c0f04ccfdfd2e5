#include "text/jinja/builtins/strings.h"

#include <algorithm>
#include <vector>

#include "base/unicode.h"

namespace sluice::jinja {

namespace {

// Most text is ASCII, which needs no table.
bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }
Decoded decode(std::string_view text) {
  return is_ascii(text[0]) ? Decoded{static_cast<unsigned char>(text[0]), 1} : decode_utf8(text);
}
uint32_t code_point(std::string_view text) { return decode(text).code_point; }

template <class Drop>
std::string_view strip_if(std::string_view text, Side side, Drop drop) {
  while (side != Side::right && !text.empty()) {
    const size_t bytes = character_bytes(text);
    if (!drop(text.substr(0, bytes))) break;
    text.remove_prefix(bytes);
  }
  while (side != Side::left && !text.empty()) {
    const size_t start = last_character(text);
    if (!drop(text.substr(start))) break;
    text = text.substr(0, start);
  }
  return text;
}

bool blank(std::string_view character) {
  const Decoded c = decode(character);
  return c.bytes != 0 && is_blank(c.code_point);
}

}  // namespace

size_t character_bytes(std::string_view text) { return std::max(decode(text).bytes, 1u); }

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(character_bytes(text));
  return count;
}

size_t last_character(std::string_view text) {
  if (is_ascii(text.back())) return text.size() - 1;
  for (size_t n = 2; n <= 4 && n <= text.size(); ++n)
    if (decode_utf8(text.substr(text.size() - n)).bytes == n) return text.size() - n;
  return text.size() - 1;
}

size_t character_offset(std::string_view text, size_t index) {
  size_t offset = 0;
  for (; index > 0 && offset < text.size(); --index) offset += character_bytes(text.substr(offset));
  return offset;
}

bool is_blank(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
  return is_space(c);
}

bool is_name_byte(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return letter || c == '_' || (c >= '0' && c <= '9') || static_cast<unsigned char>(c) >= 0x80;
}

std::string_view strip(std::string_view text, Side side) { return strip_if(text, side, blank); }

namespace {

// A set of characters with constant look-up time.
class CharacterSet {
 public:
  explicit CharacterSet(std::string_view set) {
    for (; !set.empty(); set.remove_prefix(character_bytes(set))) {
      const uint32_t number = number_of(set);
      if (number >= has_.size()) has_.resize(number + 1);
      has_[number] = true;
    }
  }
  bool has(std::string_view character) const {
    const uint32_t number = number_of(character);
    return number < has_.size() && has_[number];
  }

 private:
  // A byte outside any character has its own value, which is below all characters beyond ASCII.
  static uint32_t number_of(std::string_view text) {
    const Decoded c = decode_utf8(text);
    return c.bytes == 0          ? static_cast<unsigned char>(text[0])
           : c.code_point < 0x80 ? c.code_point
                                 : c.code_point + 0x80;
  }
  std::vector<bool> has_;
};

}  // namespace

std::string_view strip(std::string_view text, Side side, std::string_view set) {
  const CharacterSet dropped(set);
  return strip_if(text, side, [&](std::string_view character) { return dropped.has(character); });
}

Search::Search(std::string_view wanted, From from) : wanted_(wanted), from_(from), shorter_(wanted.size()) {
  for (size_t i = 1, k = 0; i < wanted.size(); ++i) {
    while (k > 0 && wanted_at(i) != wanted_at(k)) k = shorter_[k - 1];
    if (wanted_at(i) == wanted_at(k)) ++k;
    shorter_[i] = static_cast<uint32_t>(k);
  }
}

size_t Search::in(std::string_view text) const {
  const bool left = from_ == From::left;
  if (wanted_.empty()) return left ? 0 : text.size();
  size_t k = 0;  // bytes of `wanted_` that end where we are
  for (size_t i = 0; i < text.size(); ++i) {
    if (k == 0) {  // on to where it can begin
      const size_t at = left ? text.find(wanted_at(0), i) : text.rfind(wanted_at(0), text.size() - 1 - i);
      if (at == std::string_view::npos) return at;
      i = left ? at : text.size() - 1 - at;
    }
    const char c = text[left ? i : text.size() - 1 - i];
    while (k > 0 && c != wanted_at(k)) k = shorter_[k - 1];
    if (c == wanted_at(k)) ++k;
    if (k == wanted_.size()) return left ? i + 1 - k : text.size() - 1 - i;
  }
  return std::string_view::npos;
}

Status split_blanks(std::string_view text, int64_t most, const Sink& sink) {
  for (text = strip(text, Side::left); !text.empty(); --most) {
    if (most == 0) return sink(text);
    size_t end = 0;
    while (end < text.size() && !blank(text.substr(end))) end += character_bytes(text.substr(end));
    TRY_STATUS(sink(text.substr(0, end)));
    text = strip(text.substr(end), Side::left);
  }
  return {};
}

Status split_blanks_right(std::string_view text, int64_t most, const Sink& sink) {
  for (text = strip(text, Side::right); !text.empty(); --most) {
    if (most == 0) return sink(text);
    size_t start = text.size();
    while (start > 0) {
      const size_t before = last_character(text.substr(0, start));
      if (blank(text.substr(before, start - before))) break;
      start = before;
    }
    TRY_STATUS(sink(text.substr(start)));
    text = strip(text.substr(0, start), Side::right);
  }
  return {};
}

Status split_lines(std::string_view text, bool keep_ends, const Sink& sink) {
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = code_point(text.substr(at));
    size_t bytes = character_bytes(text.substr(at));
    const bool ends = (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (c == '\r' && at + 1 < text.size() && text[at + 1] == '\n') bytes = 2;
    if (ends) {
      TRY_STATUS(sink(text.substr(start, at - start + (keep_ends ? bytes : 0))));
      start = at + bytes;
    }
    at += bytes;
  }
  return start < text.size() ? sink(text.substr(start)) : Status();
}

namespace {

// Replaces each character by `change(code point, previous code point)`. Bytes outside any character stay.
template <class Change>
std::string map_characters(std::string_view text, Change change) {
  std::string out;
  out.reserve(text.size());
  uint32_t before = 0;
  while (!text.empty()) {
    const Decoded c = decode(text);
    if (c.bytes == 0)
      out += text[0];
    else
      append_utf8(out, change(c.code_point, before));
    before = c.code_point;
    text.remove_prefix(std::max(c.bytes, 1u));
  }
  return out;
}

bool is_upper(uint32_t c) { return c < 0x80 ? c >= 'A' && c <= 'Z' : category(c) == Category::lu; }
bool is_lower(uint32_t c) { return c < 0x80 ? c >= 'a' && c <= 'z' : category(c) == Category::ll; }
bool is_cased(uint32_t c) {
  if (c < 0x80) return is_upper(c) || is_lower(c);
  const Category kind = category(c);
  return kind == Category::lu || kind == Category::ll || kind == Category::lt;
}

}  // namespace

std::string upper(std::string_view text) {
  // The one letter of common use whose capital is two letters.
  std::string source(text);
  for (size_t at = source.find("ß"); at != std::string::npos; at = source.find("ß", at)) source.replace(at, 2, "SS");
  return map_characters(source, [](uint32_t c, uint32_t) { return to_upper(c); });
}
std::string lower(std::string_view text) {
  return map_characters(text, [](uint32_t c, uint32_t) { return to_lower(c); });
}
std::string capitalize(std::string_view text) {
  if (text.empty()) return {};
  const size_t first = character_bytes(text);
  return upper(text.substr(0, first)) + lower(text.substr(first));
}
std::string swap_case(std::string_view text) {
  return map_characters(text, [](uint32_t c, uint32_t) { return is_upper(c) ? to_lower(c) : to_upper(c); });
}
std::string title(std::string_view text) {
  return map_characters(text, [](uint32_t c, uint32_t before) { return is_cased(before) ? to_lower(c) : to_upper(c); });
}

std::string title_words(std::string_view text) {
  const auto ends_word = [](uint32_t c) {
    return c == 0 || is_blank(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  return map_characters(text,
                        [&](uint32_t c, uint32_t before) { return ends_word(before) ? to_upper(c) : to_lower(c); });
}

bool all_of(std::string_view text, Class wanted) {
  const auto fits = [wanted](uint32_t c) {
    const bool space = wanted == Class::space;
    if (c < 0x80 && !space) {
      const bool digit = c >= '0' && c <= '9';
      const bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
      return (digit && wanted != Class::alpha) || (letter && (wanted == Class::alpha || wanted == Class::alnum));
    }
    if (space) return is_blank(c);
    const Category kind = category(c);
    // Superscripts and circled digits are digits to Python, but not decimal.
    const bool digit = kind == Category::nd || c == 0xb2 || c == 0xb3 || c == 0xb9 || (c >= 0x2070 && c <= 0x2089);
    switch (wanted) {
      case Class::alpha: return is_letter(c);
      case Class::decimal: return kind == Category::nd;
      case Class::digit: return digit;
      case Class::numeric: return is_number(c);
      case Class::alnum: return is_letter(c) || is_number(c);
      case Class::space: break;
    }
    return false;
  };
  const bool any = !text.empty();
  for (; !text.empty(); text.remove_prefix(character_bytes(text)))
    if (!fits(code_point(text))) return false;
  return any;
}

namespace {

bool has_case(std::string_view text, bool wanted_upper) {
  bool any = false;
  for (; !text.empty(); text.remove_prefix(character_bytes(text))) {
    const uint32_t c = code_point(text);
    if (!is_cased(c)) continue;
    if (is_upper(c) != wanted_upper) return false;
    any = true;
  }
  return any;
}

}  // namespace

bool is_upper_case(std::string_view text) { return has_case(text, true); }
bool is_lower_case(std::string_view text) { return has_case(text, false); }

Status escape_html(Writer& out, std::string_view text) {
  static constexpr std::string_view kMarks = "&<>'\"";
  static constexpr std::string_view kEscapes[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  for (;;) {
    const size_t at = text.find_first_of(kMarks);
    TRY_STATUS(out.add(text.substr(0, at)));
    if (at == std::string_view::npos) return {};
    TRY_STATUS(out.add(kEscapes[kMarks.find(text[at])]));
    text.remove_prefix(at + 1);
  }
}

}  // namespace sluice::jinja
