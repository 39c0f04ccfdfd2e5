// Answers that go on from a last message of the assistant, in the APIs that have them. 0.1 s.
#include "serve/prefill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files/file.h"
#include "base/text.h"
#include "serve/anthropic/anthropic.h"
#include "serve/ollama/ollama.h"
#include "serve/openai/openai.h"
#include "tests/serve/test_server.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kGoOn = R"("continue_final_message": true, "add_generation_prompt": false)";

std::string dialog(const std::string& last) {
  return cat(R"("model": "demo", "messages": [{"role": "user", "content": "What is a violin?"}, )", last, "]");
}
std::string begun(const std::string& text) { return dialog(cat(R"({"role": "assistant", "content": ")", text, "\"}")); }

struct Api {
  const char* path;
  const char* settings;
  Outcome<AnswerRequest> (*read)(const Json&, const ServedModel&);
};
constexpr const char* kOpenAi = "/v1/chat/completions";
const Api kApis[] = {
    {kOpenAi, R"("temperature": 0, "continue_final_message": true, "add_generation_prompt": false)", read_openai_chat},
    {"/v1/messages", R"("temperature": 0, "max_tokens": 40)", read_anthropic_messages},
    {"/api/chat", R"("options": {"temperature": 0}, "stream": false)", read_ollama_chat}};

Outcome<AnswerRequest> read(const Api& api, const std::string& members) {
  return api.read(unwrap(parse_json(cat("{", members, ", ", api.settings, "}"), "body")), served_demo());
}
std::string refused(const Api& api, const std::string& members) {
  Outcome<AnswerRequest> request = read(api, members);
  return request ? "taken" : request.error().message;
}
std::string openai_says(const std::string& members) {
  const auto request = read_openai_chat(unwrap(parse_json(cat("{", members, "}"), "body")), served_demo());
  return request ? "taken" : cat(request.error().param, ": ", request.error().message);
}

std::string text_of(const Json& reply) {
  if (const Json* choices = reply.find("choices"))
    return choices->as_array()[0].find("message")->find("content")->as_string();
  if (const Json* message = reply.find("message")) return message->find("content")->as_string();
  const Json* content = reply.find("content");
  return content == nullptr ? write_json(reply) : content->as_array()[0].find("text")->as_string();
}

TEST(Prefill, EveryApiGoesOnFromTheLastMessage) {
  const TestServer server;
  for (const Api& api : kApis) {
    const TestReply reply = ask(server, api.path, cat("{", begun("violin (noun):"), ", ", api.settings, "}"));
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(text_of(reply.json()), " bowed stringed instrument that is the highest member of the violin family.")
        << api.path;
  }
}

TEST(Prefill, TextInPartsIsJoined) {
  Outcome<AnswerRequest> request =
      read(kApis[0], dialog(R"({"role": "assistant", "content": [{"type": "text", "text": "vio"},
                                                                 {"type": "text", "text": "lin"}]})"));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->prefill, "violin");
}

TEST(Prefill, TheStreamHasOnlyWhatFollows) {
  const TestServer server;
  const TestReply reply =
      ask(server, kOpenAi, cat("{", begun("violin (noun):"), R"(, "stream": true, )", kApis[0].settings, "}"));
  std::string text;
  for (const Json& event : reply.events())
    if (const Json* piece = event.find("choices")->as_array()[0].find("delta")->find("content"))
      text += piece->as_string();
  EXPECT_EQ(text, " bowed stringed instrument that is the highest member of the violin family.");
}

TEST(Prefill, OpenAiWantsBothFieldsAndAnAssistant) {
  EXPECT_EQ(openai_says(cat(begun("So"), R"(, "continue_final_message": true)")), "taken");
  EXPECT_EQ(openai_says(cat(begun("So"), R"(, "add_generation_prompt": false)")),
            "add_generation_prompt: add_generation_prompt is false: want continue_final_message beside it");
  EXPECT_EQ(openai_says(cat(begun("So"), R"(, "continue_final_message": true, "add_generation_prompt": true)")),
            "continue_final_message: continue_final_message beside add_generation_prompt cannot be honoured: want one "
            "of them");
  EXPECT_EQ(openai_says(cat(dialog(R"({"role": "user", "content": "And?"})"), ", ", kGoOn)),
            "continue_final_message: continue_final_message: want a last message of the assistant");
  auto turn = read_openai_chat(unwrap(parse_json(cat("{", begun("So"), "}"), "body")), served_demo());
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->prefill, "") << "a new turn, as long as nobody asks to go on";
  EXPECT_EQ(turn->messages.as_array().size(), 2u);
}

