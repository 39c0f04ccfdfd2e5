// Anthropic's API: how its messages and fields are read, and the shape and order of its replies and events.
// claude_code_request.json was written for this test after what Claude Code sends.
#include "serve/anthropic/anthropic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/text.h"
#include "serve/anthropic/message_writer.h"
#include "tests/serve/test_server.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Outcome<AnswerRequest> read(const std::string& members) {
  return read_anthropic_messages(unwrap(parse_json("{" + members + "}", "body")), served_demo());
}
std::string messages_of(const std::string& members) {
  const Outcome<AnswerRequest> request = read(R"("model": "demo", "max_tokens": 5, )" + members);
  return request ? write_json((*const_cast<Outcome<AnswerRequest>&>(request)).messages) : request.error().message;
}

TEST(AnthropicMessages, BecomeTheTemplatesMessages) {
  EXPECT_EQ(messages_of(R"("system": [{"type": "text", "text": "x-anthropic-billing-header: cch=1"},
                                       {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
      "messages": [{"role": "user", "content": "a"},
          {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm", "signature": ""},
              {"type": "text", "text": "b"}, {"type": "tool_use", "id": "t1", "name": "now", "input": {"zone": 3}}]},
          {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "noon"},
              {"type": "text", "text": "c"}]}])"),
            R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"}, )"
            R"({"role": "assistant", "content": "b", "reasoning_content": "Hm", "tool_calls": )"
            R"([{"type": "function", "id": "t1", "function": {"name": "now", "arguments": {"zone": 3}}}]}, )"
            R"({"role": "tool", "content": "noon", "tool_call_id": "t1", "name": "now"}, )"
            R"({"role": "user", "content": "c"}])");
}

TEST(AnthropicMessages, AreRefusedWithAReason) {
  EXPECT_EQ(messages_of(R"("messages": [])"), "messages is missing or empty: want at least one message");
  EXPECT_EQ(messages_of(R"("messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}])"),
            "messages[0].content[0].source is no base64 source: want {\"type\": \"base64\", \"media_type\": "
            "\"image/png\", \"data\": ...}, since files are not stored");
  EXPECT_EQ(messages_of(R"("messages": [{"role": "user", "content": [{"type": "document", "source": {}}]}])"),
            "messages[0].content: a block is of type document: want text, image, thinking, tool_use or tool_result");
  EXPECT_EQ(messages_of(R"("messages": [{"role": "robot", "content": "a"}])"),
            "messages[0].role is robot: want user or assistant");
  const Outcome<AnswerRequest> unlimited = read(R"("messages": [{"role": "user", "content": "a"}])");
  ASSERT_FALSE(unlimited);
  EXPECT_EQ(unlimited.error().message, "max_tokens is missing: want a whole number");
}

TEST(AnthropicMessages, ReadFields) {
  Outcome<AnswerRequest> request = read(R"("max_tokens": 9, "temperature": 0.5, "top_k": 3, "stop_sequences": ["x"],
      "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "So"}],
      "tools": [{"name": "now", "input_schema": {"type": "object"}}, {"type": "web_search_20250305", "name": "w"}],
      "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}, "metadata": {"user_id": "u"},
      "thinking": {"type": "enabled", "budget_tokens": 1024})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->prefill, "So");
  EXPECT_EQ(request->settings.max_tokens, 9u);
  EXPECT_EQ(request->settings.max_calls, 1u);
  EXPECT_THAT(request->settings.stops, ElementsAre("x"));
  EXPECT_EQ(write_json(request->variables),
            R"({"tools": [{"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}], )"
            R"("enable_thinking": false})");  // the answer has begun
  EXPECT_FALSE(request->settings.thought_budget);
  EXPECT_THAT(request->ignored, ElementsAre("tools[1] (web_search_20250305)", "thinking", "metadata"));
}

TEST(AnthropicMessages, BoundThoughts) {
  const auto budget = [](const std::string& thinking) {
    Outcome<AnswerRequest> request =
        read(cat(R"("max_tokens": 9, "messages": [{"role": "user", "content": "a"}], )", R"("thinking": )", thinking));
    return request ? request->settings.thought_budget : std::optional<uint32_t>(UINT32_MAX);
  };
  EXPECT_EQ(budget(R"({"type": "enabled", "budget_tokens": 1024})"), 1024u);
  EXPECT_EQ(budget(R"({"type": "adaptive"})"), std::nullopt);
  EXPECT_EQ(budget(R"({"type": "disabled", "budget_tokens": 1024})"), std::nullopt);
  EXPECT_EQ(budget(R"({"type": "enabled", "budget_tokens": -1})"), UINT32_MAX) << "it is refused";
}

// The names of the events and the members that follow.
std::vector<std::string> streamed(const std::vector<TurnEvent>& events, const std::vector<std::string>& stops) {
  const std::unique_ptr<AnswerWriter> writer = make_message_writer(stops);
  writer->set({.id = "1", .model = "demo", .system_fingerprint = {}});
  AnsweredPart part;
  std::string text;
  for (const TurnEvent& event : events) {
    const AnswerNews news{.events = {event}};
    part.take(news);
    text += writer->stream(news, part);
  }
  text += writer->stream_end({part});
  std::vector<std::string> lines;
  for (const std::string& line : split(text, '\n'))
    if (starts_with(line, "data: ")) lines.push_back(line.substr(6));
  return lines;
}

