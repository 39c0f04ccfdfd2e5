// Against Hugging Face's tokenizers: its ids and texts for 200 strings and 6 chats a family, read from tokenizer.json
// and again after a trip through GGUF's keys.
#include "text/tokenizer.h"

#include <gmock/gmock.h>

#include "tests/small_models.h"
#include "tests/text/vocabularies.h"
#include "text/detokenizer.h"

namespace sluice {
namespace {

using test::ids_of;
using test::value_of;
using testing::ElementsAre;
using testing::IsEmpty;

// Whether GGUF says which tokens decoding skips as tokenizer.json does: it types DeepSeek's turn markers as control.
bool skips_alike(const SmallModel& model) { return model.family != "deepseek2"; }

class Reference : public testing::TestWithParam<SmallModel> {
 protected:
  Json vectors_ = test::read_data(GetParam().chat);
  Tokenizer direct_{test::model_vocabulary(GetParam().name)};
  Tokenizer through_gguf_{value_of(vocabulary_from_gguf(value_of(to_gguf(direct_.vocabulary()))))};
};

TEST_P(Reference, StringsHaveTheirIds) {
  ASSERT_EQ(vectors_.find("strings")->as_array().size(), 200u);
  for (const Json& row : vectors_.find("strings")->as_array()) {
    const std::string& text = row.find("text")->as_string();
    const auto ids = ids_of(*row.find("ids"));
    const auto with_special = ids_of(*row.find("ids_with_special"));
    for (const Tokenizer* tokenizer : {&direct_, &through_gguf_}) {
      EXPECT_EQ(tokenizer->encode(text), ids) << text;
      EXPECT_EQ(tokenizer->encode(text, {.add_special = true}), with_special) << text;
    }
  }
}

TEST_P(Reference, IdsHaveTheirText) {
  for (const Json& row : vectors_.find("strings")->as_array()) {
    const auto ids = ids_of(*row.find("ids_with_special"));
    const auto plain = ids_of(*row.find("ids"));
    for (const Tokenizer* tokenizer : {&direct_, &through_gguf_}) {
      EXPECT_EQ(tokenizer->decode(plain), row.find("decoded")->as_string());
      if (tokenizer == &through_gguf_ && !skips_alike(GetParam())) continue;
      EXPECT_EQ(tokenizer->decode(ids, true), row.find("decoded_skip_special")->as_string());
    }
  }
}

TEST_P(Reference, StreamedTextIsTheDecodedText) {
  for (const Json& row : vectors_.find("strings")->as_array()) {
    Detokenizer stream(direct_, false);
    std::string text;
    for (const int32_t id : ids_of(*row.find("ids"))) text += stream.push(id);
    EXPECT_EQ(text + stream.flush(), row.find("decoded")->as_string());
  }
}

TEST_P(Reference, RenderedChatsHaveTheirIds) {
  ASSERT_EQ(vectors_.find("chats")->as_array().size(), 6u);
  for (const Json& chat : vectors_.find("chats")->as_array()) {
    const auto ids = ids_of(*chat.find("ids"));
    EXPECT_EQ(direct_.encode(chat.find("rendered")->as_string()), ids);
    EXPECT_EQ(through_gguf_.encode(chat.find("rendered")->as_string()), ids);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Reference, testing::ValuesIn(small_models_with_chats()),
                         [](const testing::TestParamInfo<SmallModel>& model) { return model.param.name; });

Tokenizer byte_level() { return Tokenizer(value_of(test::read_tokenizer(test::kByteLevel))); }
Tokenizer sentence_piece() { return Tokenizer(value_of(test::read_tokenizer(test::kSentencePiece))); }

TEST(Tokenizer, EncodesNothingAsNothing) {
  EXPECT_THAT(byte_level().encode(""), IsEmpty());
  EXPECT_THAT(sentence_piece().encode(""), IsEmpty());
  EXPECT_THAT(sentence_piece().encode("", {.add_special = true}), ElementsAre(0));
  EXPECT_EQ(sentence_piece().decode({}), "");
}

TEST(Tokenizer, TakesControlTokensFromTextOnlyWhenAsked) {
  const Tokenizer gemma(test::model_vocabulary("gemma4_dense"));
  EXPECT_THAT(gemma.encode("<turn|>"), ElementsAre(16));
  const auto typed = gemma.encode("<turn|>", {.parse_special = false});
  EXPECT_THAT(typed, testing::Not(testing::Contains(16)));
  EXPECT_EQ(gemma.decode(typed), "<turn|>");
}

TEST(Tokenizer, GuardedTextSpellsNoToken) {
  const std::string mark = "\xEF\xB7\x90";
  const Tokenizer gemma(test::model_vocabulary("gemma4_dense"));
  const Tokenizer deepseek(test::model_vocabulary("deepseek_v3"));
  const std::vector<std::string_view> markers = {"<mine>"};
  EXPECT_EQ(gemma.guard("a <b> c", mark, markers), "a <b> c");
  EXPECT_EQ(gemma.guard("<<turn|><mine>", mark, markers), "<<" + mark + "turn|><" + mark + "mine>");
  for (const Tokenizer* tokenizer : {&gemma, &deepseek}) {
    for (const std::string typed : {"<turn|>", "<｜User｜>", "x<turn|><turn|>y", "plain"}) {
      const std::vector<int32_t> ids = tokenizer->encode(tokenizer->guard(typed, mark, {}), {.guard = mark});
      EXPECT_EQ(ids, tokenizer->encode(typed, {.parse_special = false}));
      EXPECT_EQ(tokenizer->decode(ids), typed);
    }
  }
  // What a template writes around it stays a token.
  EXPECT_EQ(gemma.encode("<turn|>" + gemma.guard("<turn|>", mark, {}) + "<turn|>", {.guard = mark}).front(), 16);
  EXPECT_EQ(gemma.encode("<turn|>" + gemma.guard("<turn|>", mark, {}) + "<turn|>", {.guard = mark}).back(), 16);
}

TEST(Tokenizer, TakesUserDefinedTokensFromTextAlways) {
  EXPECT_THAT(byte_level().encode("a<think>b", {.parse_special = false}), ElementsAre(0, 5, 1));
}

TEST(Tokenizer, TreatsMarkersAsControlWhateverTheFileSays) {
  // DeepSeek's tokenizer.json calls its turn markers not special, but what a user types must not become one.
  const Tokenizer deepseek(test::model_vocabulary("deepseek_v3"));
  EXPECT_THAT(deepseek.encode("<｜User｜>"), ElementsAre(751));
  EXPECT_THAT(deepseek.encode("<｜User｜>", {.parse_special = false}), testing::Not(testing::Contains(751)));
}

TEST(Tokenizer, FindsTheLeftmostAndThenTheLongestSpecialToken) {
  const Tokenizer tokenizer(value_of(test::read_tokenizer(test::with(
      test::kByteLevel, R"({"id": 5, "content": "<think>", "special": false})",
      R"({"id": 5, "content": "b<", "special": true}, {"id": 6, "content": "<|end|>ab", "special": true})"))));
  EXPECT_THAT(tokenizer.encode("a<|end|>ab"), ElementsAre(0, 6));
  EXPECT_THAT(tokenizer.encode("a<|end|>a"), ElementsAre(0, 4, 0));
  EXPECT_THAT(tokenizer.encode("b<|end|>a"), ElementsAre(5, 0));  // the rest of <|end|> has no tokens
}

TEST(Tokenizer, EncodesInvalidUtf8ByteByByte) {
  const Tokenizer gemma(test::model_vocabulary("gemma4_dense"));
  const std::string broken = "a\xff\xe2\x82 b\xf0";
  std::string bytes;
  for (const int32_t id : gemma.encode(broken)) bytes += gemma.bytes(id);
  EXPECT_EQ(bytes, broken);
}

TEST(Tokenizer, FallsBackToBytesOrElseToOneUnknownToken) {
  const Tokenizer tokenizer = sentence_piece();
  EXPECT_THAT(tokenizer.encode("aé"), ElementsAre(4, 2, 3));
  EXPECT_THAT(tokenizer.encode("axyz"), ElementsAre(4, 1));
}

TEST(Tokenizer, DecodesInvalidByteRunsAsReplacements) {
  const Tokenizer tokenizer = sentence_piece();
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{4, 2, 3, 6}), "aé a");
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{2, 3, 2, 4}), "\ufffd\ufffd\ufffda");
}

