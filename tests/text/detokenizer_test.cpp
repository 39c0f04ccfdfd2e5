#include "text/detokenizer.h"

#include "base/unicode.h"
#include "tests/text/vocabularies.h"

namespace sluice {
namespace {

using test::value_of;

TEST(Detokenizer, NeverShowsHalfACharacter) {
  for (const char* model : {"gemma4_dense", "qwen3_5", "deepseek_v3"}) {
    const Tokenizer tokenizer(test::model_vocabulary(model));
    const std::string text = "naïve 日本語 👩‍👧 ½ e\u0301";
    Detokenizer stream(tokenizer);
    std::string shown;
    size_t held_back = 0;
    for (const int32_t id : tokenizer.encode(text)) {
      const std::string piece = stream.push(id);
      EXPECT_TRUE(is_utf8(piece)) << model;
      held_back += piece.empty() ? 1 : 0;
      shown += piece;
    }
    EXPECT_GT(held_back, 5u) << model;  // these vocabularies spell such characters byte by byte
    EXPECT_EQ(shown, tokenizer.decode(tokenizer.encode(text))) << model;
    EXPECT_EQ(stream.flush(), "") << model;
  }
}

TEST(Detokenizer, ShowsTheBeginningOfACharacterAsReplacementAtTheEnd) {
  const Tokenizer tokenizer(value_of(test::read_tokenizer(test::kSentencePiece)));
  Detokenizer stream(tokenizer);
  EXPECT_EQ(stream.push(4), "a");
  EXPECT_EQ(stream.push(2), "");
  EXPECT_EQ(stream.flush(), "\ufffd");
  EXPECT_EQ(stream.push(2), "");
  EXPECT_EQ(stream.push(3), "é");
}

TEST(Detokenizer, ReplacesABrokenCharacterOnceTheNextTokenShowsIt) {
  const Tokenizer tokenizer(value_of(test::read_tokenizer(test::kSentencePiece)));
  Detokenizer stream(tokenizer);
  EXPECT_EQ(stream.push(2), "");
  EXPECT_EQ(stream.push(4), "\ufffda");
}

TEST(Detokenizer, LeavesOutSpecialTokensUnlessAsked) {
  const Tokenizer tokenizer(value_of(test::read_tokenizer(test::kSentencePiece)));
  Detokenizer without(tokenizer);
  EXPECT_EQ(without.push(0) + without.push(6), " a");
  Detokenizer with(tokenizer, false);
  EXPECT_EQ(with.push(0) + with.push(6), "<bos> a");
}

TEST(Detokenizer, KeepsACharacterTogetherAcrossASkippedToken) {
  const Tokenizer tokenizer(value_of(test::read_tokenizer(test::kSentencePiece)));
  Detokenizer stream(tokenizer);
  std::string shown;  // one push a statement: operands of + have no order
  for (const int32_t id : {2, 0, 3}) shown += stream.push(id);
  EXPECT_EQ(shown, "é");
}

TEST(Detokenizer, DropsTheSpaceThatEncodingPutBeforeTheText) {
  GgufVocabulary gguf = test::gguf_of("llama", "", {"<unk>", "<s>", "</s>", "\u2581", "a", "\u2581a"});
  gguf.token_type = {2, 3, 3, 1, 1, 1};
  gguf.scores = {0, 0, 0, -2, -3, -1};
  const Tokenizer tokenizer(value_of(vocabulary_from_gguf(gguf)));
  EXPECT_EQ(tokenizer.encode("a a"), (std::vector<int32_t>{5, 5}));
  Detokenizer stream(tokenizer);
  std::string shown = stream.push(5);
  shown += stream.push(5);
  EXPECT_EQ(shown, "a a");
  EXPECT_EQ(stream.flush(), "");
  EXPECT_EQ(stream.push(5), "a");  // another text
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{5, 5}), "a a");
}

// The Unicode Standard, table 3-8 (U+FFFD for each maximal subpart of an ill-formed sequence).
TEST(LossyUtf8, ReplacesEachLongestBeginningOnce) {
  EXPECT_EQ(lossy_utf8("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"), "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdA");
  EXPECT_EQ(lossy_utf8("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"), "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdA");
  EXPECT_EQ(lossy_utf8("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"), "\ufffd\ufffd\ufffd\ufffd\ufffdA\ufffd\ufffdB");
  EXPECT_EQ(lossy_utf8("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"), "\ufffd\ufffd\ufffd\ufffdA");
  EXPECT_EQ(lossy_utf8("a\u00e9\u20ac\U0001f600"), "a\u00e9\u20ac\U0001f600");
  EXPECT_EQ(lossy_utf8("\xf0\x9f\x98"), "\ufffd");
}

}  // namespace
}  // namespace sluice
