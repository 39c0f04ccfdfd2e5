// Answers over HTTP: the same bits for one client and for many, streamed or not; clients that leave; a full queue; the
// end of the server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "base/text.h"
#include "tests/serve/test_server.h"

namespace sluice {
namespace {

using testing::HasSubstr;

constexpr const char* kChat = "/v1/chat/completions";

std::string chat_body(const std::string& question, const std::string& more) {
  return cat(R"({"model": "demo", "messages": [{"role": "user", "content": ")", question, "\"}]", more, "}");
}

// An answer that goes on until it is stopped or the context ends.
std::string endless(const std::string& more) {
  std::string biases;
  for (const int32_t end : demo_model().text.ends) biases += cat(biases.empty() ? "" : ", ", '"', end, "\": -100");
  return cat(R"({"model": "demo", "prompt": "A violin is", "max_tokens": 400, "logit_bias": {)", biases, "}", more,
             "}");
}

std::string answer_of(const TestReply& reply) {
  if (reply.status != 200) return reply.body;
  const Json json = reply.json();
  std::string all;
  for (const Json& choice : json.find("choices")->as_array())
    all += choice.find("message")->find("content")->as_string() + "|";
  return all;
}

std::string streamed_answer_of(const TestReply& reply) {
  std::vector<std::string> answers;
  for (const Json& event : reply.events()) {
    for (const Json& choice : event.find("choices")->as_array()) {
      const auto index = static_cast<size_t>(choice.find("index")->as_integer());
      answers.resize(std::max(answers.size(), index + 1));
      if (const Json* piece = choice.find("delta")->find("content")) answers[index] += piece->as_string();
    }
  }
  std::string all;
  for (const std::string& answer : answers) all += answer + "|";
  return all;
}

TEST(AnswersOverHttp, TheSameRequestGetsTheSameBitsFromOneClientOrMany) {
  const std::vector<std::string> bodies = {
      chat_body("What is a violin?", R"(, "temperature": 1, "seed": 7, "max_tokens": 24, "n": 2)"),
      chat_body("What is a cello?", R"(, "temperature": 0, "max_tokens": 24)"),
      chat_body("What is a river?", R"(, "temperature": 1.5, "top_p": 0.9, "presence_penalty": 1, "max_tokens": 24)")};
  const TestServer server;
  std::vector<std::string> alone;
  for (const std::string& body : bodies) alone.push_back(answer_of(ask(server, kChat, body)));
  std::vector<std::thread> clients;
  for (int client = 0; client < 12; ++client) {
    clients.emplace_back([&, client] {
      const size_t i = static_cast<size_t>(client) % bodies.size();
      std::string body = bodies[i];
      if (client % 2 == 0) {
        EXPECT_EQ(answer_of(ask(server, kChat, body)), alone[i]);
      } else {
        body.insert(body.size() - 1, R"(, "stream": true)");
        EXPECT_EQ(streamed_answer_of(ask(server, kChat, body)), alone[i]);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(std::set<std::string>(alone.begin(), alone.end()).size(), bodies.size());
}

TEST(AnswersOverHttp, AClientThatLeavesFreesItsSequenceAndNobodyElses) {
  TestServer server;
  TestClient stays(server.port());
  stays.send(request_text("POST", "/v1/completions", endless("")));
  ASSERT_TRUE(server.wait_for_running(1));
  {
    TestClient streamed(server.port()), whole(server.port());
    streamed.send(request_text("POST", "/v1/completions", endless(R"(, "stream": true)")));
    whole.send(request_text("POST", "/v1/completions", endless("")));
    ASSERT_TRUE(server.wait_for_running(3));
    ASSERT_TRUE(streamed.read_until("text_completion"));
  }
  EXPECT_TRUE(server.wait_for_running(1));
  const TestReply reply = stays.read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.json().find("usage")->find("completion_tokens")->as_integer(), 400);
}

TEST(AnswersOverHttp, AClientThatLeavesTheQueueIsForgotten) {
  TestServer server({.queue = {.running = 1, .waiting = 1}});
  TestClient runs(server.port());
  runs.send(request_text("POST", "/v1/completions", endless("")));
  ASSERT_TRUE(server.wait_for_running(1));
  {
    TestClient waits(server.port());
    waits.send(request_text("POST", "/v1/completions", endless("")));
    while (server.queue().waiting() == 0) std::this_thread::yield();
    const TestReply refused = ask(server, "/v1/completions", endless(""));
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.header("retry-after"), "1");
    EXPECT_EQ(refused.json().find("error")->find("code")->as_string(), "queue_full");
    EXPECT_EQ(get(server, "/health").status, 200);
  }
  while (server.queue().waiting() > 0) std::this_thread::yield();
  EXPECT_EQ(server.queue().running(), 1u);
}

TEST(AnswersOverHttp, ASilentStreamSendsComments) {
  const TestServer server({.limits = {.keep_alive_seconds = 0.02}, .queue = {.running = 1, .waiting = 4}});
  TestClient runs(server.port()), waits(server.port());
  runs.send(request_text("POST", "/v1/completions", endless("")));
  ASSERT_TRUE(server.wait_for_running(1));
  waits.send(request_text("POST", "/v1/completions", endless(R"(, "stream": true)")));
  EXPECT_TRUE(waits.read_until(": waiting\n\n"));
}

TEST(AnswersOverHttp, TheEndOfTheServerLetsAnswersEnd) {
  TestServer server;
  TestClient client(server.port()), idle(server.port());
  idle.send(request_text("GET", "/health"));
  EXPECT_EQ(idle.read().status, 200);
  client.send(request_text("POST", "/v1/completions", endless("")));
  ASSERT_TRUE(server.wait_for_running(1));
  server.drain();
  EXPECT_TRUE(idle.is_closed());
  const TestReply reply = client.read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("connection"), "close");
  EXPECT_THAT(reply.body, HasSubstr("\"finish_reason\": \"length\""));
  EXPECT_TRUE(client.is_closed());
  while (!server.has_ended()) std::this_thread::yield();
}

TEST(AnswersOverHttp, ASecondTurnReusesTheFirst) {
  const TestServer server;
  std::string system(400, 'a');
  for (size_t i = 5; i < system.size(); i += 6) system[i] = ' ';
  const auto body = [&](const std::string& question) {
    return cat(R"({"messages": [{"role": "system", "content": ")", system, R"("}, {"role": "user", "content": ")",
               question, R"("}], "max_tokens": 4})");
  };
  ask(server, kChat, body("What is a violin?"));
  const Json usage = *ask(server, kChat, body("And a river?")).json().find("usage");
  EXPECT_GE(usage.find("prompt_tokens_details")->find("cached_tokens")->as_integer(), 64);
}

TEST(AnswersOverHttp, MetricsCountAnswers) {
  const TestServer server;
  ask(server, kChat, chat_body("What is a violin?", R"(, "max_tokens": 5)"));
  const TestReply metrics = get(server, "/metrics");
  EXPECT_THAT(metrics.header("content-type"), HasSubstr("version=0.0.4"));
  EXPECT_THAT(metrics.body, HasSubstr("sluice_answer_tokens_total{model=\"demo\"} 5\n"));
  EXPECT_THAT(metrics.body, HasSubstr("sluice_http_requests_total{route=\"/v1/chat/completions\",status=\"200\"} 1\n"));
  EXPECT_THAT(metrics.body, HasSubstr("sluice_time_to_first_token_seconds_count{model=\"demo\"} 1\n"));
  EXPECT_THAT(metrics.body, HasSubstr("_bucket{model=\"demo\",le=\"+Inf\"} 1\n"));
}

}  // namespace
}  // namespace sluice
