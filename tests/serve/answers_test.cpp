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
  TestServer server({.running = 1, .waiting = 1});
  TestClient runs(server.port());
  runs.send(request_text("POST", "/v1/completions", endless("")));
  ASSERT_TRUE(server.wait_for_running(1));
  {
    TestClient waits(server.port());
    waits.send(request_text("POST", "/v1/completions", endless("")));
    while (server.waiting() == 0) std::this_thread::yield();
    const TestReply refused = ask(server, "/v1/completions", endless(""));
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.header("retry-after"), "1");
    EXPECT_EQ(refused.json().find("error")->find("code")->as_string(), "queue_full");
    EXPECT_EQ(get(server, "/health").status, 200);
  }
  while (server.waiting() > 0) std::this_thread::yield();
  EXPECT_EQ(server.running(), 1u);
}

TEST(AnswersOverHttp, ASilentStreamSendsComments) {
  const TestServer server({.limits = {.keep_alive_seconds = 0.02}, .running = 1, .waiting = 4});
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

// The form's answers are valid whatever the model makes of the question, and do not depend on who else asks.
TEST(AnswersOverHttp, KeepToTheFormThatWasAsked) {
  const TestServer server;
  const std::string schema = R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "size":
      {"enum": ["small", "large"]}}, "required": ["name", "size"], "additionalProperties": false})";
  const auto body = [&](int seed) {
    return chat_body("What is a violin?",
                     cat(R"(, "temperature": 1.5, "seed": )", seed,
                         R"(, "response_format": {"type": "json_schema", "json_schema": {"schema": )", schema, "}}"));
  };
  std::vector<std::string> alone;
  for (int seed = 0; seed < 4; ++seed) {
    const Json reply = ask(server, kChat, body(seed)).json();
    const Json& choice = reply.find("choices")->as_array().front();
    EXPECT_EQ(choice.find("finish_reason")->as_string(), "stop");
    alone.push_back(choice.find("message")->find("content")->as_string());
    const Result<Json> answer = parse_json(alone.back(), "answer");
    ASSERT_TRUE(answer.ok()) << alone.back();
    EXPECT_EQ(answer->as_object().size(), 2u);
    EXPECT_TRUE(answer->find("name")->is_string());
    EXPECT_THAT(answer->find("size")->as_string(), testing::AnyOf("small", "large"));
  }
  std::vector<std::string> together(4);
  std::vector<std::thread> clients;
  for (int seed = 0; seed < 4; ++seed)
    clients.emplace_back([&, seed] {
      const std::string other = chat_body("What is a river?", R"(, "max_tokens": 8)");
      const TestReply reply = ask(server, kChat, body(seed));
      together[static_cast<size_t>(seed)] = answer_of(reply);
      ask(server, kChat, other);
    });
  for (std::thread& client : clients) client.join();
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(together[i], alone[i] + "|");

  const TestReply chosen = ask(server, "/api/generate", R"({"model": "demo", "prompt": "a", "stream": false, "format":
      {"enum": ["yes", "no"]}})");
  EXPECT_THAT(chosen.json().find("response")->as_string(), testing::AnyOf("\"yes\"", "\"no\""));
  const TestReply message =
      ask(server, "/v1/messages", R"({"model": "demo", "max_tokens": 50, "messages": [{"role": "user",
      "content": "a"}], "output_config": {"format": {"type": "json_schema", "schema": {"type": "boolean"}}}})");
  EXPECT_THAT(message.json().find("content")->as_array().front().find("text")->as_string(),
              testing::AnyOf("true", "false"));
  const TestReply refused =
      ask(server, "/v1/messages", R"({"model": "demo", "max_tokens": 50, "messages": [{"role": "user",
      "content": "a"}], "output_config": {"format": {"type": "json_schema", "schema": {"not": {}}}}})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("#: not: cannot be honoured"));
}

TEST(AnswersOverHttp, EmbeddingsAreRefusedInTheShapeOfEachApi) {
  const TestServer server;
  const std::string why = R"(\"demo\" does not support embeddings: models of the family gemma4 only write text)";
  const TestReply openai = ask(server, "/v1/embeddings", R"({"model": "demo", "input": "a"})");
  EXPECT_EQ(openai.status, 400);
  EXPECT_EQ(openai.header("x-should-retry"), "false");
  EXPECT_EQ(openai.body, cat(R"({"error": {"message": ")", why,
                             R"(", "type": "invalid_request_error", "param": "model", "code": null}})", "\n"));
  for (const char* path : {"/api/embed", "/api/embeddings"}) {
    const TestReply ollama = ask(server, path, R"({"model": "demo", "input": "a"})");
    EXPECT_EQ(ollama.status, 400) << path;
    EXPECT_EQ(ollama.body, cat(R"({"error": ")", why, "\"}\n")) << path;
  }
  EXPECT_EQ(get(server, "/v1/embeddings").status, 405);
}

TEST(AnswersOverHttp, AnswersHoldPagesUntilTheyEnd) {
  const TestServer server;
  const std::string held = "sluice_cache_pages_held{model=\"demo\"} ";
  {
    TestClient runs(server.port());
    runs.send(request_text("POST", "/v1/completions", endless(R"(, "stream": true)")));
    ASSERT_TRUE(server.wait_for_running(1));
    const auto holds = [&] { return get(server, "/metrics").body.find(held + "0\n") == std::string::npos; };
    bool has_held = holds();
    while (!has_held && server.running() > 0) has_held = holds();
    EXPECT_TRUE(has_held);
  }
  ASSERT_TRUE(server.wait_for_running(0));
  EXPECT_THAT(get(server, "/metrics").body, HasSubstr(held + "0\n"));
}

// The sums are those of what the replies said.
TEST(AnswersOverHttp, MetricsAgreeWithTheUsageOfReplies) {
  const TestServer server;
  const std::string question = std::string("Name a river that flows into ") + std::string(200, 'x');
  int64_t prompt = 0, cached = 0, answered = 0;
  for (const int most : {1, 4, 16, 4}) {
    const Json usage = *ask(server, kChat, chat_body(question, cat(R"(, "max_tokens": )", most))).json().find("usage");
    prompt += usage.find("prompt_tokens")->as_integer();
    cached += usage.find("prompt_tokens_details")->find("cached_tokens")->as_integer();
    answered += usage.find("completion_tokens")->as_integer();
  }
  EXPECT_GT(cached, 0);
  const std::string metrics = get(server, "/metrics").body;
  EXPECT_THAT(metrics, HasSubstr(cat("sluice_prompt_tokens_total{model=\"demo\"} ", prompt, '\n')));
  EXPECT_THAT(metrics, HasSubstr(cat("sluice_prompt_tokens_reused_total{model=\"demo\"} ", cached, '\n')));
  EXPECT_THAT(metrics, HasSubstr(cat("sluice_answer_tokens_total{model=\"demo\"} ", answered, '\n')));
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
