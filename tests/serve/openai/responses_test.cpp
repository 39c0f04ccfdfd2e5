// OpenAI's Responses API: how items and fields are read, what is refused, and the shape and order of replies and
// events. codex_request.json was written for this test after what Codex sends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/text.h"
#include "serve/openai/openai.h"
#include "serve/openai/response_writer.h"
#include "tests/serve/test_server.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::ElementsAre;

constexpr const char* kResponses = "/v1/responses";

Outcome<AnswerRequest> read_response(const std::string& members) {
  return read_openai_response(unwrap(parse_json("{" + members + "}", "body")), served_demo());
}
// "param: sentence"
std::string refused(const std::string& members) {
  const Outcome<AnswerRequest> request = read_response(members);
  return request ? "taken" : cat(request.error().param, ": ", request.error().message);
}
std::string codex_request() { return unwrap(read_file("tests/serve/openai/codex_request.json", 1 << 20)); }

TEST(OpenAiResponses, ReadACodingAgentsRequest) {
  Outcome<AnswerRequest> request =
      read_openai_response(unwrap(parse_json(codex_request(), "codex_request.json")), served_demo());
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(
      write_json(request->messages),
      R"([{"role": "system", "content": "You are a coding agent in a terminal. Be brief.\n\nThe sandbox is read-only."}, )"
      R"({"role": "user", "content": "<environment_context>\n  <cwd>/home/me/p</cwd>\n</environment_context>"}, )"
      R"({"role": "user", "content": "What is in this folder?"}, )"
      R"({"role": "assistant", "content": "I look.", "reasoning_content": "I list it.", "tool_calls": )"
      R"([{"type": "function", "id": "call_1", "function": {"name": "shell", "arguments": {"command": ["ls", "-a"]}}}, )"
      R"({"type": "function", "id": "call_2", "function": {"name": "update_plan", "arguments": {}}}]}, )"
      R"({"role": "tool", "content": "{\"output\":\"a.txt\\n\",\"metadata\":{\"exit_code\":0}}", )"
      R"("tool_call_id": "call_1", "name": "shell"}, )"
      R"({"role": "tool", "content": "Plan updated", "tool_call_id": "call_2", "name": "update_plan"}])");
  EXPECT_EQ(request->variables.find("tools")->as_array().size(), 2u);
  EXPECT_EQ(request->settings.max_calls, 1u);
  EXPECT_TRUE(request->stream);
  EXPECT_THAT(request->ignored,
              ElementsAre("input[].encrypted_content", "input[9] (custom_tool_call)",
                          "input[10] (custom_tool_call_output)", "tools[2] (custom)", "tools[3] (web_search)",
                          "tools[4] (image_generation)", "tools[5] (namespace)", "reasoning.summary", "text.verbosity",
                          "include[0] (reasoning.encrypted_content)", "prompt_cache_key", "client_metadata"));
}

TEST(OpenAiResponses, ReadFields) {
  Outcome<AnswerRequest> request =
      read_response(R"("input": "Hi", "instructions": "Be brief.", "max_output_tokens": 9, "temperature": 0.5,
          "top_p": 0.25, "reasoning": {"effort": "none"}, "reasoning_budget_tokens": 7, "store": true, "truncation": "auto", "user": "me",
          "text": {"format": {"type": "json_schema", "name": "a", "strict": true, "schema": {"type": "integer"}}},
          "metadata": {"k": "v"})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(write_json(request->messages),
            R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])");
  EXPECT_EQ(write_json(request->variables), R"({"enable_thinking": false})");
  EXPECT_EQ(request->settings.max_tokens, 9u);
  EXPECT_EQ(request->settings.thought_budget, 7u);
  EXPECT_EQ(request->settings.sampling.temperature, 0.5f);
  EXPECT_NE(request->settings.grammar, nullptr);
  EXPECT_THAT(request->ignored, ElementsAre("store", "truncation", "user"));
  request->writer->set({.id = "1", .model = "demo", .system_fingerprint = {}});
  const Json reply = request->writer->whole({AnsweredPart{}});
  EXPECT_EQ(write_json(*reply.find("metadata")), R"({"k": "v"})");
  EXPECT_EQ(write_json(*reply.find("reasoning")), R"({"effort": "none", "summary": null})");
  EXPECT_EQ(reply.find("text")->find("format")->find("name")->as_string(), "a");
  EXPECT_EQ(reply.find("truncation")->as_string(), "disabled");
}

