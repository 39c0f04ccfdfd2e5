#include "text/vocabulary.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/text/vocabularies.h"

namespace sluice {
namespace {

using test::kByteLevel;
using test::kSentencePiece;
using test::read_tokenizer;
using test::value_of;
using test::with;
using testing::ElementsAre;

std::string refusal(std::string_view tokenizer, std::string_view config = "") {
  const auto vocabulary = read_tokenizer(tokenizer, config);
  return vocabulary ? "accepted" : vocabulary.error().text;
}
std::string refusal_of(GgufVocabulary gguf) {
  const auto vocabulary = vocabulary_from_gguf(std::move(gguf));
  return vocabulary ? "accepted" : vocabulary.error().text;
}

// A list of models asks for the kind alone, and says what reading the whole would say.
TEST(GgufVocabularyKind, IsCheckedWithoutTheTokens) {
  EXPECT_TRUE(check_gguf_kind(test::gguf_of("gpt2", "qwen2", {})).ok());
  EXPECT_EQ(check_gguf_kind(test::gguf_of("gpt2", "unheard-of", {})).error().text,
            "tokenizer.ggml.pre is \"unheard-of\": want a pre-tokenizer that Sluice knows");
  EXPECT_EQ(vocabulary_from_gguf(test::gguf_of("gpt2", "unheard-of", {"a"})).error().text,
            "tokenizer.ggml.pre is \"unheard-of\": want a pre-tokenizer that Sluice knows");
  EXPECT_EQ(check_gguf_kind(test::gguf_of("none", "", {})).error().text,
            "tokenizer.ggml.model is \"none\": want gpt2, gemma4 or llama");
}

TEST(HuggingFace, ReadsBothKinds) {
  const Vocabulary bytes = value_of(read_tokenizer(kByteLevel));
  EXPECT_EQ(bytes.kind, VocabularyKind::byte_level);
  EXPECT_THAT(bytes.splits, ElementsAre(Split::gpt2));
  EXPECT_FALSE(bytes.add_bos);
  const Vocabulary characters = value_of(read_tokenizer(kSentencePiece));
  EXPECT_EQ(characters.kind, VocabularyKind::sentencepiece);
  EXPECT_TRUE(characters.add_bos);
  EXPECT_EQ(characters.bos, 0);
  EXPECT_EQ(characters.unk, 1);
}

TEST(HuggingFace, TakesMergesOfOlderFiles) {
  const Vocabulary vocabulary = value_of(read_tokenizer(with(kByteLevel, R"(["a", "b"])", R"("a b")")));
  ASSERT_EQ(vocabulary.merges.size(), 1u);
  EXPECT_EQ(vocabulary.merges[0].result, 3);
}

TEST(HuggingFace, TheConfigurationDecidesOverBos) {
  const Vocabulary vocabulary = value_of(read_tokenizer(kSentencePiece, R"({"add_bos_token": false})"));
  EXPECT_FALSE(vocabulary.add_bos);
  EXPECT_EQ(vocabulary.bos, 0);
  EXPECT_EQ(refusal(kByteLevel, R"({"add_bos_token": true})"),
            "tokenizer_config.json: add_bos_token is true: want a token to add");
}

TEST(HuggingFace, RefusesAFileWithoutAModel) {
  EXPECT_EQ(refusal("{}"), "tokenizer.json: there is no model: want an object with vocab and merges");
  EXPECT_EQ(refusal("[]"), "tokenizer.json: there is no model: want an object with vocab and merges");
  EXPECT_EQ(refusal(R"({"model": 3})"), "tokenizer.json: there is no model: want an object with vocab and merges");
}

TEST(HuggingFace, RefusesModelsItDoesNotKnow) {
  EXPECT_EQ(refusal(with(kByteLevel, "BPE", "Unigram")), "tokenizer.json: model.type is \"Unigram\": want \"BPE\"");
  EXPECT_EQ(refusal(R"({"model": {"vocab": {"a": 0}}})"), "tokenizer.json: model.type is \"\": want \"BPE\"");
  EXPECT_EQ(refusal(with(kByteLevel, R"("type": "BPE",)", R"("type": "BPE", "dropout": 0.1,)")),
            "tokenizer.json: model.dropout is 0.1: want none");
  EXPECT_EQ(refusal(with(kByteLevel, R"("type": "BPE",)", R"("type": "BPE", "end_of_word_suffix": "</w>",)")),
            "tokenizer.json: model.end_of_word_suffix is \"</w>\": want none");
}

TEST(HuggingFace, RefusesAnEmptyVocabulary) {
  const std::string text = "tokenizer.json: model.vocab is missing or empty: want an object of tokens and ids";
  EXPECT_EQ(refusal(R"({"model": {"type": "BPE", "vocab": {}, "merges": []}})"), text);
  EXPECT_EQ(refusal(R"({"model": {"type": "BPE", "vocab": ["a"], "merges": []}})"), text);
  EXPECT_EQ(refusal(R"({"model": {"type": "BPE", "merges": []}})"), text);
}

TEST(HuggingFace, RefusesIdsOutOfRange) {
  EXPECT_EQ(refusal(with(kByteLevel, R"("b": 1)", R"("b": 2147483648)")),
            "tokenizer.json: token \"b\" has id 2147483648: want 0 to 5");
  EXPECT_EQ(refusal(with(kByteLevel, R"("b": 1)", R"("b": -1)")), "tokenizer.json: token \"b\" has id -1: want 0 to 5");
  EXPECT_EQ(refusal(with(kByteLevel, R"("b": 1)", R"("b": 1.5)")),
            "tokenizer.json: token \"b\" has id 1.5: want 0 to 5");
  EXPECT_EQ(refusal(with(kByteLevel, R"("b": 1)", R"("b": null)")),
            "tokenizer.json: token \"b\" has id null: want 0 to 5");
  EXPECT_EQ(refusal(with(kByteLevel, R"("id": 4, )", "")),
            "tokenizer.json: token \"<|end|>\" has id nothing: want 0 to 5");
  EXPECT_EQ(refusal(with(kByteLevel, R"("id": 4)", R"("id": 1e99)")),
            "tokenizer.json: token \"<|end|>\" has id 1e+99: want 0 to 5");
}

TEST(HuggingFace, RefusesTwoTokensOfOneId) {
  EXPECT_EQ(refusal(with(kByteLevel, R"("b": 1)", R"("b": 0)")),
            "tokenizer.json: tokens \"a\" and \"b\" both have id 0: want one token per id");
  EXPECT_EQ(refusal(with(kByteLevel, R"("id": 4)", R"("id": 1)")),
            "tokenizer.json: tokens \"b\" and \"<|end|>\" both have id 1: want one token per id");
}

TEST(HuggingFace, RefusesTwoIdsOfOneToken) {
  EXPECT_EQ(refusal(with(kByteLevel, "<|end|>", "a")),
            "tokenizer.json: tokens 0 and 4 are both \"a\": want each text once");
}

TEST(HuggingFace, RefusesHoles) {
  EXPECT_EQ(refusal(with(kSentencePiece, R"("a": 4)", R"("a": 7)")),
            "tokenizer.json: no token has id 4: want ids without holes up to 7");
}

TEST(HuggingFace, RefusesMergesOfUnknownTokens) {
  EXPECT_EQ(refusal(with(kByteLevel, R"(["a", "b"])", R"(["a", "x"])")),
            "tokenizer.json: model.merges: merge 0 (\"a\" + \"x\") needs \"x\": want a token");
  EXPECT_EQ(refusal(with(kByteLevel, R"(["a", "b"])", R"(["b", "a"])")),
            "tokenizer.json: model.merges: merge 0 (\"b\" + \"a\") needs \"ba\": want a token");
  EXPECT_EQ(refusal(with(kByteLevel, R"(["a", "b"])", R"("ab")")),
            "tokenizer.json: model.merges: merge 0 is \"ab\": want two tokens and a space between them");
  EXPECT_EQ(refusal(with(kByteLevel, R"(["a", "b"])", R"(["a"])")),
            "tokenizer.json: model.merges: merge 0 is [\"a\"]: want two texts");
  EXPECT_EQ(refusal(with(kByteLevel, R"([["a", "b"]])", "null")),
            "tokenizer.json: model.merges is missing: want a list");
}

TEST(HuggingFace, RefusesUnsupportedParts) {
  EXPECT_EQ(refusal(with(kByteLevel, R"("normalizer": null)", R"("normalizer": {"type": "Lowercase"})")),
            "tokenizer.json: normalizer is {\"type\": \"Lowercase\"}: want NFC, or U+2581 put for spaces or before the "
            "text");
  const std::string_view byte_level = R"({"type": "ByteLevel", "add_prefix_space": false})";
  EXPECT_EQ(refusal(with(kByteLevel, byte_level, R"({"type": "Whitespace"})")),
            "tokenizer.json: pre_tokenizer is {\"type\": \"Whitespace\"}: want Split, Digits or ByteLevel without a "
            "prefix");
  EXPECT_EQ(refusal(with(kByteLevel, byte_level,
                         R"({"type": "Split", "pattern": {"Regex": "\\w+"}, "behavior": "Isolated"})")),
            "tokenizer.json: pre_tokenizer is a split by {\"Regex\": \"\\\\w+\"}: want a pattern that Sluice knows");
  EXPECT_EQ(refusal(with(kByteLevel, byte_level,
                         R"({"type": "Split", "pattern": {"Regex": "\\p{N}"}, "behavior": "Removed"})")),
            "tokenizer.json: pre_tokenizer is a split with behavior \"Removed\": want \"Isolated\", not inverted");
  EXPECT_EQ(refusal(with(kByteLevel, byte_level, "null")),
            "tokenizer.json: the alphabet is neither ByteLevel nor U+2581 with byte_fallback over uncut text: want one "
            "of them");
  EXPECT_EQ(refusal(with(kByteLevel, R"("decoder": {"type": "ByteLevel"})", R"("decoder": {"type": "WordPiece"})")),
            "tokenizer.json: decoder is {\"type\": \"WordPiece\"}: want ByteLevel");
  EXPECT_EQ(refusal(with(kByteLevel, R"("post_processor": null)", R"("post_processor": {"type": "BertProcessing"})")),
            "tokenizer.json: post_processor is \"BertProcessing\": want TemplateProcessing or ByteLevel");
  EXPECT_EQ(refusal(with(kByteLevel, R"("special": true)", R"("special": true, "lstrip": true)")),
            "tokenizer.json: lstrip of added token \"<|end|>\" is true: want false");
}

TEST(HuggingFace, RefusesATemplateOfUnknownTokens) {
  EXPECT_EQ(refusal(with(kSentencePiece, R"({"SpecialToken": {"id": "<bos>")", R"({"SpecialToken": {"id": "<s>")")),
            "tokenizer.json: post_processor's token is \"<s>\": want a token");
  EXPECT_EQ(refusal(kSentencePiece, R"({"bos_token": "<s>"})"),
            "tokenizer_config.json: bos_token is \"<s>\": want a token of tokenizer.json");
  EXPECT_EQ(refusal(kSentencePiece, R"({"bos_token": {"content": "a"}})"),
            "tokenizer_config.json: bos_token is \"a\", but tokenizer.json adds \"<bos>\": want the same");
}

TEST(HuggingFace, TakesByteTokensOnlyAsTheyAreWritten) {
  for (const char* text : {"<0x-1>", "<0xGG>", "<0x1>", "<0x001>", "<0x+1>"}) {
    const Vocabulary vocabulary = value_of(read_tokenizer(with(kSentencePiece, "<0xC3>", text)));
    EXPECT_EQ(vocabulary.tokens[2].kind, TokenKind::normal) << text;
  }
}

TEST(HuggingFace, AcceptsTheEmptyTextAsAToken) {
  const Tokenizer tokenizer(value_of(read_tokenizer(with(kByteLevel, R"("ab": 3)", R"("ab": 3, "": 6)"))));
  EXPECT_THAT(tokenizer.encode("abb"), ElementsAre(3, 1));
}

GgufVocabulary small_gguf() {
  GgufVocabulary gguf = test::gguf_of("gpt2", "qwen2", {"a", "b", "ab", "<|im_end|>"});
  gguf.token_type = {1, 1, 1, 3};
  gguf.merges = {"a b"};
  gguf.eos_token_id = 3;
  return gguf;
}

TEST(Gguf, ReadsAByteLevelVocabulary) {
  const Vocabulary vocabulary = value_of(vocabulary_from_gguf(small_gguf()));
  EXPECT_FALSE(vocabulary.nfc);  // as in llama.cpp
  EXPECT_EQ(vocabulary.eos, 3);
  EXPECT_EQ(vocabulary.bos, std::nullopt);
  EXPECT_FALSE(vocabulary.add_bos);
}

TEST(Gguf, RefusesUnknownNames) {
  GgufVocabulary gguf = small_gguf();
  gguf.pre = "fantasy";
  EXPECT_EQ(refusal_of(gguf), "tokenizer.ggml.pre is \"fantasy\": want a pre-tokenizer that Sluice knows");
  gguf.model = "bert";
  EXPECT_EQ(refusal_of(gguf), "tokenizer.ggml.model is \"bert\": want gpt2, gemma4 or llama");
}

TEST(Gguf, RefusesListsOfAnotherLength) {
  GgufVocabulary gguf = small_gguf();
  gguf.token_type.pop_back();
  EXPECT_EQ(refusal_of(gguf), "tokenizer.ggml.token_type has 3 entries: want 4, one per token");
  gguf = small_gguf();
  gguf.scores = {1};
  EXPECT_EQ(refusal_of(gguf), "tokenizer.ggml.scores has 1 entries: want 4, one per token");
  gguf = small_gguf();
  gguf.model = "llama";
  EXPECT_EQ(refusal_of(gguf), "tokenizer.ggml.scores has 0 entries: want 4, one per token");
  gguf = small_gguf();
  gguf.tokens.clear();
  EXPECT_EQ(refusal_of(gguf), "tokenizer.ggml.tokens has 0 entries: want 1 to 16777216");
}

TEST(Gguf, RefusesIdsBeyondTheTokens) {
  GgufVocabulary gguf = small_gguf();
  gguf.eos_token_id = 4;
  EXPECT_EQ(refusal_of(gguf), "tokenizer.ggml.eos_token_id is 4: want less than the 4 tokens");
  gguf.eos_token_id = -2;
  EXPECT_EQ(refusal_of(gguf), "tokenizer.ggml.eos_token_id is -2: want less than the 4 tokens");
  gguf.eos_token_id = std::numeric_limits<uint32_t>::max();  // how some files say that there is none
  EXPECT_EQ(refusal_of(gguf), "accepted");
}

TEST(Gguf, RefusesUnknownTypes) {
  GgufVocabulary gguf = small_gguf();
  gguf.token_type[1] = 7;
  EXPECT_EQ(refusal_of(gguf), "tokenizer.ggml.token_type of token 1 is 7: want 1 to 6");
  gguf.token_type[1] = 6;
  EXPECT_EQ(refusal_of(gguf), "tokenizer.ggml.tokens: token 1 of type byte is \"b\": want <0x00> to <0xFF>");
  gguf.tokens[1] = "<0x-1>";
  EXPECT_EQ(refusal_of(gguf), "tokenizer.ggml.tokens: token 1 of type byte is \"<0x-1>\": want <0x00> to <0xFF>");
}

TEST(Gguf, RefusesDuplicatesAndBadMerges) {
  GgufVocabulary gguf = small_gguf();
  gguf.tokens[1] = "a";
  EXPECT_EQ(refusal_of(gguf), "tokenizer.ggml.tokens: tokens 0 and 1 are both \"a\": want each text once");
  gguf = small_gguf();
  gguf.merges.emplace_back("a c");
  EXPECT_EQ(refusal_of(gguf), "tokenizer.ggml.merges: merge 1 (\"a\" + \"c\") needs \"c\": want a token");
  gguf.merges.back() = " ";
  EXPECT_EQ(refusal_of(gguf), "tokenizer.ggml.merges: merge 1 is \" \": want two tokens and a space between them");
  gguf.merges.back() = "";
  EXPECT_EQ(refusal_of(gguf), "tokenizer.ggml.merges: merge 1 is \"\": want two tokens and a space between them");
}

TEST(Gguf, RefusesToAddATokenThatIsNotThere) {
  GgufVocabulary gguf = small_gguf();
  gguf.add_bos_token = true;
  EXPECT_EQ(refusal_of(gguf), "tokenizer.ggml.add_bos_token is true: want a tokenizer.ggml.bos_token_id");
}

TEST(Gguf, RefusesScoredTokensOfAbsurdLength) {
  GgufVocabulary gguf = test::gguf_of("llama", "", {"a", std::string(1025, 'a')});
  gguf.scores = {0, 0};
  EXPECT_EQ(refusal_of(gguf),
            "tokenizer.ggml.tokens: token 1 is 1025 bytes long: want at most 1024 where tokens merge by score");
}

TEST(Gguf, NamesEmptyTokens) {
  GgufVocabulary gguf = small_gguf();
  gguf.tokens.insert(gguf.tokens.end(), {"", ""});
  gguf.token_type.insert(gguf.token_type.end(), {1, 1});
  const Vocabulary vocabulary = value_of(vocabulary_from_gguf(gguf));
  EXPECT_EQ(vocabulary.tokens[4].text, "[EMPTY_4]");
  EXPECT_EQ(vocabulary.tokens[5].text, "[EMPTY_5]");
}

TEST(Gguf, TakesOllamasGemmaForGemma) {
  GgufVocabulary gguf = test::gguf_of("llama", "gemma4", {"<bos>", "a", "b", "ab"});
  gguf.token_type = {3, 1, 1, 1};
  gguf.merges = {"a b"};
  gguf.bos_token_id = 0;
  gguf.add_bos_token = false;  // some converters deny it
  const Vocabulary vocabulary = value_of(vocabulary_from_gguf(gguf));
  EXPECT_EQ(vocabulary.kind, VocabularyKind::sentencepiece);
  EXPECT_TRUE(vocabulary.add_bos);
  EXPECT_FALSE(vocabulary.space_prefix);
}

// The type of every token as llama.cpp's converter writes it for these models.
TEST(ToGguf, TypesTokensAsLlamaCppDoes) {
  const GgufVocabulary gemma = value_of(to_gguf(test::model_vocabulary("gemma4_dense")));
  const std::vector<int32_t> markers(gemma.token_type.begin(), gemma.token_type.begin() + 24);
  EXPECT_THAT(markers, ElementsAre(3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 3, 4, 4, 3, 3, 3, 3, 3, 3, 3, 3, 3));
  EXPECT_EQ(std::count(gemma.token_type.begin(), gemma.token_type.end(), 6), 256);
  EXPECT_EQ(std::count(gemma.token_type.begin(), gemma.token_type.end(), 1), 768 - 256 - 24);

  const GgufVocabulary deepseek = value_of(to_gguf(test::model_vocabulary("deepseek_v3")));
  std::vector<int32_t> other;
  for (int32_t id = 0; id < 768; ++id) {
    const int32_t type = deepseek.token_type[static_cast<size_t>(id)];
    if (type != 1 && type != 3) other.push_back(id);
    EXPECT_TRUE(type != 3 || id < 3 || id > 750) << id;
  }
  EXPECT_THAT(other, ElementsAre(753, 754));  // <think> and </think>, user-defined
}

TEST(ToGguf, NamesTheFamilies) {
  const GgufVocabulary gemma = value_of(to_gguf(test::model_vocabulary("gemma4")));
  EXPECT_EQ(gemma.model, "gemma4");
  EXPECT_EQ(gemma.pre, "gemma4");
  EXPECT_EQ(gemma.bos_token_id, 2);
  EXPECT_EQ(gemma.eos_token_id, 1);
  EXPECT_EQ(gemma.unknown_token_id, 3);
  EXPECT_EQ(gemma.padding_token_id, 0);
  EXPECT_EQ(gemma.mask_token_id, 4);
  EXPECT_EQ(gemma.add_bos_token, true);
  EXPECT_EQ(gemma.add_space_prefix, false);
  EXPECT_EQ(gemma.merges.size(), 3832u);
  EXPECT_EQ(gemma.merges[0], "\n\n\n\n\n\n\n \n");
  const GgufVocabulary qwen = value_of(to_gguf(test::model_vocabulary("qwen3_5")));
  EXPECT_EQ(qwen.model, "gpt2");
  EXPECT_EQ(qwen.pre, "qwen35");
  EXPECT_EQ(qwen.add_bos_token, false);
  const GgufVocabulary deepseek = value_of(to_gguf(test::model_vocabulary("deepseek_v3")));
  EXPECT_EQ(deepseek.model, "gpt2");
  EXPECT_EQ(deepseek.pre, "deepseek-v3");
  EXPECT_EQ(deepseek.bos_token_id, 0);
  EXPECT_EQ(deepseek.padding_token_id, 1);
  EXPECT_EQ(deepseek.add_bos_token, true);
}

TEST(ToGguf, KeepsThatTextIsComposedFirst) {
  const std::string decomposed = "e\u0301";
  const Tokenizer qwen(test::model_vocabulary("qwen3_5"));
  GgufVocabulary written = value_of(to_gguf(qwen.vocabulary()));
  EXPECT_EQ(written.nfc, true);
  const Tokenizer read(value_of(vocabulary_from_gguf(written)));
  EXPECT_EQ(read.encode(decomposed), qwen.encode(decomposed));
  written.nfc.reset();  // a file of llama.cpp
  const Tokenizer peer(value_of(vocabulary_from_gguf(written)));
  EXPECT_NE(peer.encode(decomposed), qwen.encode(decomposed));
  EXPECT_EQ(to_gguf(peer.vocabulary())->nfc, std::nullopt);
}

TEST(ToGguf, FillsTheEmbeddingsRowsUp) {
  const Vocabulary vocabulary = value_of(vocabulary_from_gguf(small_gguf()));
  const GgufVocabulary gguf = value_of(to_gguf(vocabulary, 6));
  EXPECT_THAT(gguf.tokens, ElementsAre("a", "b", "ab", "<|im_end|>", "[PAD4]", "[PAD5]"));
  EXPECT_THAT(gguf.token_type, ElementsAre(1, 1, 1, 3, 5, 5));
  for (const int64_t rows : {int64_t{3}, int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    const auto refused = to_gguf(vocabulary, rows);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().text, cat("the embedding has ", rows,
                                        " rows for 4 tokens: want at least one row per token and at most 16777216"));
  }
}

TEST(ToGguf, RefusesRulesWithoutAName) {
  Vocabulary vocabulary = value_of(vocabulary_from_gguf(small_gguf()));
  vocabulary.splits = {Split::qwen35, Split::digit};
  const auto refused = to_gguf(vocabulary);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text,
            "no tokenizer.ggml.pre stands for this vocabulary's rules: want those of a named pre-tokenizer");
}

TEST(ToGguf, KeepsAScoredVocabulary) {
  GgufVocabulary gguf = test::gguf_of("llama", "", {"<unk>", "<s>", "</s>", "a", "b", "ab"});
  gguf.token_type = {2, 3, 3, 1, 1, 1};
  gguf.scores = {0, 0, 0, -2, -3, -1};
  const GgufVocabulary again = value_of(to_gguf(value_of(vocabulary_from_gguf(gguf))));
  EXPECT_EQ(again.model, "llama");
  EXPECT_EQ(again.tokens, gguf.tokens);
  EXPECT_EQ(again.token_type, gguf.token_type);
  EXPECT_EQ(again.scores, gguf.scores);
  EXPECT_TRUE(again.merges.empty());
  EXPECT_EQ(again.add_space_prefix, true);
  EXPECT_EQ(again.bos_token_id, 1);
}

}  // namespace
}  // namespace sluice