TEST(AnthropicStream, BlocksFollowOneAnother) {
  DoneEvent done;
  done.usage = {.prompt_tokens = 9, .reused_tokens = 4, .answer_tokens = 7};
  const std::vector<std::string> lines = streamed(
      {ThinkingEvent{"Hm"}, TextEvent{"So"}, TextEvent{"."}, ToolCallEvent{{"now", Json::Object{{"zone", 3}}}}, done},
      {});
  EXPECT_THAT(lines[0], HasSubstr(R"("type": "message_start")"));
  EXPECT_THAT(
      std::vector(lines.begin() + 1, lines.end()),
      ElementsAre(
          R"({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}})",
          R"({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm"}})",
          R"({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": ""}})",
          R"({"type": "content_block_stop", "index": 0})",
          R"({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}})",
          R"({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "So"}})",
          R"({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "."}})",
          R"({"type": "content_block_stop", "index": 1})",
          R"({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "toolu_1_2", "name": "now", "input": {}}})",
          R"({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{\"zone\": 3}"}})",
          R"({"type": "content_block_stop", "index": 2})",
          R"({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4, "output_tokens": 7}})",
          R"({"type": "message_stop"})"));
}

TEST(AnthropicStream, NamesTheStopString) {
  DoneEvent done;
  done.stop = 1;
  EXPECT_THAT(streamed({TextEvent{"a"}, done}, {"x", "STOP"}).end()[-2],
              HasSubstr(R"({"stop_reason": "stop_sequence", "stop_sequence": "STOP"})"));
}

TEST(AnthropicServer, AnswersCountsAndRefuses) {
  const TestServer server;
  const std::string body = R"({"model": "demo", "max_tokens": 40, "temperature": 0,
                               "messages": [{"role": "user", "content": "What is a violin?"}]})";
  const TestReply reply = ask(server, "/v1/messages?beta=true", body);
  EXPECT_EQ(reply.status, 200);
  const Json json = reply.json();
  EXPECT_EQ(write_json(*json.find("content")),
            R"([{"type": "text", "text": "violin (noun): bowed stringed instrument that is the highest member of the )"
            R"(violin family."}])");
  EXPECT_EQ(json.find("stop_reason")->as_string(), "end_turn");
  const Json& usage = *json.find("usage");
  EXPECT_EQ(ask(server, "/v1/messages/count_tokens", body).json().find("input_tokens")->as_integer(),
            usage.find("input_tokens")->as_integer() + usage.find("cache_read_input_tokens")->as_integer());
  const TestReply refused = ask(server, "/v1/messages", R"({"model": "demo", "max_tokens": 1, "messages": []})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json().find("type")->as_string(), "error");
  EXPECT_NE(refused.header("request-id"), "");
}

// Claude Code's requests: a line of the first system block changes each time, tools have empty and wide schemas, and
// one runs elsewhere.
TEST(AnthropicServer, AnswersACodingAgentAndReusesItsPrompt) {
  const TestServer server;
  const std::string first = unwrap(read_file("tests/serve/anthropic/claude_code_request.json", 1 << 20));
  const auto ask_agent = [&](const char* path, const std::string& body) {
    TestClient client(server.port());
    client.send(request_text("POST", path, body,
                             "anthropic-version: 2023-06-01\r\nanthropic-beta: claude-code-20250219,"
                             "interleaved-thinking-2025-05-14\r\nauthorization: Bearer x\r\n"));
    return client.read();
  };
  const auto begin_of = [&](const std::string& body) {
    const TestReply reply = ask_agent("/v1/messages?beta=true", body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_THAT(reply.header("x-sluice-ignored"),
                AllOf(HasSubstr("tools[2] (web_search_20250305)"), HasSubstr("context_management")));
    const std::vector<Json> events = reply.events();
    EXPECT_EQ(events.back().find("type")->as_string(), "message_stop");
    return *events.front().find("message")->find("usage");
  };
  const auto tokens = [](const Json& usage, const char* name) { return usage.find(name)->as_integer(); };

  // Also loads the model; a stream that begins before that names ignored fields in a comment instead of the header.
  const TestReply counted = ask_agent("/v1/messages/count_tokens?beta=true", first);
  const Json usage = begin_of(first);
  const int64_t prompt = tokens(usage, "input_tokens") + tokens(usage, "cache_read_input_tokens");
  EXPECT_GE(prompt, 64);
  EXPECT_EQ(counted.json().find("input_tokens")->as_integer(), prompt);

  std::string second = first;
  second.replace(second.find("0a1b2"), 5, "9f8e7");
  const std::string turns = R"(,
    {"role": "assistant", "content": [{"type": "text", "text": "I look."},
      {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "is_error": false,
      "content": [{"type": "text", "text": "a.txt"}], "cache_control": {"type": "ephemeral"}}]})";
  second.insert(second.find("\n  ],\n  \"tools\""), turns);
  // Prompts are reused in blocks of 64 tokens.
  EXPECT_GE(tokens(begin_of(second), "cache_read_input_tokens"), prompt / 64 * 64);
}

}  // namespace
}  // namespace sluice
