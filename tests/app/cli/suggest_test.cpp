#include "base/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice {
namespace {

const std::vector<std::string> kWords = {"list", "inspect", "convert", "--max-tokens", "--memory"};

TEST(Suggest, OneLetterMissingTooManyWrongOrExchanged) {
  EXPECT_EQ(nearest_word("lst", kWords), "list");
  EXPECT_EQ(nearest_word("listt", kWords), "list");
  EXPECT_EQ(nearest_word("lisd", kWords), "list");
  EXPECT_EQ(nearest_word("ilst", kWords), "list");
  EXPECT_EQ(nearest_word("LIST", kWords), "list");
}

TEST(Suggest, LongerWordsMayHaveMoreMistakes) {
  EXPECT_EQ(nearest_word("--max_token", kWords), "--max-tokens");
  EXPECT_EQ(nearest_word("conver", kWords), "convert");
  EXPECT_EQ(nearest_word("insp", kWords), "inspect");  // begins it
}

TEST(Suggest, NothingIsNear) {
  for (const char* word : {"", "fly", "serve", "--colour", "x"}) EXPECT_EQ(nearest_word(word, kWords), "") << word;
  EXPECT_EQ(nearest_word(std::string(100, 'l'), kWords), "");
  EXPECT_EQ(did_you_mean("fly", kWords), "");
  EXPECT_EQ(did_you_mean("lst", kWords), ": did you mean list?");
}

}  // namespace
}  // namespace sluice
