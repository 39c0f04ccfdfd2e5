// OpenAI's API: what each field does, what is refused and with which words, and the shape of replies and chunks.
#include "serve/openai/openai.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"
#include "serve/fields.h"
#include "tests/serve/test_server.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kMessages = R"("messages": [{"role": "user", "content": "What is a violin?"}])";

Outcome<AnswerRequest> read_chat(const std::string& members) {
  return read_openai_chat(unwrap(parse_json("{" + members + "}", "body")), served_demo());
}
AnswerRequest chat(const std::string& members) {
  Outcome<AnswerRequest> request = read_chat(cat(kMessages, ", ", members));
  if (!request) throw std::runtime_error(request.error().message);
  return *std::move(request);
}
// "param: sentence"
std::string refused(const std::string& members) {
  const Outcome<AnswerRequest> request = read_chat(members);
  return request ? "taken" : cat(request.error().param, ": ", request.error().message);
}
std::string refused_beside_messages(const std::string& members) { return refused(cat(kMessages, ", ", members)); }

TEST(OpenAiChat, ReadsSamplingAndLimits) {
  const AnswerRequest request =
      chat(R"("temperature": 0.5, "top_p": 0.25, "top_k": 3, "min_p": 0.125, "presence_penalty": -1, "seed": 9,
              "frequency_penalty": 2, "repetition_penalty": 1.5, "logit_bias": {"5": -100}, "stop": ["a", "b"],
              "max_tokens": 3, "max_completion_tokens": 7, "n": 2, "stream": true, "parallel_tool_calls": false)");
  const SamplingSettings& sampling = request.settings.sampling;
  EXPECT_EQ(sampling.temperature, 0.5f);
  EXPECT_EQ(sampling.top_p, 0.25f);
  EXPECT_EQ(sampling.top_k, 3u);
  EXPECT_EQ(sampling.min_p, 0.125f);
  EXPECT_EQ(sampling.presence_penalty, -1.0f);
  EXPECT_EQ(sampling.frequency_penalty, 2.0f);
  EXPECT_EQ(sampling.repeat_penalty, 1.5f);
  EXPECT_EQ(sampling.seed, 9u);
  EXPECT_THAT(sampling.logit_bias, ElementsAre(std::pair(5, -100.0f)));
  EXPECT_THAT(request.settings.stops, ElementsAre("a", "b"));
  EXPECT_EQ(request.settings.max_tokens, 7u);
  EXPECT_EQ(request.settings.max_calls, 1u);
  EXPECT_EQ(request.choices, 2u);
  EXPECT_TRUE(request.stream);
}

TEST(OpenAiChat, NamesWhatItIgnores) {
  const AnswerRequest request = chat(R"("user": "me", "store": false, "metadata": null, "frobnicate": 1,
                                        "stream_options": {"include_obfuscation": true})");
  EXPECT_THAT(request.ignored, ElementsAre("stream_options.include_obfuscation", "user", "store", "frobnicate"));
}

TEST(OpenAiChat, RefusesWhatItCannotHonour) {
  EXPECT_EQ(refused(R"("model": "demo")"), "messages: messages is missing: want a list of messages");
  EXPECT_EQ(refused(R"("messages": [])"), "messages: messages is empty: want at least one message");
  EXPECT_EQ(refused_beside_messages(R"("temperature": 2.5)"),
            "temperature: temperature is 2.5: want a number from 0 to 2");
  EXPECT_EQ(refused_beside_messages(R"("n": 0)"), "n: n is 0: want a whole number from 1 to 128");
  EXPECT_EQ(refused_beside_messages(R"("max_tokens": 0)"),
            "max_tokens: max_tokens is 0: want a whole number from 1 to 4294967295");
  EXPECT_EQ(refused_beside_messages(R"("stop": [""])"), "stop: stop: a stop string is empty: want some text");
  EXPECT_EQ(refused_beside_messages(R"("logit_bias": {"x": 1})"),
            "logit_bias: logit_bias names token x: want one from 0 to 4095");
  for (const char* members :
       {R"("functions": [{}])", R"("audio": {})", R"("top_logprobs": 2)", R"("logprobs": true, "top_logprobs": 21)",
        R"("grammar": "root")", R"("structural_tag": "x")", R"("modalities": ["text", "audio"])", R"("min_tokens": 3)",
        R"("tool_choice": "required")", R"("stream": "yes")", R"("chat_template_kwargs": {"tools": []})",
        R"("reasoning_effort": "huge")", R"("thinking_token_budget": -2)", R"("continue_final_message": true)"})
    EXPECT_NE(refused_beside_messages(members), "taken") << members;
  for (const char* members :
       {R"("response_format": {"type": "text"})", R"("logprobs": false)", R"("tool_choice": "none")",
        R"("modalities": ["text"])", R"("functions": null)", R"("temperature": null)",
        R"("continue_final_message": false, "add_generation_prompt": true)"})
    EXPECT_EQ(refused_beside_messages(members), "taken") << members;
}

