// Calls that a grammar enforces: whatever tokens a model prefers, the answer is calls that fit their schemas, in the
// notation of each family. A random model answers, whose tokens are drawn from the mask.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/text.h"
#include "chat/answer_constraint.h"
#include "chat/open_model.h"
#include "chat/text_parts.h"
#include "model/model.h"
#include "tests/unwrap.h"
#include "text/answer_stream.h"
#include "text/grammar/automaton.h"

namespace sluice {
namespace {

constexpr const char* kFind = R"({"type": "object", "properties": {
    "place": {"type": "string", "maxLength": 6}, "count": {"type": "integer", "minimum": 3, "maximum": 40},
    "exact": {"type": "boolean"}, "kind": {"enum": ["a", "b\"c", "</parameter>"]},
    "code": {"type": "string", "pattern": "^[ab]{2}$"},
    "near": {"anyOf": [{"type": "number", "minimum": 0, "maximum": 9}, {"type": "null"}]},
    "tags": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/tag"}},
    "size": {"$ref": "#/$defs/size"}},
  "required": ["place", "kind", "tags", "size"], "additionalProperties": false,
  "$defs": {"tag": {"type": "string", "maxLength": 3},
            "size": {"type": "object", "properties": {"x y": {"type": "integer", "maximum": 9, "minimum": 0},
                                                      "unit": {"const": "m"}},
                     "required": ["x y"], "additionalProperties": false}}})";

Json tools_of(bool strict) {
  Json find = unwrap(parse_json(kFind, "schema"));
  return Json::Array{
      Json::Object{{"type", "function"},
                   {"function", Json::Object{{"name", "find"}, {"parameters", std::move(find)}, {"strict", strict}}}},
      Json::Object{{"type", "function"}, {"function", Json::Object{{"name", "now"}}}}};
}

struct Family {
  Model model;
  TextParts text;
};
Family open_family(const std::string& name) {
  Model model = unwrap(open_model(cat(SLUICE_TEST_DATA, "/", name)));
  TextParts text = unwrap(open_text(model));
  return {std::move(model), std::move(text)};
}

std::shared_ptr<const AnswerGrammar> compiled(const TextParts& text, CallForm calls) {
  return unwrap(text.grammars->compile(text.tokenizer, {.kind = GrammarSource::Kind::calls, .calls = std::move(calls)},
                                       text.tool_syntax));
}

// An answer of the random model.
struct Answered {
  std::string text;
  std::vector<ToolCall> calls;
  bool has_ended = false;
};

// Tokens of the family's markers are drawn more often, so that strings end.
Answered answer_at_random(const TextParts& text, AnswerConstraint& constraint, const Json& tools,
                          std::mt19937& random) {
  Answered answered;
  AnswerStream stream(text.tokenizer, *text.dialect, "", {},
                      [&](Channel /*channel*/, const std::string& piece) { answered.text += piece; });
  stream.expect_calls({text.tool_syntax, tools}, [&](ToolCall call) { answered.calls.push_back(std::move(call)); });
  for (int step = 0; step < 3000 && !answered.has_ended; ++step) {
    const std::span<const uint32_t> mask = unwrap(constraint.mask());
    std::vector<int32_t> allowed, preferred;
    for (int32_t token = 0; token < text.tokenizer.size(); ++token) {
      if (!mask.empty() && !has_bit(mask, token)) continue;
      allowed.push_back(token);
      const std::string_view bytes = text.tokenizer.bytes(token);
      const bool is_end = text.tokenizer.is_end(token);
      if (is_end || text.tokenizer.is_special(token) || starts_with(bytes, "<") || starts_with(bytes, "\""))
        preferred.push_back(token);
    }
    EXPECT_FALSE(allowed.empty());
    const std::vector<int32_t>& from = !preferred.empty() && random() % 2 == 0 ? preferred : allowed;
    const int32_t token = from[random() % from.size()];
    EXPECT_TRUE(constraint.accept(token));
    stream.push(token);
    answered.has_ended = text.tokenizer.is_end(token);
  }
  stream.finish();
  return answered;
}

// So many answers, each held to the grammar from its start.
std::vector<Answered> answers_at_random(const TextParts& text, const std::shared_ptr<const AnswerGrammar>& grammar,
                                        const Json& tools, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Answered> answers;
  while (answers.size() < count) {
    AnswerConstraint constraint(grammar, text.tokenizer, *text.dialect, {}, text.ends);
    answers.push_back(answer_at_random(text, constraint, tools, random));
  }
  return answers;
}

