#include "app/run/prompt_lines.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice {
namespace {

struct Typed {
  std::string text;
  bool quoted = false;
  size_t lines = 0;  // that were wanted
  bool operator==(const Typed&) const = default;
};

Typed typed(const std::vector<std::string>& lines) {
  PromptLines prompt;
  size_t taken = 0;
  while (taken < lines.size() && !prompt.add(lines[taken++])) {
  }
  return {prompt.text(), prompt.quoted(), taken};
}

TEST(PromptLines, OneLineIsAPrompt) {
  EXPECT_EQ(typed({"hello", "more"}), (Typed{"hello", false, 1}));
  EXPECT_EQ(typed({"", "more"}), (Typed{"", false, 1}));
  EXPECT_EQ(typed({"say \"\"\"this\"\"\"", "more"}), (Typed{"say \"\"\"this\"\"\"", false, 1}));
}

TEST(PromptLines, ABackslashGoesOn) {
  EXPECT_EQ(typed({"a\\", "b\\", "c", "d"}), (Typed{"a\nb\nc", false, 3}));
  EXPECT_EQ(typed({"a\\", "\"\"\"b", "c"}), (Typed{"a\n\"\"\"b", false, 2}));
}

TEST(PromptLines, ThreeQuotesHoldSeveralLines) {
  EXPECT_EQ(typed({"\"\"\"a\\", "", " b", "c\"\"\" ", "d"}), (Typed{"a\\\n\n b\nc", true, 4}));
  EXPECT_EQ(typed({"\"\"\"", "a", "\"\"\""}), (Typed{"\na\n", true, 3}));
  EXPECT_EQ(typed({"  \"\"\"/a\"\"\"", "b"}), (Typed{"/a", true, 1}));
}

TEST(PromptLines, ACommandsTextMayBeQuotedToo) {
  EXPECT_EQ(typed({"/system \"\"\"a", "b\"\"\"", "c"}), (Typed{"/system a\nb", false, 2}));
  EXPECT_EQ(typed({"/system a \"\"\"b", "c"}), (Typed{"/system a \"\"\"b", false, 1}));
}

}  // namespace
}  // namespace sluice