TEST(OpenAiChat, TakesFormsOfTheAnswer) {
  for (const char* members :
       {R"("response_format": {"type": "json_object"})", R"("response_format": {"type": "json_schema", "json_schema":
          {"name": "a", "strict": true, "schema": {"type": "object"}}})",
        R"("response_format": {"type": "json_schema", "schema": {"type": "null"}})",
        R"("response_format": {"type": "json_object", "schema": {}})", R"("grammar": "root ::= \"a\"")",
        R"("json_schema": {"type": "integer"})", R"("guided_json": "{\"type\": \"integer\"}")",
        R"("guided_regex": "a+")", R"("guided_choice": ["a", "b"])", R"("guided_grammar": "root ::= [a-z]+")",
        R"("structured_outputs": {"json": {}})", R"("structured_outputs": {"regex": "a"})",
        R"("structured_outputs": {"choice": ["a"]})", R"("structured_outputs": {"json_object": true})"})
    EXPECT_NE(chat(members).settings.grammar, nullptr) << members;
  for (const char* members : {R"("response_format": {"type": "text"})", R"("grammar": "")", R"("guided_regex": null)"})
    EXPECT_EQ(chat(members).settings.grammar, nullptr) << members;
}

TEST(OpenAiChat, RefusesFormsThatCannotBeHonouredByPathAndKeyword) {
  EXPECT_EQ(refused_beside_messages(R"("response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema":
                                     {"properties": {"b": {"not": {}}}}}})"),
            "response_format.json_schema.schema: response_format.json_schema.schema: #/properties/b: not: cannot be "
            "honoured: want a schema without it");
  EXPECT_EQ(refused_beside_messages(R"("response_format": {"type": "json_schema"})"),
            "response_format: response_format.json_schema.schema is missing: want a schema");
  EXPECT_EQ(refused_beside_messages(R"("grammar": "root ::= x")"), "grammar: grammar: rule x is used but not there");
  EXPECT_EQ(refused_beside_messages(R"("response_format": {"type": "xml"})"),
            "response_format: response_format is {\"type\": \"xml\"}: want type text, json_object or json_schema");
  for (const char* schema : {"123", R"({"type": 123})", R"({"type": "hiccup"})"})
    for (const char* type : {"json_object", "json_schema"})
      EXPECT_THAT(
          refused_beside_messages(cat(R"("response_format": {"type": ")", type, R"(", "schema": )", schema, "}")),
          testing::StartsWith("response_format.schema: "))
          << schema;
  EXPECT_EQ(refused_beside_messages(R"("guided_regex": "a", "guided_choice": ["b"])"),
            "guided_choice: guided_choice: the request asks for another form as well: want one of them");
}

TEST(OpenAiChat, ReadsMessages) {
  Outcome<AnswerRequest> request = read_chat(R"("messages": [
      {"role": "developer", "content": "Be brief."},
      {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "x"},
      {"role": "assistant", "content": null, "tool_calls":
          [{"id": "c1", "type": "function", "function": {"name": "now", "arguments": "{\"zone\": 3}"}}]},
      {"role": "tool", "tool_call_id": "c1", "content": "noon"},
      {"role": "assistant", "content": "Noon.", "reasoning": "Hm"}])");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(write_json(request->messages),
            R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "ab"}, )"
            R"({"role": "assistant", "content": "", "tool_calls": [{"type": "function", "id": "c1", )"
            R"("function": {"name": "now", "arguments": {"zone": 3}}}]}, )"
            R"({"role": "tool", "content": "noon", "tool_call_id": "c1", "name": "now"}, )"
            R"({"role": "assistant", "content": "Noon.", "reasoning_content": "Hm"}])");
  EXPECT_THAT(request->ignored, ElementsAre("messages[].name"));
}