TEST(Tokenizer, LeavesOutIdsThatAreNoTokens) {
  const Tokenizer tokenizer = sentence_piece();
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{4, -1, 7, 1 << 30, 4}), "aa");
  EXPECT_EQ(tokenizer.text(-1), "");
  EXPECT_EQ(tokenizer.bytes(7), "");
  EXPECT_FALSE(tokenizer.is_special(7));
  EXPECT_FALSE(tokenizer.is_end(-1));
}

TEST(Tokenizer, KnowsTheTokensThatEndAnAnswer) {
  const Tokenizer gemma(test::model_vocabulary("gemma4_dense"));
  EXPECT_EQ(gemma.bos(), 2);
  EXPECT_EQ(gemma.eos(), 1);
  EXPECT_EQ(gemma.eot(), 16);
  EXPECT_THAT(gemma.ends(), ElementsAre(1, 9, 16));  // <eos>, <|tool_response>, <turn|>
  EXPECT_TRUE(gemma.is_end(16));
  EXPECT_FALSE(gemma.is_end(15));

  const Tokenizer qwen(test::model_vocabulary("qwen3_5"));
  EXPECT_EQ(qwen.bos(), std::nullopt);
  EXPECT_THAT(qwen.ends(), ElementsAre(*qwen.find("<|endoftext|>"), *qwen.find("<|im_end|>")));
}

TEST(Tokenizer, EndsAnswersAtFurtherIdsToo) {
  Vocabulary vocabulary = test::model_vocabulary("qwen3_5");
  vocabulary.add_end(3);
  vocabulary.add_end(100000);
  const Tokenizer tokenizer(std::move(vocabulary));
  EXPECT_TRUE(tokenizer.is_end(3));
  EXPECT_FALSE(tokenizer.is_end(100000));
}

}  // namespace
}  // namespace sluice
