// UTF-8, general categories, simple case mapping and NFC. The data come from utf8proc. tools/unicode_tables.cpp writes
// them as tables when the build is configured, so that every build has the same data, also in a page.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

struct Decoded {
  uint32_t code_point = 0;
  uint32_t bytes = 0;  // 1 to 4; 0 when the text does not begin with a well-formed character
};

// The first character of `text`. Over-long forms, surrogates and values above 10FFFF are not well-formed.
Decoded decode_utf8(std::string_view text);
void append_utf8(std::string& out, uint32_t code_point);
bool is_utf8(std::string_view text);
// The number of bytes at the end of `text` that begin an unfinished character (0 to 3).
size_t incomplete_tail(std::string_view text);
// `text` with every byte that is not part of a well-formed character replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

// Unicode general category, as the regular expressions of tokenizers name it.
enum class Category : uint8_t {
  other,
  lu,
  ll,
  lt,
  lm,
  lo,
  mn,
  mc,
  me,
  nd,
  nl,
  no,
  pc,
  pd,
  ps,
  pe,
  pi,
  pf,
  po,
  sm,
  sc,
  sk,
  so,
  zs,
  zl,
  zp
};
Category category(uint32_t code_point);
bool is_letter(uint32_t code_point);       // \p{L}
bool is_mark(uint32_t code_point);         // \p{M}
bool is_number(uint32_t code_point);       // \p{N}
bool is_punctuation(uint32_t code_point);  // \p{P}
bool is_symbol(uint32_t code_point);       // \p{S}
bool is_space(uint32_t code_point);        // \s: White_Space
uint32_t to_upper(uint32_t code_point);    // simple case mapping
uint32_t to_lower(uint32_t code_point);

// Canonical composition. Text that is not UTF-8 is returned unchanged.
std::string to_nfc(std::string_view text);

}  // namespace sluice
