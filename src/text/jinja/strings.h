// Python's string operations on UTF-8, by characters (code points). A byte that belongs to no character counts as one.
// Results are never much longer than their input, so nothing here is bounded; what multiplies text asks a Machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::jinja {

// Bytes of the first character of `text`, which is not empty.
size_t character_bytes(std::string_view text);
size_t count_characters(std::string_view text);
std::vector<std::string_view> characters(std::string_view text);
// Byte offset of character `index`, or the text's size.
size_t character_offset(std::string_view text, size_t index);

// str.isspace() of one character: Unicode's white space and the separators U+001C to U+001F.
bool is_blank(uint32_t code_point);
// A byte of a name: letters, digits, underscore and everything outside ASCII.
bool is_name_byte(char byte);

enum class Side : uint8_t { left, right, both };
// Without white space at the sides, or without the characters of `set`.
std::string_view strip(std::string_view text, Side side);
std::string_view strip(std::string_view text, Side side, std::string_view set);

// str.split and str.rsplit; `most` splits, or all of them when negative. An empty separator is the caller's error.
std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, int64_t most);
std::vector<std::string_view> split_at_right(std::string_view text, std::string_view separator, int64_t most);
std::vector<std::string_view> split_blanks(std::string_view text, int64_t most);
std::vector<std::string_view> split_blanks_right(std::string_view text, int64_t most);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends = false);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string swap_case(std::string_view text);
// str.title(): a word is a run of letters.
std::string title(std::string_view text);
// The filter "title": a word ends at white space and - ( { [ <.
std::string title_words(std::string_view text);

// str.isalpha() and its like: every character is of the class and there is one.
enum class Class : uint8_t { alpha, digit, decimal, numeric, alnum, space };
bool all_of(std::string_view text, Class wanted);
// str.isupper(), str.islower(): at least one letter with case and none of the other.
bool is_upper_case(std::string_view text);
bool is_lower_case(std::string_view text);

// markupsafe.escape
std::string escape_html(std::string_view text);

}  // namespace sluice::jinja
