// Python's string operations on UTF-8, by characters (code points). A byte outside any character counts as one.
// Each takes linear time and returns at most three times its input, so the charge for a builtin's call (machine.h)
// covers it. Operations with larger results write to a Writer or, part by part, to a Sink.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/machine.h"

namespace sluice::jinja {

// The number of bytes of the first character of `text`, which must not be empty.
size_t character_bytes(std::string_view text);
size_t count_characters(std::string_view text);
// The position of the last character of `text`, which must not be empty.
size_t last_character(std::string_view text);
// The byte offset of character `index`, or the text's size.
size_t character_offset(std::string_view text, size_t index);

// str.isspace() of one character: Unicode's white space and the separators U+001C to U+001F.
bool is_blank(uint32_t code_point);
// A byte of a name: letters, digits, underscore and everything outside ASCII.
bool is_name_byte(char byte);

enum class Side : uint8_t { left, right, both };
// Removes white space, or the characters of `set`, at the sides.
std::string_view strip(std::string_view text, Side side);
std::string_view strip(std::string_view text, Side side, std::string_view set);

// Searches for a text with Knuth, Morris and Pratt's table. std::string's find takes the product of both lengths in the
// worst case.
class Search {
 public:
  enum class From : uint8_t { left, right };
  explicit Search(std::string_view wanted, From from = From::left);
  // The first position of `wanted` from that side, or npos. The text of `wanted` must still be alive.
  size_t in(std::string_view text) const;
  size_t size() const { return wanted_.size(); }

 private:
  char wanted_at(size_t i) const { return wanted_[from_ == From::left ? i : wanted_.size() - 1 - i]; }

  std::string_view wanted_;
  From from_;
  std::vector<uint32_t> shorter_;  // for the first i + 1 bytes: the longest prefix that is also their end
};

// Takes the parts of a text, in order; the last one first if the function's name says "right".
using Sink = std::function<Status(std::string_view)>;
// str.split and str.rsplit without a separator; `most` splits, or all of them when negative.
Status split_blanks(std::string_view text, int64_t most, const Sink& sink);
Status split_blanks_right(std::string_view text, int64_t most, const Sink& sink);
Status split_lines(std::string_view text, bool keep_ends, const Sink& sink);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string swap_case(std::string_view text);
// str.title(): a word is a run of letters.
std::string title(std::string_view text);
// The filter "title": a word ends at white space and - ( { [ <.
std::string title_words(std::string_view text);

// str.isalpha() and its like: there is a character, and each belongs to the class.
enum class Class : uint8_t { alpha, digit, decimal, numeric, alnum, space };
bool all_of(std::string_view text, Class wanted);
// str.isupper(), str.islower(): at least one letter with case, and none of the other case.
bool is_upper_case(std::string_view text);
bool is_lower_case(std::string_view text);

// markupsafe.escape
Status escape_html(Writer& out, std::string_view text);

}  // namespace sluice::jinja
