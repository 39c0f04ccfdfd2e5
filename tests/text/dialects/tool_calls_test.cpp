// Calls of tools in the syntaxes of the families. The last tests let the models' own chat templates write the calls.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/text.h"
#include "text/answer_stream.h"
#include "text/chat_template.h"
#include "text/dialects/tool_call_splitter.h"

namespace sluice {
namespace {

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {
    "place": {"type": "string"}, "count": {"type": "integer"}, "exact": {"type": "boolean"},
    "tags": {"type": "array"}, "near": {"anyOf": [{"type": "number"}, {"type": "null"}]}}}}},
  {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}])";

Json tools() { return *parse_json(kTools, "tools"); }

const ToolSyntax& syntax(std::string_view name) {
  for (const ToolSyntax& one : tool_syntaxes())
    if (one.name == name) return one;
  ADD_FAILURE() << name;
  return tool_syntaxes().front();
}

// Text as it is, calls as "[name {arguments}]".
std::string written(const std::vector<ToolPiece>& pieces) {
  std::string out;
  for (const ToolPiece& piece : pieces)
    if (const auto* text = std::get_if<std::string>(&piece))
      out += *text;
    else
      out += cat('[', std::get<ToolCall>(piece).name, ' ', write_json(std::get<ToolCall>(piece).arguments), ']');
  return out;
}

std::string split_by(const ToolSyntax& how, std::string_view text, size_t piece) {
  ToolCallSplitter splitter(how, tools(), ToolCallSplitter::Markers::in_text);
  std::vector<ToolPiece> all;
  const auto add = [&all](std::vector<ToolPiece> more) {
    for (ToolPiece& one : more) all.push_back(std::move(one));
  };
  for (size_t at = 0; at < text.size(); at += piece) add(splitter.push(text.substr(at, piece)));
  add(splitter.flush());
  return written(all);
}

void expect_calls(std::string_view name, std::string_view text, std::string_view want) {
  for (size_t piece = 1; piece <= text.size() + 1; ++piece)
    EXPECT_EQ(split_by(syntax(name), text, piece), want) << text << " in pieces of " << piece;
}

TEST(ToolCalls, Gemma4) {
  expect_calls("gemma4", R"(<|tool_call>call:find{place:<|"|>Oslo, {north}<|"|>,count:3,exact:true}<tool_call|>)",
               R"([find {"place": "Oslo, {north}", "count": 3, "exact": true}])");
  expect_calls("gemma4", R"(Let me look. <|tool_call>call:now{}<tool_call|>)", "Let me look.[now {}]");
  expect_calls("gemma4", R"(<|tool_call>call:find{tags:[<|"|>a<|"|>,2,[null]],near:{x:-1.5}}<tool_call|>)",
               R"([find {"tags": ["a", 2, [null]], "near": {"x": -1.5}}])");
  expect_calls("gemma4", "<|tool_call>call:a-b.c{}<tool_call|>\n<|tool_call>call:now{}<tool_call|>\n",
               "[a-b.c {}][now {}]");
}

TEST(ToolCalls, Gemma4AsModelsAlsoWriteIt) {
  expect_calls("gemma4", R"(<|tool_call>:call:find{place:"Os\"lo"}<tool_call|><tool_call|>)",
               R"([find {"place": "Os\"lo"}])");
  expect_calls("gemma4", "<|tool_call>call:find{place: New York, count: 3 }<tool_call|>",
               R"([find {"place": "New York", "count": 3}])");
  expect_calls("gemma4", "<|tool_call>call:find{place:007}<tool_call|>", R"([find {"place": "007"}])");
  expect_calls("gemma4", "<|tool_call>call:now{}", "[now {}]");  // the answer's end closes it
  expect_calls("gemma4", "<|tool_call>call:now{}<|tool_call>call:now{}<tool_call|>", "[now {}][now {}]");
}