// Forms that clients take from other servers were ignored, and the answer had another form.
TEST(OpenAiResponses, TakeTheFormsOfChats) {
  for (const char* form : {R"("response_format": {"type": "json_object"})", R"("grammar": "root ::= \"a\"")",
                           R"("guided_choice": ["a", "b"])", R"("structured_outputs": {"regex": "a+"})"}) {
    Outcome<AnswerRequest> request = read_response(cat(R"("input": "Hi", )", form));
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_NE(request->settings.grammar, nullptr) << form;
    EXPECT_THAT(request->ignored, ElementsAre()) << form;
  }
}

TEST(OpenAiResponses, AreRefusedWithAReason) {
  EXPECT_EQ(refused(R"("model": "demo")"), "input: input is missing: want some text or a list of items");
  EXPECT_EQ(refused(R"("input": [])"), "input: input is no text and no list of items: want one of them");
  EXPECT_EQ(
      refused(R"("input": "a", "previous_response_id": "resp_1")"),
      "previous_response_id: previous_response_id: responses are not stored: want the whole conversation in input");
  EXPECT_EQ(refused(R"("input": [{"type": "item_reference", "id": "msg_1"}])"),
            "input[0]: input[0] is an item_reference: want the item itself, since responses are not stored");
  EXPECT_EQ(refused(R"("input": [{"role": "robot", "content": "a"}])"),
            "input[0].role: input[0].role is robot: want system, developer, user or assistant");
  EXPECT_EQ(refused(R"("input": [{"type": "function_call", "name": "f", "call_id": "1", "arguments": "{oops"}])"),
            "input[0].arguments: input[0].arguments is no JSON object: want {...}");
  EXPECT_EQ(refused(R"("input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}])"),
            "input[0].content: input[0].content: a part is of type input_file: want text, a picture or a sound");
  for (const char* members :
       {R"("conversation": "conv_1")", R"("background": true)", R"("prompt": {"id": "p"})", R"("top_logprobs": 2)",
        R"("include": ["message.output_text.logprobs"], "top_logprobs": 21)", R"("include": [3])",
        R"("max_output_tokens": 0)", R"("text": {"format": {"type": "xml"}})", R"("reasoning": {"effort": "huge"})",
        R"("text": {"format": {"type": "json_schema", "name": "a"}})", R"("tools": [{"name": "f"}])",
        R"("tools": [{"type": "function"}])", R"("metadata": 3)", R"("stream": "yes")", R"("stop_token_ids": [1])",
        R"("guided_regex": "(a")", R"("text": {"format": {"type": "json_object"}}, "guided_regex": "a")"})
    EXPECT_NE(refused(cat(R"("input": "a", )", members)), "taken") << members;
  for (const char* members :
       {R"("background": false)", R"("store": false)", R"("truncation": "disabled")",
        R"("text": {"format": {"type": "text"}})", R"("previous_response_id": null)", R"("top_logprobs": 0)",
        R"("include": ["message.output_text.logprobs"], "top_logprobs": 20)"})
    EXPECT_EQ(refused(cat(R"("input": "a", )", members)), "taken") << members;
}

// Thought, text and calls in this order are one message of the assistant; what comes in another order begins a new one.
TEST(OpenAiResponses, JoinTheItemsOfAnAnswer) {
  Outcome<AnswerRequest> request = read_response(R"("input": [{"role": "user", "content": "a"},
      {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]},
      {"type": "function_call", "name": "f", "call_id": "1", "arguments": "{}"},
      {"role": "assistant", "content": "b"}, {"role": "assistant", "content": "c"}])");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(write_json(request->messages),
            R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "reasoning_content": "Hm", )"
            R"("tool_calls": [{"type": "function", "id": "1", "function": {"name": "f", "arguments": {}}}]}, )"
            R"({"role": "assistant", "content": "b"}, {"role": "assistant", "content": "c"}])");
}

