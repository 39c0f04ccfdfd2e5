// tool_choice and strict tools in all APIs: calls that the client demands are made, whatever the model prefers. The
// demo was never taught to call tools, so each of these calls is the grammar's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "serve/anthropic/anthropic.h"
#include "serve/ollama/ollama.h"
#include "serve/openai/openai.h"
#include "serve/tool_fields.h"
#include "tests/serve/test_server.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::HasSubstr;

constexpr const char* kBegin = R"("model": "demo", "temperature": 0, "messages": [{"role": "user", "content": "Hi"}])";
constexpr const char* kParameters =
    R"({"type": "object", "properties": {"zone": {"enum": ["east", "west"]}, "hour": {"type": "integer", "minimum": 1,
        "maximum": 12}}, "required": ["zone", "hour"], "additionalProperties": false})";

std::string chat_tools() {
  return cat(R"("tools": [{"type": "function", "function": {"name": "now", "parameters": )", kParameters,
             R"(}}, {"type": "function", "function": {"name": "stop"}}])");
}

void expect_now(const Json& arguments) {
  ASSERT_EQ(arguments.as_object().size(), 2u);
  EXPECT_THAT(arguments.find("zone")->as_string(), testing::AnyOf("east", "west"));
  EXPECT_THAT(arguments.find("hour")->as_integer(), testing::AllOf(testing::Ge(1), testing::Le(12)));
}

// What OpenAI's chat says of the field: "taken", or the reason.
std::string chat_of(const std::string& members) {
  const auto request =
      read_openai_chat(unwrap(parse_json(cat("{", kBegin, ", ", members, "}"), "body")), served_demo());
  return request ? "taken" : cat(request.error().param, ": ", request.error().message);
}

TEST(ToolChoice, IsReadInAllItsForms) {
  const std::string with = chat_tools() + R"(, "tool_choice": )";
  for (const char* choice :
       {R"("auto")", R"("none")", R"("required")", R"({"type": "function", "function": {"name": "now"}})",
        R"({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function",
            "function": {"name": "stop"}}]}})",
        R"({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "stop"}]})"})
    EXPECT_EQ(chat_of(with + choice), "taken") << choice;
  EXPECT_EQ(chat_of(with + R"({"type": "function", "function": {"name": "later"}})"),
            "tool_choice: tool_choice names later: want one of the tools");
  EXPECT_EQ(chat_of(R"("tool_choice": "required")"),
            "tool_choice: tool_choice: there is no tool that could be called: want tools");
  EXPECT_THAT(chat_of(with + R"("always")"), HasSubstr("want none, auto, required"));
  EXPECT_THAT(chat_of(with + R"({"type": "web_search"})"), HasSubstr("want none, auto, required"));
  EXPECT_THAT(chat_of(with + R"({"type": "allowed_tools", "mode": "auto", "tools": []})"),
              HasSubstr("a list of tools"));
}

TEST(ToolChoice, StrictToolsAreRefusedWhereTheirSchemaCannotBeHonoured) {
  const std::string tool = R"("tools": [{"type": "function", "function": {"name": "f", "strict": true,
                              "parameters": {"type": "object", "properties": {"a": {"not": {}}}}}}])";
  EXPECT_EQ(chat_of(tool), "tools: tools: tool f: #/properties/a: not: cannot be honoured: want a schema without it");
  EXPECT_EQ(chat_of(tool + R"(, "tool_choice": "none")"), "taken");
}

TEST(ToolChoice, AFormMayStandBesideTools) {
  EXPECT_EQ(chat_of(chat_tools() + R"(, "response_format": {"type": "json_object"})"), "taken");
  EXPECT_EQ(chat_of(chat_tools() + R"(, "response_format": {"type": "json_schema", "schema": {"type": "null"}})"),
            "taken");
  EXPECT_EQ(chat_of(chat_tools() + R"(, "guided_regex": "a")"),
            "guided_regex: guided_regex beside tools cannot be honoured: want one of them, or a schema");
}

