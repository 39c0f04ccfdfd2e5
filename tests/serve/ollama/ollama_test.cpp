// Ollama's API: how its requests are read, and the lines of its replies.
#include "serve/ollama/ollama.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/serve/test_server.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Json parsed(const std::string& members) { return unwrap(parse_json("{\"model\": \"demo\", " + members + "}", "body")); }

std::vector<Json> lines_of(const TestReply& reply) {
  std::vector<Json> lines;
  for (const std::string& line : split(reply.body, '\n'))
    if (!line.empty()) lines.push_back(unwrap(parse_json(line, line)));
  return lines;
}

TEST(OllamaRequests, ReadOptions) {
  Outcome<AnswerRequest> request = read_ollama_chat(
      parsed(R"("messages": [{"role": "user", "content": "a"}], "keep_alive": "5m", "options": {"temperature": 0.5,
                "num_predict": -1, "seed": -1, "top_k": 40, "repeat_last_n": -1, "num_ctx": 64, "num_gpu": 3,
                "stop": ["x"]}, "truncate": true)"),
      served_demo());
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_TRUE(request->stream);
  EXPECT_EQ(request->settings.max_tokens, 0u);
  EXPECT_EQ(request->settings.sampling.top_k, 40u);
  EXPECT_EQ(request->settings.sampling.penalty_window, kMaxPenaltyWindow);
  EXPECT_EQ(request->context, 64u);
  EXPECT_THAT(request->settings.stops, ElementsAre("x"));
  EXPECT_THAT(request->ignored, ElementsAre("options.num_gpu", "truncate"));
}

TEST(OllamaRequests, ReadMessagesWithObjectsAsArguments) {
  Outcome<AnswerRequest> request = read_ollama_chat(parsed(R"("messages": [
      {"role": "assistant", "content": "", "thinking": "Hm", "tool_calls": [{"function": {"name": "now", "arguments": {"z": 1}}}]},
      {"role": "tool", "tool_name": "now", "content": "noon"}])"),
                                                    served_demo());
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(
      write_json(request->messages),
      R"([{"role": "assistant", "content": "", "reasoning_content": "Hm", "tool_calls": [{"type": "function", )"
      R"("function": {"name": "now", "arguments": {"z": 1}}}]}, {"role": "tool", "content": "noon", "name": "now"}])");
}

TEST(OllamaRequests, RefuseWhatCannotBeHonoured) {
  for (const char* members :
       {R"("prompt": "a", "format": "yaml")", R"("prompt": "a", "format": {"not": {}})",
        R"("prompt": "a", "suffix": "b")", R"("prompt": "a", "images": ["x"])", R"("prompt": "a", "images": 3)",
        R"("prompt": "a", "context": [1])", R"("prompt": "a", "top_logprobs": 1)",
        R"("prompt": "a", "logprobs": true, "top_logprobs": 21)", R"("prompt": "a", "options": {"top_p": 2})",
        R"("prompt": 3)"})
    EXPECT_FALSE(read_ollama_generate(parsed(members), served_demo())) << members;
}

TEST(OllamaServer, StreamsLinesWithoutBeingAsked) {
  const TestServer server;
  const std::string body = R"({"model": "demo:latest", "options": {"temperature": 0}, "messages": [{"role": "user",
                               "content": "What is a violin?"}])";
  const TestReply streamed = ask(server, "/api/chat", body + "}");
  EXPECT_EQ(streamed.header("content-type"), "application/x-ndjson");
  std::string text;
  const std::vector<Json> lines = lines_of(streamed);
  for (const Json& line : lines) {
    text += line.find("message")->find("content")->as_string();
    EXPECT_EQ(line.find("done")->as_bool(), &line == &lines.back());
    EXPECT_THAT(line.find("created_at")->as_string(), testing::MatchesRegex("....-..-..T..:..:...*Z"));
  }
  EXPECT_EQ(lines.back().find("done_reason")->as_string(), "stop");
  EXPECT_GT(lines.back().find("eval_count")->as_integer(), 5);
  EXPECT_GT(lines.back().find("total_duration")->as_integer(), 0);
  const TestReply whole = ask(server, "/api/chat", body + R"(, "stream": false})");
  EXPECT_THAT(whole.header("content-type"), HasSubstr("application/json"));
  const Json json = whole.json();
  EXPECT_EQ(json.find("message")->find("content")->as_string(), text);
}

TEST(OllamaServer, GeneratesRawTextAndLoads) {
  const TestServer server;
  const auto generated = [&](const std::string& members) {
    return ask(server, "/api/generate", R"({"model": "demo", "stream": false, )" + members + "}").json();
  };
  EXPECT_EQ(generated(R"("prompt": "What is a violin?", "options": {"temperature": 0})").find("response")->as_string(),
            "violin (noun): bowed stringed instrument that is the highest member of the violin family.");
  EXPECT_EQ(generated(R"("prompt": "A violin is", "raw": true, "options": {"num_predict": 3})")
                .find("done_reason")
                ->as_string(),
            "length");
  EXPECT_EQ(generated(R"("prompt": "")").find("done_reason")->as_string(), "load");
  EXPECT_EQ(generated(R"("prompt": "What is a violin?", "options": {"num_ctx": 20})").find("done_reason")->as_string(),
            "length");
  const TestReply too_long =
      ask(server, "/api/generate", R"({"model": "demo", "prompt": "What is a violin?", "options": {"num_ctx": 5}})");
  EXPECT_EQ(too_long.status, 400);
  EXPECT_THAT(too_long.body, HasSubstr("context of 5 tokens"));
}

TEST(OllamaServer, DescribesItsModel) {
  const TestServer server;
  const Json tags = get(server, "/api/tags").json();
  EXPECT_EQ(tags.find("models")->as_array()[0].find("name")->as_string(), "demo");
  EXPECT_EQ(get(server, "/api/ps").status, 200);
  EXPECT_EQ(get(server, "/api/version").body, "{\"version\": \"0\"}\n");
  EXPECT_EQ(get(server, "/").body, "Sluice is running\n");
  const Json shown = ask(server, "/api/show", R"({"model": "demo"})").json();
  EXPECT_EQ(shown.find("model_info")->find("gemma4.context_length")->as_integer(), 1024);
  const TestReply other = ask(server, "/api/show", R"({"name": "nope"})");
  EXPECT_EQ(other.status, 404);
  EXPECT_EQ(other.body, "{\"error\": \"model nope not found: want demo\"}\n");
}

}  // namespace
}  // namespace sluice