TEST(Prefill, MessagesThatEndWithCallsOrThoughtsAreRefused) {
  const std::string calls =
      dialog(R"({"role": "assistant", "content": "So", "tool_calls": [{"id": "1", "type": "function",
      "function": {"name": "now", "arguments": {}}}]})");
  const std::string thought = dialog(R"({"role": "assistant", "content": "So", "reasoning_content": "Hm"})");
  for (const Api& api : {kApis[0], kApis[2]}) {
    EXPECT_EQ(refused(api, calls), "messages ends with calls of tools: want their results behind them");
    EXPECT_EQ(refused(api, thought),
              "messages ends with a thought of the assistant: want its text alone to go on from");
  }
  EXPECT_EQ(refused(kApis[1],
                    dialog(R"({"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "now"}]})")),
            "messages ends with calls of tools: want their results behind them");
  EXPECT_EQ(refused(kApis[1], dialog(R"({"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm"}]})")),
            "messages ends with a thought of the assistant: want its text alone to go on from");
}

TEST(Prefill, AFormBesideItIsRefused) {
  EXPECT_EQ(refused(kApis[0], begun("So") + R"(, "response_format": {"type": "json_object"})"),
            "response_format beside a begun answer cannot be honoured: want one of them");
  EXPECT_THAT(
      refused(kApis[1], begun("So") + R"(, "output_config": {"format": {"type": "json_schema", "schema": {}}})"),
      HasSubstr(" beside a begun answer cannot be honoured: want one of them"));
  EXPECT_EQ(refused(kApis[2], begun("So") + R"(, "format": "json")"),
            "format beside a begun answer cannot be honoured: want one of them");
}

TEST(Prefill, LeavesNoPlaceForAThought) {
  const auto expect_none = [](const Api& api, const std::string& members, const std::string& field) {
    Outcome<AnswerRequest> request = read(api, begun("So") + members);
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_EQ(request->prefill, "So");
    EXPECT_FALSE(request->variables.find("enable_thinking")->as_bool());
    EXPECT_FALSE(request->settings.thought_budget);
    if (field.empty())
      EXPECT_THAT(request->ignored, IsEmpty());
    else
      EXPECT_THAT(request->ignored, ElementsAre(field));
  };
  for (const Api& api : kApis) expect_none(api, "", "");
  expect_none(kApis[0], R"(, "reasoning_effort": "high", "thinking_token_budget": 9)", "reasoning_effort");
  expect_none(kApis[0], R"(, "chat_template_kwargs": {"enable_thinking": true})",
              "chat_template_kwargs.enable_thinking");
  expect_none(kApis[1], R"(, "thinking": {"type": "enabled", "budget_tokens": 9})", "thinking");
  expect_none(kApis[2], R"(, "think": true)", "think");
}

TEST(Prefill, AnEmptyOneIsAnAnswerThatHasNotBegun) {
  for (const Api& api : kApis) {
    Outcome<AnswerRequest> request = read(api, begun(""));
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_EQ(request->messages.as_array().size(), 1u);
    EXPECT_EQ(request->variables.find("enable_thinking"), nullptr);
  }
}

// As DeepSeek-R1's: what follows the prompt is a thought.
TEST(Prefill, ATemplateThatAlwaysOpensAThoughtIsRefused) {
  const std::string path = (std::filesystem::path(testing::TempDir()) / "sluice_prefill.jinja").string();
  ASSERT_TRUE(write_file(path, "{{ messages[0].content }}</think>A: <think>\n"));
  const Model model = unwrap(open_model("tests/data/gemma4_dense"));
  const TextParts text = unwrap(open_text(model, {.chat_template_path = path, .has_tools = false}));
  ServedModel served = served_demo();
  served.text = &text;
  Outcome<AnswerRequest> request = read(kApis[2], begun("So"));
  ASSERT_TRUE(request);
  const auto jobs = prepare(*request, served);
  ASSERT_FALSE(jobs);
  EXPECT_EQ(jobs.error().message,
            "the model's chat template begins every answer with a thought: the answer cannot go on from a last message "
            "of the assistant");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace sluice