TEST(OpenAiChat, RefusesBrokenMessages) {
  const auto of = [](const char* message) { return refused(cat(R"("messages": [)", message, "]")); };
  EXPECT_EQ(of("3"), "messages[0]: messages[0] is no object: want {\"role\": ..., \"content\": ...}");
  EXPECT_EQ(refused(R"("messages": "a")"), "messages: messages is \"a\": want a list");
  EXPECT_EQ(of(R"({"role": 123, "content": "a"})"), "messages[0].role: messages[0].role is 123: want a string");
  EXPECT_EQ(of(R"({"role": "user", "content": 123})"),
            "messages[0].content: messages[0].content is no text: want a string or a list of parts");
  EXPECT_EQ(of(R"({"role": "user", "content": "a"}, {})").substr(0, 11), "messages[1]");
  EXPECT_EQ(of(R"({"role": "user"})"), "messages[0].content: messages[0] has no content: want some text");
  EXPECT_EQ(of(R"({"role": "robot", "content": ""})"),
            "messages[0].role: messages[0].role is robot: want system, developer, user, assistant or tool");
  EXPECT_EQ(of(R"({"role": "assistant"})"),
            "messages[0].content: messages[0] has neither content nor tool_calls: want one of them");
  EXPECT_EQ(of(R"({"role": "user", "content": [{"type": "file", "file": {"file_id": "x"}}]})"),
            "messages[0].content: messages[0].content: a part is of type file: want text, a picture or a sound");
  EXPECT_EQ(of(R"({"role": "user", "content": ["x"]})"),
            "messages[0].content: messages[0].content: a part is of no type: want text, a picture or a sound");
  EXPECT_EQ(of(R"({"role": "user", "content": [{"type": "text", "text": 5}]})"),
            "messages[0].content: messages[0].content: a part of type text has no text: want a string");
  EXPECT_EQ(of(R"({"role": "system", "content": [{"type": "image_url", "image_url": {"url": "x"}}]})"),
            "messages[0].content: messages[0].content: a part is of type image_url: want text alone");
  EXPECT_EQ(of(R"({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{oops"}}]})"),
            "messages[0].tool_calls[0].function.arguments: messages[0].tool_calls[0].function.arguments is no JSON "
            "object: want {...}");
}

TEST(OpenAiChat, GivesTheTemplateItsVariables) {
  const AnswerRequest request =
      chat(R"("tools": [{"type": "function", "function": {"name": "now"}}], "reasoning_effort": "none",
              "chat_template_kwargs": {"custom": 1})");
  EXPECT_EQ(write_json(request.variables),
            R"({"tools": [{"type": "function", "function": {"name": "now"}}], "enable_thinking": false, "custom": 1})");
  EXPECT_EQ(refused_beside_messages(R"("tools": [{"type": "web_search"}])"),
            "tools[0].type: tools[0].type is \"web_search\": want function");
  EXPECT_EQ(chat(R"("tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none")")
                .variables.find("tools"),
            nullptr);
}

