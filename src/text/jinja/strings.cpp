#include "text/jinja/strings.h"

#include <algorithm>
#include <array>

#include "base/unicode.h"

namespace sluice::jinja {

namespace {

uint32_t code_point(std::string_view text) { return decode_utf8(text).code_point; }

// Start of the last character of `text`, which is not empty.
size_t last_character(std::string_view text) {
  for (size_t n = 1; n <= 4 && n <= text.size(); ++n) {
    if (decode_utf8(text.substr(text.size() - n)).bytes == n) return text.size() - n;
  }
  return text.size() - 1;
}

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
  const Decoded c = decode_utf8(character);
  return c.bytes != 0 && is_blank(c.code_point);
}

}  // namespace

size_t character_bytes(std::string_view text) { return std::max(decode_utf8(text).bytes, 1u); }

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(character_bytes(text));
  return count;
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    out.push_back(text.substr(0, character_bytes(text)));
    text.remove_prefix(out.back().size());
  }
  return out;
}

size_t character_offset(std::string_view text, size_t index) {
  size_t offset = 0;
  for (; index > 0 && offset < text.size(); --index) offset += character_bytes(text.substr(offset));
  return offset;
}

bool is_blank(uint32_t c) { return is_space(c) || (c >= 0x1c && c <= 0x1f); }

bool is_name_byte(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return letter || c == '_' || (c >= '0' && c <= '9') || static_cast<unsigned char>(c) >= 0x80;
}

std::string_view strip(std::string_view text, Side side) { return strip_if(text, side, blank); }

std::string_view strip(std::string_view text, Side side, std::string_view set) {
  const std::vector<std::string_view> dropped = characters(set);
  return strip_if(text, side, [&](std::string_view character) {
    return std::find(dropped.begin(), dropped.end(), character) != dropped.end();
  });
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, int64_t most) {
  std::vector<std::string_view> out;
  for (; most != 0; --most) {
    const size_t at = text.find(separator);
    if (at == std::string_view::npos) break;
    out.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  out.push_back(text);
  return out;
}

std::vector<std::string_view> split_at_right(std::string_view text, std::string_view separator, int64_t most) {
  std::vector<std::string_view> out;
  for (; most != 0; --most) {
    const size_t at = text.rfind(separator);
    if (at == std::string_view::npos) break;
    out.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  out.push_back(text);
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string_view> split_blanks(std::string_view text, int64_t most) {
  std::vector<std::string_view> out;
  for (text = strip(text, Side::left); !text.empty(); --most) {
    size_t end = 0;
    while (most != 0 && end < text.size() && !blank(text.substr(end))) end += character_bytes(text.substr(end));
    if (most == 0) {
      out.push_back(text);
      break;
    }
    out.push_back(text.substr(0, end));
    text = strip(text.substr(end), Side::left);
  }
  return out;
}

std::vector<std::string_view> split_blanks_right(std::string_view text, int64_t most) {
  std::vector<std::string_view> out;
  for (text = strip(text, Side::right); !text.empty(); --most) {
    if (most == 0) {
      out.push_back(text);
      break;
    }
    size_t start = text.size();
    while (start > 0) {
      const size_t before = last_character(text.substr(0, start));
      if (blank(text.substr(before, start - before))) break;
      start = before;
    }
    out.push_back(text.substr(start));
    text = strip(text.substr(0, start), Side::right);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> out;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = code_point(text.substr(at));
    size_t bytes = character_bytes(text.substr(at));
    const bool ends = (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (c == '\r' && at + 1 < text.size() && text[at + 1] == '\n') bytes = 2;
    if (ends) {
      out.push_back(text.substr(start, at - start + (keep_ends ? bytes : 0)));
      start = at + bytes;
    }
    at += bytes;
  }
  if (start < text.size()) out.push_back(text.substr(start));
  return out;
}

namespace {

// Each character through `change(code point, the one before)`; bytes that are no character stay.
template <class Change>
std::string map_characters(std::string_view text, Change change) {
  std::string out;
  out.reserve(text.size());
  uint32_t before = 0;
  while (!text.empty()) {
    const Decoded c = decode_utf8(text);
    if (c.bytes == 0) {
      out += text[0];
    } else {
      append_utf8(out, change(c.code_point, before));
    }
    before = c.code_point;
    text.remove_prefix(std::max(c.bytes, 1u));
  }
  return out;
}

bool is_upper(uint32_t c) { return category(c) == Category::lu; }
bool is_lower(uint32_t c) { return category(c) == Category::ll; }
bool is_cased(uint32_t c) { return is_upper(c) || is_lower(c) || category(c) == Category::lt; }

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
    const Category kind = category(c);
    // Superscripts and circled digits are digits to Python, but not decimal.
    const bool digit = kind == Category::nd || c == 0xb2 || c == 0xb3 || c == 0xb9 || (c >= 0x2070 && c <= 0x2089);
    switch (wanted) {
      case Class::alpha: return is_letter(c);
      case Class::decimal: return kind == Category::nd;
      case Class::digit: return digit;
      case Class::numeric: return is_number(c);
      case Class::alnum: return is_letter(c) || is_number(c);
      case Class::space: return is_blank(c);
    }
    return false;
  };
  const bool any = !text.empty();
  for (; !text.empty(); text.remove_prefix(character_bytes(text))) {
    if (!fits(code_point(text))) return false;
  }
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

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\'': out += "&#39;"; break;
      case '"': out += "&#34;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace sluice::jinja
