#include "app/cli/word_wrap.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

std::string wrapped(std::string_view text, size_t columns) {
  WordWrap wrap(columns);
  std::string out = wrap.add(text);
  return out + wrap.finish();
}

TEST(WordWrap, ALineBreaksBetweenWords) {
  EXPECT_EQ(wrapped("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 8), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 13), "one two three");
  EXPECT_EQ(wrapped("one\n\ntwo three", 9), "one\n\ntwo three");
  EXPECT_EQ(wrapped("one two three", 0), "one two three");
}

TEST(WordWrap, PiecesMakeNoDifference) {
  const std::string text =
      "A violin is a bowed instrument, \xe7\x8e\x8b\xe5\xad\x90 and it has four strings.\n\n- a bow\n";
  for (size_t columns = 1; columns < 30; ++columns) {
    WordWrap wrap(columns);
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t bytes = (static_cast<unsigned char>(text[at]) & 0x80) != 0 ? 3 : 1;
      out += wrap.add(std::string_view(text).substr(at, bytes));
      at += bytes;
    }
    EXPECT_EQ(out + wrap.finish(), wrapped(text, columns)) << columns;
  }
}

TEST(WordWrap, AWordLongerThanALineStaysWhole) {
  EXPECT_EQ(wrapped("a incomprehensible b", 6), "a\nincomprehensible b");
  EXPECT_EQ(wrapped("incomprehensible", 6), "incomprehensible");
}

// Two columns each, without blanks between them.
TEST(WordWrap, WideCharactersBreakAnywhere) {
  const std::string wide = "\xe7\x8e\x8b";
  EXPECT_EQ(wrapped(wide + wide + wide, 5), wide + wide + "\n" + wide);
  EXPECT_EQ(text_columns(wide + "a"), 3u);
  EXPECT_EQ(text_columns("e\xcc\x81"), 1u);  // an accent that combines
  EXPECT_EQ(text_columns("\xf0\x9f\x8e\xbb"), 2u);
}

TEST(WordWrap, CodeBlocksStayAsTheyAre) {
  const std::string code = "```\nint a_very_long_line = 1 + 2 + 3;\n```\n";
  EXPECT_EQ(wrapped(code + "one two three", 8), code + "one two\nthree");
}

TEST(WordWrap, ALongerTextIsCut) {
  EXPECT_EQ(cut_to_columns("violin", 6), "violin");
  EXPECT_EQ(cut_to_columns("violins", 6), "violi\xe2\x80\xa6");
  EXPECT_EQ(cut_to_columns("violin", 0), "");
}

TEST(Folded, LinesGoOnBelowBetweenCells) {
  EXPECT_EQ(folded("name   size     problem of it\n", 18), "name   size\n    problem of it\n");
  EXPECT_EQ(folded("short\n", 18), "short\n");
  EXPECT_EQ(folded("aaaaaaaaaaaaaaaaaaaaaaaaa\n", 20), "aaaaaaaaaaaaaaaaaaaa\n    aaaaa\n");
  EXPECT_EQ(folded("a  b\n", 4), "a  b\n");  // too narrow to fold
}

}  // namespace
}  // namespace sluice