// By the same schema as plain JSON.
bool fits(const Json& arguments, const Json& schema) {
  auto grammar = unwrap(compile_grammar({.kind = GrammarSource::Kind::json_schema, .schema = schema}));
  Automaton automaton(grammar);
  const std::string written = write_json(arguments);
  const Automaton::State end =
      automaton.next(automaton.start(), {reinterpret_cast<const uint8_t*>(written.data()), written.size()});
  return end != Automaton::kDead && automaton.can_end(end);
}

void expect_fitting(const std::vector<ToolCall>& calls) {
  for (const ToolCall& call : calls)
    if (call.name == "find")
      EXPECT_TRUE(fits(call.arguments, unwrap(parse_json(kFind, "schema")))) << write_json(call.arguments);
    else
      EXPECT_EQ(call.name + write_json(call.arguments), "now{}");
}

void expect_calls(const std::string& name, CallNotation notation) {
  const Family family = open_family(name);
  const Json tools = tools_of(true);
  const auto grammar = compiled(family.text, {.notation = notation, .tools = tools, .most = 3});
  size_t found = 0, ended = 0;
  for (const Answered& answered : answers_at_random(family.text, grammar, tools, 15, 7)) {
    if (!answered.has_ended) continue;
    ++ended;
    EXPECT_EQ(answered.text, "");
    EXPECT_GE(answered.calls.size(), 1u);
    EXPECT_LE(answered.calls.size(), 3u);
    expect_fitting(answered.calls);
    for (const ToolCall& call : answered.calls) found += call.name == "find" ? 1 : 0;
  }
  EXPECT_GE(ended, 10u) << name;
  EXPECT_GE(found, 3u) << name;
}

TEST(EnforcedCalls, FitTheirSchemasInGemmasNotation) { expect_calls("gemma4_dense", CallNotation::gemma4); }
TEST(EnforcedCalls, FitTheirSchemasInQwensNotations) {
  expect_calls("qwen3_5_moe", CallNotation::xml_parameters);
  expect_calls("qwen3_5_moe", CallNotation::xml_json);
}
TEST(EnforcedCalls, FitTheirSchemasInDeepSeeksNotations) {
  expect_calls("deepseek_v3", CallNotation::deepseek);
  expect_calls("deepseek_v3", CallNotation::deepseek_fenced);
}

TEST(EnforcedCalls, FollowTheNotationOfTheTemplate) {
  const Family gemma = open_family("gemma4_dense"), qwen = open_family("qwen3_5_moe");
  EXPECT_EQ(gemma.text.call_notation, CallNotation::gemma4);
  EXPECT_EQ(qwen.text.call_notation, CallNotation::xml_parameters);
  const ToolSyntax& deepseek = *open_family("deepseek_v3").text.tool_syntax;
  EXPECT_EQ(detect_call_notation(deepseek, "...<｜tool▁sep｜>' + name + '\n```json\n"), CallNotation::deepseek_fenced);
  EXPECT_EQ(detect_call_notation(deepseek, ""), CallNotation::deepseek);
  EXPECT_EQ(detect_call_notation(*qwen.text.tool_syntax, "<tool_call>\n{\"name\""), CallNotation::xml_json);
}

// Without an obligation to call, text is free, and only what a token opens as a call is held to the schemas.
TEST(EnforcedCalls, LeaveTextFree) {
  const Family family = open_family("gemma4_dense");
  const Tokenizer& tokenizer = family.text.tokenizer;
  const Json tools = tools_of(true);
  const auto grammar = compiled(family.text, {.notation = CallNotation::gemma4, .tools = tools, .only_call = true});
  AnswerConstraint constraint(grammar, tokenizer, *family.text.dialect, {}, family.text.ends);
  EXPECT_TRUE(unwrap(constraint.mask()).empty());
  EXPECT_TRUE(constraint.accept(*tokenizer.find("<|tool_call>")));
  const std::span<const uint32_t> mask = unwrap(constraint.mask());
  EXPECT_FALSE(has_bit(mask, *tokenizer.find("<|tool_call>")));
  EXPECT_FALSE(has_bit(mask, family.text.ends[0]));
  for (const int32_t token : tokenizer.encode("call:now{}")) EXPECT_TRUE(constraint.accept(token));
  EXPECT_TRUE(constraint.accept(*tokenizer.find("<tool_call|>")));
  EXPECT_TRUE(unwrap(constraint.mask()).empty());
  EXPECT_TRUE(constraint.accept(family.text.ends[0]));
  size_t calls = 0;
  for (const Answered& answered : answers_at_random(family.text, grammar, tools, 20, 5)) {
    expect_fitting(answered.calls);
    calls += answered.calls.size();
  }
  EXPECT_GE(calls, 1u);
}

