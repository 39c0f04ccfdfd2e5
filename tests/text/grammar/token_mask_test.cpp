#include "text/grammar/token_mask.h"

#include <random>

#include "grammars.h"
#include "tests/text/vocabularies.h"

namespace sluice::test {
namespace {

// Tokens that cut across all that a grammar tells apart: several members in one, half characters, twins, long runs.
Tokenizer small_tokenizer() {
  std::vector<std::string> tokens = {
      "<end>", "{",   "}",    "[",     "]",       ",",  ":",  "\"",        "\\",   "0",      "1",   "12",  "-",
      ".",     "e",   "true", "null",  "a",       "b",  "ab", "name",      "\":",  "\", \"", "{\"", "\"}", "{\"name\"",
      ": \"",  "x\"", "\\n",  "\\u00", "a\",\"b", "]]", "}}", "abcabcabc", "q\"}", "false",  "u",   "n",   "\"a\":1"};
  Json::Object vocabulary;
  for (size_t id = 0; id < tokens.size(); ++id) vocabulary.emplace_back(tokens[id], static_cast<int64_t>(id));
  auto next = static_cast<int64_t>(tokens.size());
  // In GPT-2's alphabet: a space, a line end, two spaces, and the bytes of U+20AC and U+00E9 whole and apart.
  for (const char* text : {"\xc4\xa0", "\xc4\x8a", "\xc4\xa0\xc4\xa0", "\xc3\xa2\xc4\xa4\xc2\xac", "\xc3\xa2",
                           "\xc4\xa4", "\xc2\xac", "\xc3\x83\xc2\xa9"})
    vocabulary.emplace_back(text, next++);
  const Json json = Json::Object{
      {"added_tokens", Json::Array{Json::Object{{"id", 0}, {"content", "<end>"}, {"special", true}}}},
      {"normalizer", Json()},
      {"pre_tokenizer", Json::Object{{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"post_processor", Json()},
      {"decoder", Json::Object{{"type", "ByteLevel"}}},
      {"model", Json::Object{{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", Json::Array{}}}}};
  return Tokenizer(value_of(vocabulary_from_huggingface(json, nullptr)));
}

// Every bit of the mask against the grammar itself, played from its beginning. False: this vocabulary cannot go on.
bool expect_exact(const std::shared_ptr<const Grammar>& grammar, const Tokenizer& tokenizer, TokenMask& mask,
                  const std::string& text) {
  const auto allowed = mask.allowed();
  if (!allowed) {
    EXPECT_EQ(allowed.error().text, "no token of the vocabulary goes on as the grammar wants");
    return false;
  }
  Automaton automaton(grammar);
  const auto behind = [&](std::string_view bytes, Automaton::State from) {
    return automaton.next(from, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  };
  const Automaton::State here = behind(text, automaton.start());
  for (int32_t id = 1; id < tokenizer.size(); ++id)
    EXPECT_EQ(has_bit(*allowed, id), behind(tokenizer.bytes(id), here) != Automaton::kDead)
        << tokenizer.bytes(id) << " behind " << text;
  EXPECT_EQ(has_bit(*allowed, 0), automaton.can_end(here)) << "the end behind " << text;
  return true;
}

void walk_at_random(const GrammarSource& source, uint32_t seed) {
  const auto grammar = compiled(source);
  const Tokenizer tokenizer = small_tokenizer();
  const auto trie = std::make_shared<const TokenTrie>(tokenizer);
  std::mt19937 random(seed);
  int ended = 0;
  for (int round = 0; round < 12; ++round) {
    TokenMask mask(grammar, trie, {0});
    std::string text;
    for (int step = 0; step < 40; ++step) {
      if (!expect_exact(grammar, tokenizer, mask, text)) break;
      const auto allowed = mask.allowed();
      std::vector<int32_t> choices;
      for (int32_t id = 0; id < tokenizer.size(); ++id)
        if (has_bit(*allowed, id)) choices.push_back(id);
      const int32_t token = choices[random() % choices.size()];
      EXPECT_TRUE(mask.accept(token, tokenizer.bytes(token)));
      if (token == 0) {
        EXPECT_TRUE(accepts(grammar, text)) << text;
        if (source.kind == Source::Kind::json_schema || source.kind == Source::Kind::json_object)
          EXPECT_TRUE(parse_json(text, "answer").ok()) << text;
        ++ended;
        break;
      }
      text += tokenizer.bytes(token);
    }
  }
  EXPECT_GT(ended, 0);
}

TEST(TokenMask, AllowsExactlyWhatTheGrammarTakes) {
  walk_at_random(regex_source("(ab|a)*b?"), 1);
  walk_at_random(regex_source("(a|b){2,5}"), 2);
  walk_at_random(regex_source(".{0,12}"), 3);
  walk_at_random(gbnf_source("root ::= \"[\" (root (\",\" root)*)? \"]\" | [a-b]+"), 4);
  walk_at_random({.kind = Source::Kind::choice, .choices = {"a", "ab", "abcabcabc", "name"}}, 5);
}

TEST(TokenMask, AllowsExactlyWhatASchemaTakes) {
  walk_at_random(
      schema_source(
          R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}, "a": {"enum": [1, 12]}},
                                "required": ["a"], "additionalProperties": false})"),
      1);
  walk_at_random(schema_source(R"({"type": "string", "minLength": 3, "maxLength": 11})"), 2);
  walk_at_random(schema_source(R"({"type": "string", "pattern": "^[ab]+$"})"), 3);
  walk_at_random(schema_source(R"({"type": "array", "items": {"type": "boolean"}, "maxItems": 3})"), 4);
  walk_at_random(schema_source(R"({"type": "object", "properties": {"name": {"type": "null"}}})"), 5);
  walk_at_random(
      schema_source(R"({"anyOf": [{"type": "string", "maxLength": 2}, {"type": "integer", "maximum": 12}]})"), 6);
}

// Most of the vocabulary may begin another name: it is taken by whole branches of the tree.
TEST(TokenMask, AllowsExactlyTheNamesThatAreNotKnown) {
  const char* members = R"("properties": {"name": {"type": "null"}, "ab": {"type": "null"}, "\u20ac": {"type": "null"},
                                          "\u00e9a": {"type": "null"}, "abcabcabcab": {"type": "null"}})";
  walk_at_random(schema_source(cat("{\"type\": \"object\", ", members, "}")), 1);
  walk_at_random(
      schema_source(cat("{\"type\": \"object\", \"additionalProperties\": {\"type\": \"boolean\"}, ", members, "}")),
      2);
  walk_at_random(schema_source(R"({"type": "string", "pattern": "^[^b]*$"})"), 3);
  walk_at_random(schema_source(R"({"type": "string", "pattern": "^[a-n\u20ac]{0,9}.*$"})"), 4);
  walk_at_random(schema_source(R"({"type": "string", "pattern": "^(\u00e9|[^\u00e9\u20ac])*$"})"), 5);
}

TEST(TokenMask, EndsOnlyWhereTheGrammarEnds) {
  const Tokenizer tokenizer = small_tokenizer();
  TokenMask mask(compiled({.kind = Source::Kind::choice, .choices = {"a"}}),
                 std::make_shared<const TokenTrie>(tokenizer), {0});
  EXPECT_FALSE(mask.can_end());
  EXPECT_FALSE(mask.accept(0, ""));
  EXPECT_TRUE(mask.accept(*tokenizer.find("a"), "a"));
  const auto allowed = value_of(mask.allowed());
  for (int32_t id = 0; id < tokenizer.size(); ++id) EXPECT_EQ(has_bit(allowed, id), id == 0);
  EXPECT_TRUE(mask.accept(0, ""));
}

TEST(TokenMask, SaysWhenNoTokenGoesOn) {
  const Tokenizer tokenizer = small_tokenizer();
  TokenMask mask(compiled(regex_source("z")), std::make_shared<const TokenTrie>(tokenizer), {0});
  EXPECT_EQ(mask.allowed().error().text, "no token of the vocabulary goes on as the grammar wants");
}

TEST(TokenMask, ForgetsStatesOfALongAnswer) {
  const Tokenizer tokenizer = small_tokenizer();
  TokenMask mask(compiled(schema_source(R"({"type": "string", "minLength": 60000, "maxLength": 70000})")),
                 std::make_shared<const TokenTrie>(tokenizer), {0});
  EXPECT_TRUE(mask.accept(*tokenizer.find("\""), "\""));
  const int32_t token = *tokenizer.find("abcabcabc");
  for (int i = 0; i < 7000; ++i) {
    EXPECT_TRUE(has_bit(value_of(mask.allowed()), token));
    EXPECT_EQ(has_bit(value_of(mask.allowed()), *tokenizer.find("\"")), i * 9 >= 60000);
    EXPECT_TRUE(mask.accept(token, "abcabcabc"));
  }
}

}  // namespace
}  // namespace sluice::test