// What the streamed chunks say of choice 0, joined, then what the whole reply says.
TEST(OpenAiChat, CallsAreStreamedAsTheyAreGivenWhole) {
  AnswerRequest request = chat(R"("stream": true)");
  request.writer->set({.id = "1", .model = "demo", .system_fingerprint = {}});
  const Json zone = Json::Object{{"zone", 3}};
  DoneEvent done;
  done.usage.thinking_tokens = 2;
  AnsweredPart part;
  std::string streamed;
  for (const TurnEvent& event : {TurnEvent(ThinkingEvent{"Hm"}), TurnEvent(ToolCallEvent{{"now", zone}}),
                                 TurnEvent(ToolCallEvent{{"then", Json::Object{}}}), TurnEvent(done)}) {
    const AnswerNews news{.events = {event}};
    part.take(news);
    streamed += request.writer->stream(news, part);
  }
  const TestReply reply{.head = {}, .body = streamed};
  std::vector<std::string> deltas;
  for (const Json& event : reply.events())
    deltas.push_back(write_json(*event.find("choices")->as_array()[0].find("delta")));
  EXPECT_THAT(deltas, ElementsAre(R"({"reasoning_content": "Hm"})",
                                  R"({"tool_calls": [{"index": 0, "id": "call_1_0_0", "type": "function", "function": )"
                                  R"({"name": "now", "arguments": "{\"zone\": 3}"}}]})",
                                  R"({"tool_calls": [{"index": 1, "id": "call_1_0_1", "type": "function", "function": )"
                                  R"({"name": "then", "arguments": "{}"}}]})",
                                  "{}"));
  const Json whole = request.writer->whole({part});
  const Json& choice = whole.find("choices")->as_array()[0];
  EXPECT_EQ(choice.find("finish_reason")->as_string(), "tool_calls");
  EXPECT_TRUE(choice.find("message")->find("content")->is_null());
  EXPECT_EQ(choice.find("message")->find("reasoning_content")->as_string(), "Hm");
  EXPECT_EQ(choice.find("message")->find("tool_calls")->as_array().size(), 2u);
  EXPECT_EQ(whole.find("usage")->find("completion_tokens_details")->find("reasoning_tokens")->as_integer(), 2);
}

TEST(OpenAiServer, AnswersInItsShape) {
  const TestServer server;
  const TestReply reply = ask(server, kChat, cat("{\"user\": \"me\", \"temperature\": 0, ", kMessages, "}"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("x-sluice-ignored"), "user");
  const Json json = reply.json();
  EXPECT_EQ(json.find("object")->as_string(), "chat.completion");
  const Json& choice = json.find("choices")->as_array()[0];
  EXPECT_EQ(choice.find("message")->find("content")->as_string(),
            "violin (noun): bowed stringed instrument that is the highest member of the violin family.");
  EXPECT_EQ(choice.find("finish_reason")->as_string(), "stop");
  const Json& usage = *json.find("usage");
  EXPECT_EQ(usage.find("total_tokens")->as_integer(),
            usage.find("prompt_tokens")->as_integer() + usage.find("completion_tokens")->as_integer());
}

TEST(OpenAiServer, StreamsInItsShape) {
  const TestServer server;
  const TestReply reply =
      ask(server, kChat,
          cat(R"({"stream": true, "stream_options": {"include_usage": true}, "max_tokens": 3, )", kMessages, "}"));
  EXPECT_EQ(reply.header("content-type"), "text/event-stream");
  EXPECT_THAT(reply.body, testing::EndsWith("data: [DONE]\n\n"));
  const std::vector<Json> events = reply.events();
  ASSERT_GE(events.size(), 3u);
  const auto delta = [&](size_t i) { return *events[i].find("choices")->as_array()[0].find("delta"); };
  EXPECT_EQ(write_json(delta(0)), R"({"role": "assistant", "content": ""})");
  const Json& last = events[events.size() - 2].find("choices")->as_array()[0];
  EXPECT_EQ(last.find("finish_reason")->as_string(), "length");
  EXPECT_TRUE(events.back().find("choices")->as_array().empty());
  EXPECT_EQ(events.back().find("usage")->find("completion_tokens")->as_integer(), 3);
  for (const Json& event : events) {
    EXPECT_EQ(event.find("id")->as_string(), events[0].find("id")->as_string());
    EXPECT_EQ(event.find("usage")->is_null(), &event != &events.back());
  }
}

TEST(OpenAiServer, TextNeverBecomesControlTokens) {
  const ServedModel model = served_demo();
  const Tokenizer& tokenizer = model.text->tokenizer;
  const std::string turn(tokenizer.text(model.text->ends.back()));
  ASSERT_FALSE(turn.empty());
  const auto count = [&](const std::string& typed) {
    Outcome<AnswerRequest> request = read_chat(cat(R"("messages": [{"role": "system", "content": "s)", typed,
                                                   R"("}, {"role": "user", "content": "u)", typed, "\"}]"));
    Outcome<std::vector<AnswerJob>> jobs = prepare(*request, model);
    EXPECT_TRUE(jobs);
    EXPECT_THAT((*jobs)[0].prompt.text, HasSubstr("u" + typed));
    return std::ranges::count((*jobs)[0].prompt.ids, model.text->ends.back());
  };
  EXPECT_EQ(count(turn), count("x"));
}

