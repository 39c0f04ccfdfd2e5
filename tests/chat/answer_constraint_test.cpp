// Where the constraint of an answer begins, and the grammars that are kept for it.
#include "chat/answer_constraint.h"

#include <gtest/gtest.h>

#include "tests/unwrap.h"
#include "text/dialects/dialect.h"

namespace sluice {
namespace {

// "<think>", "</think>", "<end>" and letters of their own.
Tokenizer thinking_tokenizer() {
  GgufVocabulary gguf;
  gguf.model = "gpt2";
  gguf.pre = "qwen2";
  gguf.tokens = {"<think>", "</think>", "<end>", "a", "b", "\xc4\x8a", "\xc4\x8a\xc4\x8a"};
  gguf.token_type = {3, 3, 3, 1, 1, 1, 1};
  gguf.merges = {"\xc4\x8a \xc4\x8a"};
  gguf.eos_token_id = 2;
  return Tokenizer(unwrap(vocabulary_from_gguf(std::move(gguf))));
}
constexpr int32_t kOpen = 0, kClose = 1, kEnd = 2, kA = 3, kB = 4, kLineEnds = 6;

class AnswerConstraintTest : public testing::Test {
 protected:
  AnswerConstraint constraint(AnswerConstraint::Thought thought) {
    return {unwrap(grammars.compile(tokenizer, {.kind = GrammarSource::Kind::regex, .text = "ab?"})),
            tokenizer,
            *find_dialect("think"),
            thought,
            {kEnd}};
  }
  // The allowed tokens, by number.
  std::vector<int32_t> allowed(AnswerConstraint& of) {
    const auto mask = unwrap(of.mask());
    std::vector<int32_t> tokens;
    for (int32_t token = 0; token < tokenizer.size(); ++token)
      if (has_bit(mask, token)) tokens.push_back(token);
    return tokens;
  }

  Tokenizer tokenizer = thinking_tokenizer();
  AnswerGrammars grammars;
};
using Tokens = std::vector<int32_t>;

TEST_F(AnswerConstraintTest, BeginsAtOnceWithoutAThought) {
  AnswerConstraint of = constraint({});
  EXPECT_EQ(allowed(of), (Tokens{kA}));
  EXPECT_TRUE(of.accept(kA));
  EXPECT_EQ(allowed(of), (Tokens{kEnd, kB}));
  EXPECT_TRUE(of.accept(kEnd));
  EXPECT_FALSE(of.accept(kA));
}

TEST_F(AnswerConstraintTest, BeginsBehindAThoughtThatTheAnswerOpens) {
  AnswerConstraint of = constraint({.allowed = true});
  EXPECT_EQ(allowed(of), (Tokens{kOpen, kA}));
  EXPECT_TRUE(of.accept(kOpen));
  EXPECT_TRUE(of.accept(kB));
  EXPECT_EQ(allowed(of), (Tokens{kOpen, kClose, kA, kB, 5, kLineEnds}));  // all but the end
  EXPECT_TRUE(of.accept(kClose));
  EXPECT_EQ(allowed(of), (Tokens{kA, 5, kLineEnds}));
  EXPECT_TRUE(of.accept(kLineEnds));
  EXPECT_EQ(allowed(of), (Tokens{kA}));
}

TEST_F(AnswerConstraintTest, BeginsBehindAThoughtThatThePromptOpens) {
  AnswerConstraint of = constraint({.begun = true});
  EXPECT_TRUE(of.accept(kA));
  EXPECT_FALSE(has_bit(unwrap(of.mask()), kEnd));
  EXPECT_TRUE(of.accept(kClose));
  EXPECT_TRUE(of.accept(kA));
  EXPECT_EQ(allowed(of), (Tokens{kEnd, kB}));
}

TEST_F(AnswerConstraintTest, CompilesTheSameSourceOnce) {
  const GrammarSource one{.kind = GrammarSource::Kind::regex, .text = "a"};
  EXPECT_EQ(unwrap(grammars.compile(tokenizer, one)), unwrap(grammars.compile(tokenizer, one)));
  const GrammarSource other{.kind = GrammarSource::Kind::choice, .choices = {"a"}};
  EXPECT_NE(unwrap(grammars.compile(tokenizer, one)), unwrap(grammars.compile(tokenizer, other)));
  EXPECT_FALSE(grammars.compile(tokenizer, {.kind = GrammarSource::Kind::regex, .text = "("}).ok());
}

}  // namespace
}  // namespace sluice
