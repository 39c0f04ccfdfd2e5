#include "text/pre_tokenizer.h"

#include <gmock/gmock.h>

#include "tests/text/vocabularies.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> pieces_of(std::string_view text, const std::vector<Split>& splits) {
  std::vector<std::string_view> pieces;
  split_text(text, splits, pieces);
  return {pieces.begin(), pieces.end()};
}

// splits.json: 60 texts cut by Oniguruma (tests/data/tokenizers/make_splits.py).
TEST(Splits, CutAsOnigurumaDoes) {
  const Json golden = test::read_data("tokenizers/splits.json");
  const Json::Array& texts = golden.find("texts")->as_array();
  ASSERT_EQ(golden.find("patterns")->as_array().size(), 20u);
  for (const Json& row : golden.find("patterns")->as_array()) {
    const std::string& regex = row.find("regex")->as_string();
    const auto split = find_split(regex);
    ASSERT_TRUE(split) << regex;
    for (size_t i = 0; i < texts.size(); ++i) {
      std::vector<std::string> want;
      for (const Json& piece : row.find("pieces")->as_array()[i].as_array()) want.push_back(piece.as_string());
      EXPECT_EQ(pieces_of(texts[i].as_string(), {*split}), want) << regex;
    }
  }
}

TEST(Splits, AnotherExpressionIsNotKnown) {
  EXPECT_EQ(find_split(R"(\p{L}*)"), std::nullopt);
  EXPECT_EQ(find_split(""), std::nullopt);
}

TEST(Splits, ControlCharactersAndTheirEscapesAreOneSpelling) {
  EXPECT_EQ(find_split("[\r\n]"), Split::newline);
  EXPECT_EQ(find_split("[\\r\\n]"), Split::newline);
}

TEST(Splits, EachCutsThePiecesOfTheOneBefore) {
  const PreTokenizer* deepseek = find_pre_tokenizer("deepseek-v3");
  ASSERT_NE(deepseek, nullptr);
  EXPECT_THAT(pieces_of("x12345 日本go!", deepseek->splits), ElementsAre("x", "123", "45", " ", "日本", "go", "!"));
}

TEST(Splits, WithoutExpressionsTheTextIsOnePiece) {
  EXPECT_THAT(pieces_of("a b", {}), ElementsAre("a b"));
  EXPECT_THAT(pieces_of("", {}), IsEmpty());
  EXPECT_THAT(pieces_of("", {Split::qwen35}), IsEmpty());
}

TEST(Splits, BytesThatAreNotUtf8AreKept) {
  for (const Split split : {Split::gpt2, Split::qwen2, Split::qwen35, Split::llama3, Split::gpt4o, Split::deepseek_v3,
                            Split::trailing_space, Split::kana_and_han}) {
    const std::string text = "a\xff \xe2\x82\t\xf0\x9f 1\x80";
    std::string joined;
    for (const std::string& piece : pieces_of(text, {split})) joined += piece;
    EXPECT_EQ(joined, text);
  }
}

TEST(Splits, LongRunsTakeLinearTime) {
  // A quadratic matcher would need minutes for these.
  const size_t n = 400000;
  for (const std::string& text : {std::string(n, ' ') + "x", std::string(n, '\n') + "x", std::string(n, 'a'),
                                  std::string(n, '.') + "x", std::string(n, '1'), std::string(n, '\'')}) {
    for (const char* name :
         {"qwen35", "deepseek-v3", "deepseek-llm", "deepseek-coder", "gpt-2", "gpt-4o", "falcon", "default"}) {
      EXPECT_FALSE(pieces_of(text, find_pre_tokenizer(name)->splits).empty());
    }
  }
}

TEST(PreTokenizers, AreFoundByNameAndByMeaning) {
  EXPECT_EQ(find_pre_tokenizer("no such"), nullptr);
  EXPECT_EQ(find_pre_tokenizer({Split::qwen35}, false)->name, "qwen35");
  EXPECT_EQ(find_pre_tokenizer({Split::qwen2}, false)->name, "qwen2");
  EXPECT_EQ(find_pre_tokenizer({Split::qwen35}, true), nullptr);
  EXPECT_EQ(find_pre_tokenizer({Split::llama3}, true)->name, "llama-bpe");
}

}  // namespace
}  // namespace sluice
