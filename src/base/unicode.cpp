#include "base/unicode.h"

namespace sluice {

Decoded decode_utf8(std::string_view text) {
  if (text.empty()) return {};
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const uint32_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return {};
  uint32_t code_point = first & (0xffu >> (length + 1));
  for (uint32_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code_point = code_point << 6 | (byte(i) & 0x3f);
  }
  static constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xd800 && code_point < 0xe000;
  if (code_point < kLeast[length] || code_point > 0x10ffff || surrogate) return {};
  return {code_point, length};
}

void append_utf8(std::string& out, uint32_t c) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80)
    put(c);
  else if (c < 0x800)
    put(0xc0 | c >> 6), put(0x80 | (c & 0x3f));
  else if (c < 0x10000)
    put(0xe0 | c >> 12), put(0x80 | (c >> 6 & 0x3f)), put(0x80 | (c & 0x3f));
  else
    put(0xf0 | c >> 18), put(0x80 | (c >> 12 & 0x3f)), put(0x80 | (c >> 6 & 0x3f)), put(0x80 | (c & 0x3f));
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Decoded c = decode_utf8(text);
    if (c.bytes == 0) return false;
    text.remove_prefix(c.bytes);
  }
  return true;
}

size_t incomplete_tail(std::string_view text) {
  for (size_t n = 1; n <= 3 && n <= text.size(); ++n) {
    const auto byte = static_cast<unsigned char>(text[text.size() - n]);
    if ((byte & 0xc0) == 0x80) continue;  // a continuation byte: look further back for its first one
    const size_t length = byte >= 0xf0 && byte <= 0xf4 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;
    return byte < 0xf5 && length > n ? n : 0;
  }
  return 0;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Decoded c = decode_utf8(text);
    if (c.bytes == 0)
      append_utf8(out, 0xfffd);
    else
      out += text.substr(0, c.bytes);
    text.remove_prefix(c.bytes == 0 ? 1 : c.bytes);
  }
  return out;
}

bool is_letter(uint32_t code_point) {
  const Category c = category(code_point);
  return c >= Category::lu && c <= Category::lo;
}
bool is_mark(uint32_t code_point) {
  const Category c = category(code_point);
  return c >= Category::mn && c <= Category::me;
}
bool is_number(uint32_t code_point) {
  const Category c = category(code_point);
  return c >= Category::nd && c <= Category::no;
}
bool is_punctuation(uint32_t code_point) {
  const Category c = category(code_point);
  return c >= Category::pc && c <= Category::po;
}
bool is_symbol(uint32_t code_point) {
  const Category c = category(code_point);
  return c >= Category::sm && c <= Category::so;
}
bool is_space(uint32_t code_point) {
  if (code_point >= 0x09 && code_point <= 0x0d) return true;
  if (code_point == 0x85) return true;
  return category(code_point) >= Category::zs;
}

}  // namespace sluice
