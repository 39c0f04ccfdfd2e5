#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

namespace sluice {
namespace {

TEST(StopStrings, CutsBeforeTheStopString) {
  StopStrings stops({"END"});
  EXPECT_EQ(stops.push("some END more"), "some ");
  EXPECT_EQ(stops.stopped(), 0u);
  EXPECT_EQ(stops.push("even more"), "");
}

TEST(StopStrings, HoldsBackWhatMayBeItsBeginning) {
  StopStrings stops({"\n\nUser:"});
  EXPECT_EQ(stops.push("yes\n"), "yes");
  EXPECT_EQ(stops.push("\nUs"), "");
  EXPECT_EQ(stops.push("ually"), "\n\nUsually");
  EXPECT_EQ(stops.push("\n\n"), "");
  EXPECT_EQ(stops.stopped(), std::nullopt);
  EXPECT_EQ(stops.flush(), "\n\n");
}

TEST(StopStrings, HoldsBackNoMoreThanTheLongestBeginning) {
  StopStrings stops({"aab"});
  EXPECT_EQ(stops.push("aaa"), "a");
  EXPECT_EQ(stops.push("b"), "");
  EXPECT_EQ(stops.stopped(), 0u);
}

TEST(StopStrings, TakesTheOneThatIsCompleteFirst) {
  StopStrings stops({"abcd", "bc"});
  EXPECT_EQ(stops.push("xabcd"), "xa");
  EXPECT_EQ(stops.stopped(), 1u);
}

TEST(StopStrings, TakesTheLongestOfThoseCompleteAtOnce) {
  StopStrings stops({"c", "abc", "bc"});
  EXPECT_EQ(stops.push("xabc"), "x");
  EXPECT_EQ(stops.stopped(), 1u);
}

TEST(StopStrings, WithoutStopStringsEverythingPasses) {
  StopStrings none({});
  EXPECT_EQ(none.push("text"), "text");
  StopStrings empty({""});
  EXPECT_EQ(empty.push("text"), "text");
  EXPECT_EQ(empty.push(""), "");
  EXPECT_EQ(empty.stopped(), std::nullopt);
}

TEST(StopStrings, PiecesMakeNoDifference) {
  const std::vector<std::string> words = {"aba", "bb", "abab", "caab"};
  std::mt19937 random(1);
  size_t stopped = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (size_t i = random() % 12; i > 0; --i) text += static_cast<char>('a' + random() % 3);
    StopStrings whole(words);
    std::string expected = whole.push(text);
    const auto found = whole.stopped();
    expected += whole.flush();

    StopStrings pieces(words);
    std::string shown;
    for (size_t at = 0; at < text.size();) {
      const size_t length = 1 + random() % 3;
      shown += pieces.push(std::string_view(text).substr(at, length));
      at += length;
    }
    EXPECT_EQ(pieces.stopped(), found) << text;
    EXPECT_EQ(shown + pieces.flush(), expected) << text;
    stopped += found.has_value() ? 1 : 0;
    EXPECT_TRUE(found || expected == text) << text;
  }
  EXPECT_GT(stopped, 200u);
  EXPECT_LT(stopped, 1800u);
}

}  // namespace
}  // namespace sluice