TEST(ToolChoice, OpenAiCallsWhatIsRequired) {
  const TestServer server;
  const std::string chosen = R"("tool_choice": {"type": "function", "function": {"name": "now"}})";
  const TestReply reply = ask(server, "/v1/chat/completions",
                              cat("{", kBegin, ", ", chat_tools(), ", ", chosen, R"(, "parallel_tool_calls": false})"));
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json json = reply.json();
  const Json& choice = json.find("choices")->as_array()[0];
  EXPECT_EQ(choice.find("finish_reason")->as_string(), "tool_calls");
  const Json::Array& calls = choice.find("message")->find("tool_calls")->as_array();
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].find("function")->find("name")->as_string(), "now");
  expect_now(unwrap(parse_json(calls[0].find("function")->find("arguments")->as_string(), "arguments")));
  const TestReply required =
      ask(server, "/v1/chat/completions",
          cat("{", kBegin, ", ", chat_tools(), R"(, "tool_choice": "required", "max_tokens": 99})"));
  EXPECT_THAT(required.body, HasSubstr("\"tool_calls\": [{"));
}

TEST(ToolChoice, ResponsesCallWhatIsRequired) {
  const TestServer server;
  const TestReply reply =
      ask(server, "/v1/responses",
          cat(R"({"input": "Hi", "temperature": 0, "parallel_tool_calls": false, "tools": [{"type": "function",
                  "name": "now", "strict": true, "parameters": )",
              kParameters, R"(}], "tool_choice": {"type": "function", "name": "now"}})"));
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json json = reply.json();
  EXPECT_EQ(json.find("tool_choice")->find("name")->as_string(), "now");
  ASSERT_EQ(json.find("output")->as_array().size(), 1u);
  expect_now(unwrap(parse_json(json.find("output")->as_array()[0].find("arguments")->as_string(), "arguments")));
}

TEST(ToolChoice, AnthropicCallsWhatIsRequired) {
  const TestServer server;
  for (const char* choice : {R"({"type": "any", "disable_parallel_tool_use": true})",
                             R"({"type": "tool", "name": "now", "disable_parallel_tool_use": true})"}) {
    const TestReply reply = ask(server, "/v1/messages",
                                cat("{", kBegin, R"(, "max_tokens": 200, "tools": [{"name": "now", "input_schema": )",
                                    kParameters, R"(}], "tool_choice": )", choice, "}"));
    ASSERT_EQ(reply.status, 200) << reply.body;
    const Json json = reply.json();
    EXPECT_EQ(json.find("stop_reason")->as_string(), "tool_use");
    ASSERT_EQ(json.find("content")->as_array().size(), 1u);
    expect_now(*json.find("content")->as_array()[0].find("input"));
  }
  const TestReply refused =
      ask(server, "/v1/messages", cat("{", kBegin, R"(, "max_tokens": 9, "tool_choice": {"type": "any"}})"));
  EXPECT_EQ(refused.status, 400);
}

// The answer is free, and the same as without tools that are strict.
TEST(ToolChoice, StrictToolsLeaveTheAnswerFree) {
  const TestServer server;
  const auto content = [&](const char* strict) {
    const std::string tools = cat(R"("tools": [{"type": "function", "function": {"name": "now", "strict": )", strict,
                                  R"(, "parameters": )", kParameters, "}}]");
    const Json json =
        ask(server, "/v1/chat/completions", cat("{", kBegin, ", \"max_tokens\": 20, ", tools, "}")).json();
    return write_json(*json.find("choices"));
  };
  EXPECT_EQ(content("true"), content("false"));
}

TEST(ToolChoice, TheAnswerIsTheFormOrACall) {
  const TestServer server;
  const TestReply reply = ask(server, "/v1/chat/completions",
                              cat("{", kBegin, ", \"max_tokens\": 200, ", chat_tools(),
                                  R"(, "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema":
                                     {"type": "object", "properties": {"yes": {"type": "boolean"}},
                                      "required": ["yes"], "additionalProperties": false}}}})"));
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json json = reply.json();
  const Json& message = *json.find("choices")->as_array()[0].find("message");
  if (message.find("tool_calls") != nullptr) return;
  EXPECT_TRUE(unwrap(parse_json(message.find("content")->as_string(), "content")).find("yes")->is_bool());
}

}  // namespace
}  // namespace sluice
