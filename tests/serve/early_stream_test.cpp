// Streams of models that have to be loaded first: their heads and pings come before the load has ended, and what goes
// wrong then is an event in the shape of each API. Costs 0.1 s in each change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/text.h"
#include "tests/serve/test_server.h"

namespace sluice {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A model whose load waits for `may_load`, and then fails or not.
class StreamsOfUnloadedModels : public testing::Test {
 protected:
  ModelRecipe recipe(const std::string& failure = "") {
    ModelRecipe one = demo_recipe();
    one.load = [this, failure, load = one.load](bool may_lack_room) -> Result<std::unique_ptr<LoadedModel>> {
      while (!may_load_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (!failure.empty()) return error(ErrorKind::corrupt, failure);
      return load(may_lack_room);
    };
    return one;
  }

  std::atomic<bool> may_load_ = false;
};

constexpr const char* kMessages = R"("messages": [{"role": "user", "content": "Hi"}])";

std::string chat(const std::string& more) {
  return request_text("POST", "/v1/chat/completions",
                      cat(R"({"model": "demo", "stream": true, "max_tokens": 4, )", kMessages, more, "}"));
}

TEST_F(StreamsOfUnloadedModels, BeginAndPingWhileTheyAreLoaded) {
  const TestServer server({.limits = {.keep_alive_seconds = 0.02}, .recipes = {recipe()}});
  TestClient openai(server.port()), anthropic(server.port()), ollama(server.port()), whole(server.port());
  openai.send(chat(R"(, "user": "me")"));
  anthropic.send(request_text("POST", "/v1/messages", cat(R"({"stream": true, "max_tokens": 4, )", kMessages, "}")));
  ollama.send(request_text("POST", "/api/chat", cat(R"({"model": "demo", )", kMessages, "}")));
  whole.send(request_text("POST", "/v1/chat/completions", cat(R"({"max_tokens": 4, )", kMessages, "}")));
  EXPECT_TRUE(openai.read_until(": waiting\n\n"));
  EXPECT_TRUE(anthropic.read_until("event: ping\n"));
  EXPECT_TRUE(ollama.read_until("\r\n\r\n1\r\n\n"));
  may_load_ = true;
  const TestReply first = openai.read(), second = anthropic.read(), third = ollama.read();
  EXPECT_THAT(first.body, EndsWith("data: [DONE]\n\n"));
  EXPECT_THAT(first.body, HasSubstr(": x-sluice-ignored: user\n\n"));
  EXPECT_NE(second.header("request-id"), "");
  EXPECT_THAT(second.body, HasSubstr(cat("\"id\": \"msg_", second.header("request-id").substr(4), '"')));
  EXPECT_THAT(second.body, EndsWith("event: message_stop\ndata: {\"type\": \"message_stop\"}\n\n"));
  EXPECT_EQ(third.header("content-type"), "application/x-ndjson");
  EXPECT_THAT(third.body, HasSubstr("\"done\": true"));
  EXPECT_EQ(whole.read().header("content-type"), "application/json; charset=utf-8");
}

TEST_F(StreamsOfUnloadedModels, EndWithAnEventWhenTheLoadFails) {
  may_load_ = true;
  const TestServer server({.recipes = {recipe("demo.gguf: is cut")}});
  const std::string why = "model demo cannot be loaded: demo.gguf: is cut";
  const TestReply openai = ask(server, "/v1/chat/completions", cat(R"({"stream": true, )", kMessages, "}"));
  EXPECT_EQ(openai.status, 200);
  EXPECT_EQ(openai.body,
            cat(R"(data: {"error": {"message": ")", why, R"(", "type": "server_error", "param": "model", )",
                R"("code": "model_not_loaded"}})", "\n\n"));
  EXPECT_EQ(ask(server, "/v1/completions", R"({"stream": true, "prompt": "a"})").body, openai.body);
  EXPECT_EQ(ask(server, "/v1/responses", R"({"stream": true, "input": "a"})").body,
            cat("event: error\n", R"(data: {"type": "error", "sequence_number": 0, "code": "model_not_loaded", )",
                R"("message": ")", why, R"(", "param": "model"})", "\n\n"));
  const std::string message =
      ask(server, "/v1/messages", cat(R"({"stream": true, "max_tokens": 1, )", kMessages, "}")).body;
  EXPECT_THAT(message, StartsWith(cat("event: error\n", R"(data: {"type": "error", "error": {"type": "api_error", )",
                                      R"("message": ")", why, "\"}")));
  EXPECT_EQ(ask(server, "/api/generate", R"({"model": "demo", "prompt": "a"})").body,
            cat(R"({"error": ")", why, "\"}\n"));
  const TestReply whole = ask(server, "/v1/chat/completions", cat("{", kMessages, "}"));
  EXPECT_EQ(whole.status, 500);
  EXPECT_EQ(ask(server, "/v1/messages/count_tokens", cat(R"({"stream": true, )", kMessages, "}")).status, 500);
}

TEST_F(StreamsOfUnloadedModels, EndWithAnEventWhenTheRequestIsWrong) {
  may_load_ = true;
  const TestServer server({.recipes = {recipe()}});
  TestClient client(server.port());
  client.send(chat(R"(, "temperature": 3)"));
  const TestReply early = client.read();
  EXPECT_EQ(early.status, 200);
  EXPECT_THAT(early.body, HasSubstr("\"message\": \"temperature is 3: want a number from 0 to 2\""));
  EXPECT_THAT(early.body, Not(HasSubstr("[DONE]")));
  client.send(chat(R"(, "temperature": 3)"));
  EXPECT_EQ(client.read().status, 400) << "the model is loaded, so nothing has begun";
}

TEST_F(StreamsOfUnloadedModels, LeaveTheQueueWithTheirClients) {
  TestServer server({.recipes = {recipe()}});
  {
    TestClient client(server.port());
    client.send(chat(""));
    ASSERT_TRUE(client.read_until("text/event-stream"));
    EXPECT_EQ(server.waiting(), 1u);
  }
  may_load_ = true;
  while (server.waiting() > 0) std::this_thread::yield();
  EXPECT_EQ(ask(server, "/v1/chat/completions", cat(R"({"max_tokens": 4, )", kMessages, "}")).status, 200);
}

}  // namespace
}  // namespace sluice