std::string data_of(const std::string& text) {
  const TestReply reply{.head = {}, .body = text};
  std::string all;
  for (const Json& one : reply.events()) {
    std::string line = one.find("type")->as_string();
    for (const char* name : {"item_id", "output_index", "content_index", "delta", "text", "arguments"})
      if (const Json* value = one.find(name)) line += cat(' ', name, '=', write_json(*value));
    all += line + "\n";
  }
  return all;
}

TEST(OpenAiResponseStream, HasEachItemFromItsBeginningToItsEnd) {
  const std::unique_ptr<AnswerWriter> writer = make_response_writer(Json::Object{});
  writer->set({.id = "1", .model = "demo", .system_fingerprint = {}});
  std::string text = writer->stream_begin();
  AnsweredPart part;
  DoneEvent done;
  done.usage = {.prompt_tokens = 9, .reused_tokens = 4, .answer_tokens = 7};
  for (const TurnEvent& event : {TurnEvent(ThinkingEvent{"Hm"}), TurnEvent(TextEvent{"So"}), TurnEvent(TextEvent{"."}),
                                 TurnEvent(ToolCallEvent{{"now", Json::Object{{"zone", 3}}}}), TurnEvent(done)}) {
    const AnswerNews news{.events = {event}};
    part.take(news);
    text += writer->stream(news, part);
  }
  text += writer->stream_end({part});
  EXPECT_EQ(data_of(text), R"(response.created
response.in_progress
response.output_item.added output_index=0
response.content_part.added item_id="rs_1_0" output_index=0 content_index=0
response.reasoning_text.delta item_id="rs_1_0" output_index=0 content_index=0 delta="Hm"
response.reasoning_text.done item_id="rs_1_0" output_index=0 content_index=0 text="Hm"
response.content_part.done item_id="rs_1_0" output_index=0 content_index=0
response.output_item.done output_index=0
response.output_item.added output_index=1
response.content_part.added item_id="msg_1_1" output_index=1 content_index=0
response.output_text.delta item_id="msg_1_1" output_index=1 content_index=0 delta="So"
response.output_text.delta item_id="msg_1_1" output_index=1 content_index=0 delta="."
response.output_text.done item_id="msg_1_1" output_index=1 content_index=0 text="So."
response.content_part.done item_id="msg_1_1" output_index=1 content_index=0
response.output_item.done output_index=1
response.output_item.added output_index=2
response.function_call_arguments.delta item_id="fc_1_2" output_index=2 delta="{\"zone\": 3}"
response.function_call_arguments.done item_id="fc_1_2" output_index=2 arguments="{\"zone\": 3}"
response.output_item.done output_index=2
response.completed
)");
  const TestReply reply{.head = {}, .body = text};
  const std::vector<Json> events = reply.events();
  Json::Array items;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].find("sequence_number")->as_integer(), static_cast<int64_t>(i));
    if (events[i].find("type")->as_string() == "response.output_item.done") items.push_back(*events[i].find("item"));
  }
  const Json& last = *events.back().find("response");
  EXPECT_EQ(write_json(*last.find("output")), write_json(items));
  EXPECT_EQ(
      write_json(*last.find("usage")),
      R"({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0}, "output_tokens": 7, )"
      R"("output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 16})");
}