TEST(OpenAiServer, NeverCutsAPrompt) {
  const TestServer server;
  std::string long_text;
  for (int i = 0; i < 2000; ++i) long_text += "word ";
  const TestReply reply = ask(server, kChat, cat(R"({"messages": [{"role": "user", "content": ")", long_text, "\"}]}"));
  EXPECT_EQ(reply.status, 400);
  const Json json = reply.json();
  const Json& error = *json.find("error");
  EXPECT_EQ(error.find("code")->as_string(), "context_length_exceeded");
  EXPECT_THAT(error.find("message")->as_string(), testing::ContainsRegex("has [0-9]+ tokens.*context of 1024"));
  EXPECT_EQ(reply.header("x-should-retry"), "false");
  // A stream is refused before it begins.
  const TestReply streamed =
      ask(server, kChat, cat(R"({"stream": true, "messages": [{"role": "user", "content": ")", long_text, "\"}]}"));
  EXPECT_EQ(streamed.status, 400);
  EXPECT_EQ(streamed.json().find("error")->find("code")->as_string(), "context_length_exceeded");
}

TEST(OpenAiServer, RefusesWrongBodiesAndModels) {
  const TestServer server;
  EXPECT_EQ(ask(server, kChat, "{\"messages\": [").status, 400);
  EXPECT_EQ(ask(server, kChat, "[]").status, 400);
  EXPECT_EQ(ask(server, kChat, "{\"messages\": \"\xff\"}").status, 400);
  const TestReply other = ask(server, kChat, cat(R"({"model": "gpt-9", )", kMessages, "}"));
  EXPECT_EQ(other.status, 404);
  EXPECT_EQ(other.json().find("error")->find("code")->as_string(), "model_not_found");
  EXPECT_EQ(ask(server, kChat, cat(R"({"model": "other:latest", "max_tokens": 1, )", kMessages, "}")).status, 200);
  EXPECT_EQ(get(server, "/v1/models/demo").status, 200);
  EXPECT_EQ(get(server, "/v1/models/de%6Do").status, 200);
  EXPECT_EQ(get(server, "/v1/models/nope").status, 404);
  EXPECT_EQ(get(server, kChat).status, 405);
  const Json models = get(server, "/v1/models").json();
  EXPECT_EQ(models.find("data")->as_array().size(), 1u);
}

TEST(OpenAiServer, CompletesTextAndIds) {
  const TestServer server;
  const std::string text = R"("temperature": 0, "max_tokens": 5})";
  const auto texts = [](const TestReply& reply) {
    std::vector<std::string> all;
    const Json json = reply.json();
    for (const Json& choice : json.find("choices")->as_array()) all.push_back(choice.find("text")->as_string());
    return all;
  };
  const std::vector<std::string> two =
      texts(ask(server, "/v1/completions", R"({"prompt": ["A violin is", "The river"], "n": 2, )" + text));
  ASSERT_EQ(two.size(), 4u);
  EXPECT_EQ(two[0], two[1]);  // the likeliest tokens
  EXPECT_NE(two[0], two[2]);
  std::string ids;
  for (const int32_t id : demo_model().text.tokenizer.encode("A violin is", {.add_special = true}))
    ids += cat(ids.empty() ? "" : ", ", id);
  EXPECT_EQ(texts(ask(server, "/v1/completions", cat("{\"prompt\": [", ids, "], ", text)))[0], two[0]);
  const std::vector<std::string> mixed =
      texts(ask(server, "/v1/completions", cat("{\"prompt\": [[", ids, "], \"A violin is\"], ", text)));
  EXPECT_THAT(mixed, ElementsAre(two[0], two[0]));
  for (const char* members : {R"("prompt": "a", "echo": true)", R"("prompt": "a", "suffix": "b")", R"("prompt": [])",
                              R"("prompt": "a", "best_of": 3)", R"("prompt": [9999999])",
                              R"("prompt": "a", "logprobs": 21)", R"("prompt": [["a"]])"})
    EXPECT_EQ(ask(server, "/v1/completions", cat("{", members, "}")).status, 400) << members;
}

}  // namespace
}  // namespace sluice