TEST(ToolCalls, Xml) {
  expect_calls("xml",
               "Sure.\n\n<tool_call>\n<function=find>\n<parameter=place>\n3\n</parameter>\n<parameter=count>\n3\n"
               "</parameter>\n</function>\n</tool_call>",
               R"(Sure.[find {"place": "3", "count": 3}])");
  expect_calls(
      "xml",
      "<tool_call>\n<function=find>\n<parameter=place>\n\na\nb\n\n</parameter>\n<parameter=exact>\nTrue\n"
      "</parameter>\n<parameter=near>\nNone\n</parameter>\n<parameter=tags>\n[true, 1]\n</parameter>\n"
      "<parameter=new>\n{\"a\": 1}\n</parameter>\n<parameter=number>\n5\n</parameter>\n</function>\n</tool_call>",
      R"([find {"place": "\na\nb\n", "exact": true, "near": null, "tags": [true, 1], "new": {"a": 1}, )"
      R"("number": "5"}])");
  expect_calls(
      "xml",
      "<tool_call>\n<function=find>\n<parameter=place>\na </parameter> b\n</parameter>\n</function>\n</tool_call>",
      R"([find {"place": "a </parameter> b"}])");
  expect_calls("xml", "<tool_call>\n<function=now>\n</function>\n</tool_call>\n", "[now {}]");
}

TEST(ToolCalls, JsonInXml) {
  expect_calls("xml", "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"place\": \"x\"}}\n</tool_call>",
               R"([find {"place": "x"}])");
  expect_calls("xml", "<tool_call>{\"name\": \"now\"}</tool_call>", "[now {}]");
}

TEST(ToolCalls, DeepSeek) {
  expect_calls("deepseek",
               "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
               "<｜tool▁call▁begin｜>find<｜tool▁sep｜>{\"count\": 3}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
               R"([now {}][find {"count": 3}])");
  expect_calls("deepseek",
               "Yes.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>find\n```json\n{\"count\": "
               "3}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
               R"(Yes.[find {"count": 3}])");
}

// Nothing is lost, and nothing is taken for a call that is none.
TEST(ToolCalls, WhatIsNoCallStaysText) {
  for (const char* text : {"<tool_call>\n<function=find>\n<parameter=place>\nOs", "<tool_call>words</tool_call>",
                           "a < b, <tool_ca", "<tool_call>\n{\"name\": 3}\n</tool_call>", "  two lines\n\n",
                           "<tool_call>{\"name\": \"x\", \"arguments\": [1]}</tool_call>"})
    expect_calls("xml", text, text);
  for (const char* text :
       {"<|tool_call>call:find{place:<|\"|>Os", "<|tool_call>call:find{place}<tool_call|>",
        "<|tool_call>find{}<tool_call|>", "<|tool_call>call:{}<tool_call|>", "<|tool_call>call:find{a:1}b<tool_call|>"})
    expect_calls("gemma4", text, text);
  expect_calls("deepseek", "<｜tool▁call▁begin｜>now<｜tool▁sep｜>[]<｜tool▁call▁end｜>",
               "<｜tool▁call▁begin｜>now<｜tool▁sep｜>[]<｜tool▁call▁end｜>");
  expect_calls("gemma4", "<|tool_call>call:find{a:" + std::string(4000, '[') + "<tool_call|>",
               "<|tool_call>call:find{a:" + std::string(4000, '[') + "<tool_call|>");
}

// A call that a model's own template writes is read as the call that it was given.
TEST(ToolCalls, WhatTheModelsTemplatesWriteIsReadBack) {
  const Json messages = *parse_json(R"([{"role": "user", "content": "Where?"},
      {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "find",
       "arguments": {"count": 3, "exact": false, "place": "Oslo \"west\"\n", "tags": ["a", "b"]}}}]}])",
                                    "messages");
  for (const char* model : {"gemma4_dense", "qwen3_5_moe", "deepseek_v3"}) {
    SCOPED_TRACE(model);
    const std::string file = cat(SLUICE_TEST_DATA, '/', model, "/chat_template.jinja");
    const Result<std::string> source = read_file(file, 1 << 20);
    ASSERT_TRUE(source) << source.error().text;
    const Result<ChatTemplate> chat = ChatTemplate::parse(*source, file);
    ASSERT_TRUE(chat) << chat.error().text;
    const Result<std::string> rendered =
        chat->render({.messages = messages,
                      .tools = tools(),
                      .add_generation_prompt = false,
                      .special_tokens = {{"bos_token", "<bos>"}, {"eos_token", "<eos>"}}});
    ASSERT_TRUE(rendered) << rendered.error().text;
    const ToolSyntax* how = detect_tool_syntax(*source, [](std::string_view) { return false; });
    ASSERT_NE(how, nullptr);
    const std::string behind = rendered->substr(rendered->rfind(how->open));
    EXPECT_EQ(split_by(*how, behind.substr(0, behind.rfind(how->close) + how->close.size()), 7),
              R"([find {"count": 3, "exact": false, "place": "Oslo \"west\"\n", "tags": ["a", "b"]}])")
        << *rendered;
  }
}

}  // namespace
}  // namespace sluice
