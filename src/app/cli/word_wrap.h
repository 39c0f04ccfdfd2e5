// Breaks text for a terminal at its words, while the text arrives in pieces. A word is held back until its end is
// known. Lines of code blocks (between ```) stay as they are, so that they can be copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

// Columns that a character takes on a terminal: 0 of marks that combine, 2 of wide ones (East Asian, most emoji).
size_t character_columns(uint32_t code_point);
size_t text_columns(std::string_view utf8);
// As much of `utf8` as fits into so many columns, with "…" where something is missing.
std::string cut_to_columns(std::string_view utf8, size_t columns);

// Lines of a table that are longer than `columns` go on below, indented: broken between cells where that is possible.
std::string folded(std::string_view text, size_t columns);

class WordWrap {
 public:
  explicit WordWrap(size_t columns) : columns_(columns) {}  // 0: nothing is broken
  // Whole characters of UTF-8; gives what can be shown.
  std::string add(std::string_view text);
  std::string finish();  // the word that was held back

 private:
  void take(uint32_t code_point, std::string_view character, std::string& out);
  void end_word(std::string& out);

  size_t columns_;
  size_t column_ = 0;          // of the text that was given out
  std::string blanks_, word_;  // held back
  size_t word_columns_ = 0;
  std::string line_start_;  // the first characters of the line, to see ```
  bool in_code_ = false;
};

}  // namespace sluice