TEST(EnforcedCalls, StandBesideAForm) {
  const Family family = open_family("gemma4_dense");
  const Json tools = tools_of(false);
  const auto grammar =
      compiled(family.text,
               {.notation = CallNotation::gemma4,
                .tools = tools,
                .form = unwrap(parse_json(R"({"type": "array", "items": {"enum": [1, 2]}, "maxItems": 4})", "form"))});
  size_t forms = 0, calls = 0;
  for (const Answered& answered : answers_at_random(family.text, grammar, tools, 20, 3)) {
    if (!answered.has_ended) continue;
    expect_fitting(answered.calls);
    calls += answered.calls.empty() ? 0 : 1;
    if (!answered.calls.empty()) continue;
    ++forms;
    EXPECT_TRUE(unwrap(parse_json(answered.text, "answer")).is_array());
  }
  EXPECT_GE(forms, 1u);
  EXPECT_GE(calls, 1u);
}

TEST(EnforcedCalls, AThoughtEndsWhereACallBegins) {
  const Family family = open_family("gemma4_dense");
  const Tokenizer& tokenizer = family.text.tokenizer;
  const auto grammar = compiled(family.text, {.notation = CallNotation::gemma4, .tools = tools_of(false)});
  AnswerConstraint constraint(grammar, tokenizer, *family.text.dialect, {.begun = true}, family.text.ends);
  const int32_t open = *tokenizer.find("<|tool_call>"), close = *tokenizer.find("<tool_call|>");
  EXPECT_TRUE(has_bit(unwrap(constraint.mask()), open));
  EXPECT_FALSE(has_bit(unwrap(constraint.mask()), close));
  EXPECT_TRUE(constraint.accept(tokenizer.encode("a")[0]));
  EXPECT_TRUE(constraint.accept(open));
  EXPECT_FALSE(has_bit(unwrap(constraint.mask()), open));
  for (const int32_t token : tokenizer.encode("call:now{}")) EXPECT_TRUE(constraint.accept(token));
  EXPECT_TRUE(has_bit(unwrap(constraint.mask()), close));
}

std::string refusal(const Family& family, const std::string& tool) {
  CallForm calls{.notation = family.text.call_notation,
                 .tools = Json::Array{Json::Object{{"function", unwrap(parse_json(tool, "tool"))}}}};
  const auto made = family.text.grammars->compile(
      family.text.tokenizer, {.kind = GrammarSource::Kind::calls, .calls = std::move(calls)}, family.text.tool_syntax);
  return made ? "compiled" : made.error().text;
}

TEST(EnforcedCalls, AreRefusedByToolPathAndKeyword) {
  const Family gemma = open_family("gemma4_dense"), qwen = open_family("qwen3_5_moe");
  const std::string no = R"("parameters": {"properties": {"a": {"not": {}}}}})";
  EXPECT_EQ(refusal(gemma, R"({"name": "f", "strict": true, )" + no),
            "tool f: #/properties/a: not: cannot be honoured: want a schema without it");
  EXPECT_EQ(refusal(gemma, R"({"name": "f", )" + no), "compiled");  // its arguments are any object
  EXPECT_EQ(refusal(gemma, R"({"name": "f g"})"),
            "tool f g: calls cannot be enforced: want a name of letters, digits, '_', '-' and '.'");
  EXPECT_EQ(refusal(qwen, R"({"name": "f", "strict": true, "parameters": {"anyOf": [{"type": "object"}]}})"),
            "tool f: #: anyOf: cannot be honoured for this model's calls: want an object with properties");
  EXPECT_EQ(refusal(qwen, R"({"name": "f", "parameters": {"anyOf": [{"type": "object"}]}})"), "compiled");
  EXPECT_EQ(refusal(qwen, R"({"name": "f", "strict": true, "parameters": {"required": ["a"]}})"),
            "tool f: #: required: a: is no property: want only names of properties");
}

}  // namespace
}  // namespace sluice
