#include "text/bpe.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/text/vocabularies.h"

namespace sluice {
namespace {

using test::value_of;
using testing::ElementsAre;

// The definition, on texts: merge the adjacent pair of lowest rank, the leftmost on ties, until there is none.
std::vector<int32_t> merge_by_definition(const Vocabulary& vocabulary, std::vector<std::string> parts) {
  const auto rank = [&](size_t i) {
    for (const Merge& merge : vocabulary.merges) {
      const auto text = [&](int32_t id) { return vocabulary.tokens[static_cast<size_t>(id)].text; };
      if (text(merge.left) == parts[i] && text(merge.right) == parts[i + 1]) return int64_t{merge.rank};
    }
    return INT64_MAX;
  };
  for (;;) {
    size_t best = 0;
    int64_t lowest = INT64_MAX;
    for (size_t i = 0; i + 1 < parts.size(); ++i)
      if (rank(i) < lowest) lowest = rank(i), best = i;
    if (lowest == INT64_MAX) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  std::vector<int32_t> ids;
  for (const std::string& part : parts) ids.push_back(*vocabulary.find(part));
  return ids;
}

// A byte-level vocabulary of a, b, c and random merges.
Vocabulary random_vocabulary(std::mt19937& random) {
  GgufVocabulary gguf = test::gguf_of("gpt2", "gpt-2", {"a", "b", "c"});
  for (int tries = 0; tries < 12; ++tries) {
    const std::string left = gguf.tokens[random() % gguf.tokens.size()];
    const std::string right = gguf.tokens[random() % gguf.tokens.size()];
    const bool known = testing::Value(gguf.tokens, testing::Contains(left + right));
    if (!known) gguf.tokens.push_back(left + right);
    const std::string merge = left + " " + right;
    if (!testing::Value(gguf.merges, testing::Contains(merge))) gguf.merges.push_back(merge);
  }
  return value_of(vocabulary_from_gguf(gguf));
}

TEST(Bpe, MergesAsDefinedWhateverTheMerges) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const Vocabulary vocabulary = random_vocabulary(random);
    const Bpe bpe(vocabulary);
    for (const size_t length : {1, 2, 3, 17, 63, 64, 65, 150}) {  // short pieces are scanned, long ones use a heap
      std::string text;
      std::vector<std::string> parts;
      for (size_t i = 0; i < length; ++i) parts.emplace_back(1, static_cast<char>('a' + random() % 3));
      for (const std::string& part : parts) text += part;
      std::vector<int32_t> ids = {77};
      bpe.encode(text, ids);
      std::vector<int32_t> want = merge_by_definition(vocabulary, parts);
      want.insert(want.begin(), 77);
      EXPECT_EQ(ids, want) << text;
    }
  }
}

TEST(Bpe, MergesALongPromptWithoutWordsAsDefined) {
  const Vocabulary vocabulary = test::model_vocabulary("gemma4_dense");
  std::vector<std::string> parts;
  const std::string_view text =
      "def f(x):\n\n\n    return  x** 2   \n\n\tthe aardvark'sthat ate\n \n the        antelope.";
  for (const char c : text) parts.push_back(c == ' ' ? "\u2581" : std::string(1, c));
  std::vector<int32_t> ids;
  Bpe(vocabulary).encode(text, ids);
  EXPECT_EQ(ids, merge_by_definition(vocabulary, parts));
  EXPECT_LT(ids.size(), parts.size());
}

TEST(Bpe, MergesAcrossWordsWhereAMergeDoes) {
  // Gemma 4's real vocabulary has one token with a space mark inside; such a place is never cut.
  GgufVocabulary gguf = test::gguf_of("gemma4", "", {"a", "b", "\u2581", "\u2581b", "a\u2581b"});
  gguf.merges = {"\u2581 b", "a \u2581b"};
  std::vector<int32_t> ids;
  Bpe(value_of(vocabulary_from_gguf(gguf))).encode("a bb a", ids);
  EXPECT_THAT(ids, ElementsAre(4, 1, 2, 0));
}

TEST(Bpe, MergesByteTokensToo) {
  GgufVocabulary gguf = test::gguf_of("gemma4", "", {"<0xC3>", "<0xA9>", "<0xC3><0xA9>", "a"});
  gguf.merges = {"<0xC3> <0xA9>"};
  std::vector<int32_t> ids;
  Bpe(value_of(vocabulary_from_gguf(gguf))).encode("aéa", ids);
  EXPECT_THAT(ids, ElementsAre(3, 2, 3));
}

TEST(Bpe, MergesTheHighestScoreFirst) {
  GgufVocabulary gguf = test::gguf_of("llama", "", {"<unk>", "<s>", "</s>", "a", "b", "c", "ab", "bc", "abc", "aa"});
  gguf.token_type = {2, 3, 3, 1, 1, 1, 1, 1, 1, 1};
  gguf.scores = {0, 0, 0, -10, -11, -12, -2, -1, -3, -2};
  gguf.add_space_prefix = false;
  const Bpe bpe(value_of(vocabulary_from_gguf(gguf)));
  std::vector<int32_t> ids;
  bpe.encode("abcab", ids);
  EXPECT_THAT(ids, ElementsAre(8, 6));  // bc, then ab of the end, then a + bc
  ids.clear();
  bpe.encode("aaab", ids);
  EXPECT_THAT(ids, ElementsAre(9, 6));  // aa and ab tie: the leftmost is first
}

TEST(Bpe, AMillionCharactersWithoutAWordMergeInReasonableTime) {
  const Vocabulary vocabulary = test::model_vocabulary("gemma4_dense");
  const Bpe bpe(vocabulary);
  std::vector<int32_t> ids;
  bpe.encode(std::string(1000000, ' '), ids);  // quadratic merging would need hours
  std::string decoded;
  for (const int32_t id : ids) decoded += vocabulary.tokens[static_cast<size_t>(id)].text;
  EXPECT_EQ(decoded.size(), 3000000u);
}

TEST(Alphabet, IsGpt2s) {
  EXPECT_EQ(alphabet_character('!'), uint32_t{'!'});
  EXPECT_EQ(alphabet_character(' '), 0x120u);   // Ġ
  EXPECT_EQ(alphabet_character('\n'), 0x10au);  // Ċ
  EXPECT_EQ(alphabet_character(0), 0x100u);
  EXPECT_EQ(alphabet_character(0xad), 0x143u);
  EXPECT_EQ(alphabet_character(0xff), 0xffu);
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(alphabet_byte(alphabet_character(static_cast<uint8_t>(byte))), byte);
  EXPECT_EQ(alphabet_byte(' '), -1);
  EXPECT_EQ(alphabet_byte(0x144), -1);
  EXPECT_EQ(alphabet_byte(0x10ffff), -1);
}

}  // namespace
}  // namespace sluice