TEST(OpenAiResponseStream, SaysWhatALimitCutAndWhatFailed) {
  const std::unique_ptr<AnswerWriter> writer = make_response_writer(Json::Object{});
  writer->set({.id = "1", .model = "demo", .system_fingerprint = {}});
  AnsweredPart part;
  DoneEvent done;
  done.end = TurnEnd::length;
  const AnswerNews news{.events = {TextEvent{"So"}, done}};
  part.take(news);
  EXPECT_THAT(writer->stream(news, part), testing::HasSubstr(R"("status": "incomplete")"));
  const TestReply end{.head = {}, .body = writer->stream_end({part})};
  const Json last = end.events()[0];
  EXPECT_EQ(last.find("type")->as_string(), "response.incomplete");
  EXPECT_EQ(write_json(*last.find("response")->find("incomplete_details")), R"({"reason": "max_output_tokens"})");
  const TestReply failed{.head = {}, .body = writer->stream_failure({.status = 500, .message = "broken"})};
  const std::vector<Json> events = failed.events();
  EXPECT_EQ(events[0].find("message")->as_string(), "broken");
  EXPECT_EQ(write_json(*events[1].find("response")->find("error")), R"({"code": "server_error", "message": "broken"})");
}

TEST(OpenAiResponsesServer, StreamsWhatItAnswersWhole) {
  const TestServer server;
  const std::string members = R"("input": "What is a violin?", "temperature": 0, "top_p": 0.9, "model": "demo")";
  const TestReply whole = ask(server, kResponses, cat("{", members, "}"));
  ASSERT_EQ(whole.status, 200) << whole.body;
  const Json response = whole.json();
  EXPECT_EQ(response.find("status")->as_string(), "completed");
  EXPECT_FALSE(response.find("store")->as_bool());
  EXPECT_EQ(response.find("top_p")->as_number(), 0.9);
  const Json& message = response.find("output")->as_array()[0];
  EXPECT_EQ(message.find("content")->as_array()[0].find("text")->as_string(),
            "violin (noun): bowed stringed instrument that is the highest member of the violin family.");
  const TestReply streamed = ask(server, kResponses, cat("{\"stream\": true, ", members, "}"));
  const std::vector<Json> events = streamed.events();
  std::string text;
  for (const Json& event : events)
    if (event.find("type")->as_string() == "response.output_text.delta") text += event.find("delta")->as_string();
  EXPECT_EQ(text, message.find("content")->as_array()[0].find("text")->as_string());
  EXPECT_THAT(streamed.body, testing::StartsWith("event: response.created\ndata: "));
  const Json& last = *events.back().find("response");
  EXPECT_EQ(last.find("usage")->find("output_tokens")->as_integer(),
            response.find("usage")->find("output_tokens")->as_integer());
  const Json counted = ask(server, "/v1/responses/input_tokens", cat("{", members, "}")).json();
  EXPECT_EQ(counted.find("input_tokens")->as_integer(), response.find("usage")->find("input_tokens")->as_integer());
}

TEST(OpenAiResponsesServer, AnswersACodingAgent) {
  const TestServer server;
  ask(server, "/api/generate", R"({"model": "demo"})");  // loads the model
  const TestReply reply = ask(server, kResponses, codex_request());
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.header("x-sluice-ignored"), testing::HasSubstr("tools[2] (custom), tools[3] (web_search)"));
  const std::vector<Json> events = reply.events();
  EXPECT_EQ(events.front().find("type")->as_string(), "response.created");
  EXPECT_NE(events.back().find("response"), nullptr);
}

// Codex's next request has the same items and what has come since. What changes in it each time is not part of the
// prompt.
TEST(OpenAiResponsesServer, ReusesACodingAgentsPrompt) {
  const TestServer server;
  const auto usage_of = [&](const std::string& body) {
    const std::vector<Json> events = ask(server, kResponses, body).events();
    return *events.back().find("response")->find("usage");
  };
  const std::string first = codex_request();
  const Json usage = usage_of(first);
  const int64_t prompt = usage.find("input_tokens")->as_integer();
  std::string second = first;
  second.replace(second.find("-id\": \"1\"") + 7, 1, "2");
  second.insert(second.find("\n  ],\n  \"tools\""), R"(,
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "There is a.txt."}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Show it."}]})");
  const Json next = usage_of(second);
  EXPECT_GT(next.find("input_tokens")->as_integer(), prompt);
  EXPECT_GE(next.find("input_tokens_details")->find("cached_tokens")->as_integer(), prompt / 64 * 64);
}

}  // namespace
}  // namespace sluice
