// Pictures in results of tools, in all APIs: where the template shows them, and where they follow the result. Costs
// 0.2 s in each change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/base64.h"
#include "base/files/file.h"
#include "base/text.h"
#include "serve/anthropic/anthropic.h"
#include "serve/openai/openai.h"
#include "tests/serve/test_server.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using Reader = Outcome<AnswerRequest> (*)(const Json&, const ServedModel&);

const std::string& picture() {
  static const std::string text =
      encode_base64(unwrap(read_file(cat(SLUICE_TEST_DATA, "/gemma4/picture1.png"), 1 << 20)));
  return text;
}
std::string url() { return cat("\"data:image/png;base64,", picture(), '"'); }
std::string block() {
  return cat(R"({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ")", picture(),
             R"("}})");
}

ChatPrompt prompt_of(Reader read, const std::string& body, const ServedModel& model = served_demo()) {
  Outcome<AnswerRequest> request = read(unwrap(parse_json(body, "body")), model);
  EXPECT_TRUE(request) << request.error().message;
  Outcome<std::vector<AnswerJob>> jobs = prepare(*request, model);
  EXPECT_TRUE(jobs) << jobs.error().message;
  return jobs->front().prompt;
}

// A user asks, the model calls `look`, and `results` follow.
std::string chat(const std::string& results) {
  return cat(
      R"({"messages": [{"role": "user", "content": "Look."}, {"role": "assistant", "content": null, "tool_calls": [)",
      R"({"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]}, )", results, "]}");
}
std::string message(const std::string& content) {
  return cat(R"({"max_tokens": 40, "temperature": 0, "messages": [{"role": "user", "content": "Look."}, )",
             R"({"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "look", "input": {}}]}, )",
             R"({"role": "user", "content": [)", content, "]}]}");
}
std::string shown_result() {
  return cat(R"({"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "seen"}, )",
             R"({"type": "image_url", "image_url": {"url": )", url(), "}}]}");
}

// Gemma's template writes a result as a value.
TEST(PicturesInResults, FollowThemWhereTheTemplateHasNoPlace) {
  const std::string plain = R"({"role": "tool", "tool_call_id": "1", "content": "seen"})";
  const std::string apart =
      cat(R"({"role": "user", "content": [{"type": "image_url", "image_url": {"url": )", url(), "}}]}");
  const ChatPrompt expected = prompt_of(read_openai_chat, chat(cat(plain, ", ", apart)));
  ASSERT_EQ(expected.spans.size(), 1u);
  const ChatPrompt openai = prompt_of(read_openai_chat, chat(shown_result()));
  EXPECT_EQ(openai.ids, expected.ids);
  EXPECT_EQ(openai.spans.size(), 1u);
  const std::string result = cat(R"({"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", )",
                                 R"("text": "seen"}, )", block(), "]}");
  EXPECT_EQ(prompt_of(read_anthropic_messages, message(result)).ids, expected.ids);
  const std::string items =
      cat(R"({"input": [{"role": "user", "content": "Look."}, {"type": "function_call", )",
          R"("call_id": "1", "name": "look", "arguments": "{}"}, {"type": "function_call_output", )",
          R"("call_id": "1", "output": [{"type": "input_text", "text": "seen"}, )",
          R"({"type": "input_image", "image_url": )", url(), "}]}]}");
  EXPECT_EQ(prompt_of(read_openai_response, items).ids, expected.ids);
  EXPECT_THAT(openai.text, HasSubstr("response:look{value:<|\"|>seen<|\"|>}"));
}

TEST(PicturesInResults, JoinTheMessageOfTheUserThatFollows) {
  const std::string text = R"({"type": "text", "text": "What is in this picture?"})";
  const std::string result = cat(R"({"type": "tool_result", "tool_use_id": "1", "content": [)", block(), "]}");
  const std::string empty = R"({"type": "tool_result", "tool_use_id": "1", "content": ""})";
  const ChatPrompt joined = prompt_of(read_anthropic_messages, message(cat(result, ", ", text)));
  EXPECT_EQ(joined.ids, prompt_of(read_anthropic_messages, message(cat(empty, ", ", block(), ", ", text))).ids);
  const ChatPrompt two =
      prompt_of(read_anthropic_messages, message(cat(result, ", ", result, ", ", block(), ", ", text)));
  EXPECT_EQ(two.spans.size(), 3u);
  const TestServer server;
  EXPECT_THAT(ask(server, "/v1/messages", message(cat(result, ", ", text))).body,
              HasSubstr("A red circle on the left and a blue square on the right."));
}

// Qwen3.5's template with the demo's marker.
TEST(PicturesInResults, StandInThemWhereTheTemplateShowsThem) {
  const std::string own = "<|vision_start|><|image_pad|><|vision_end|>";
  std::string source = unwrap(read_file(cat(SLUICE_TEST_DATA, "/qwen3_5/chat_template.jinja"), 1 << 20));
  source.replace(source.find(own), own.size(), "<|image|>");
  const std::string path = (std::filesystem::path(testing::TempDir()) / "sluice_results.jinja").string();
  ASSERT_TRUE(write_file(path, source));
  const TextParts text = unwrap(open_text(demo_model().model, {.chat_template_path = path}));
  std::filesystem::remove(path);
  ServedModel model = served_demo();
  model.text = &text;
  const ChatPrompt prompt = prompt_of(read_openai_chat, chat(shown_result()), model);
  EXPECT_EQ(prompt.spans.size(), 1u);
  EXPECT_THAT(prompt.text, HasSubstr("<tool_response>\nseen<|image|>\n</tool_response>"));
}

TEST(PicturesInResults, AreRefusedByTheirPlace) {
  const auto refused = [](Reader read, const std::string& body, const ServedModel& model) {
    Outcome<AnswerRequest> request = read(unwrap(parse_json(body, "body")), model);
    return request ? prepare(*request, model).error().message : request.error().message;
  };
  ServedModel blind = served_demo();
  blind.model = nullptr;
  EXPECT_EQ(refused(read_openai_chat, chat(shown_result()), blind),
            "messages[2].content[1].image_url: demo takes no pictures: want a model with a tower for them");
  const std::string broken = R"({"type": "tool_result", "tool_use_id": "1", "content": [{"type": "image", "source":
      {"type": "base64", "data": "AAAA"}}]})";
  EXPECT_EQ(
      refused(read_anthropic_messages, message(broken), served_demo()),
      "messages[2].content[0].content[0].source.data: begins with bytes 00 00 00: want a PNG, JPEG, WebP, GIF or BMP "
      "picture");
  const std::string document = R"({"type": "tool_result", "tool_use_id": "1", "content": [{"type": "document"}]})";
  EXPECT_EQ(refused(read_anthropic_messages, message(document), served_demo()),
            "messages[2].content[0].content: a block is of type document: want text or image");
}

}  // namespace
}  // namespace sluice
