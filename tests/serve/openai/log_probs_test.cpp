// Log-probabilities in OpenAI's chats, completions and responses, and in Ollama's API: of which tokens they are, and
// that streams tell what whole replies do.
#include "serve/openai/log_probs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "serve/openai/response_writer.h"
#include "tests/serve/test_server.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

constexpr const char* kQuestion =
    R"("temperature": 0, "messages": [{"role": "user", "content": "What is a violin?"}], "logprobs": true)";

TestReply chat(const TestServer& server, const std::string& members) {
  return ask(server, "/v1/chat/completions", cat("{", kQuestion, ", ", members, "}"));
}
Json first_choice(const TestReply& reply) { return reply.json().find("choices")->as_array()[0]; }
std::string joined(const Json& tokens) {
  std::string text;
  for (const Json& one : tokens.as_array()) text += one.find("token")->as_string();
  return text;
}
// Of all chunks.
Json streamed_tokens(const TestReply& reply) {
  Json::Array all;
  for (const Json& event : reply.events()) {
    const Json* log_probs = event.find("choices")->as_array()[0].find("logprobs");
    if (log_probs->is_null()) continue;
    for (const Json& one : log_probs->find("content")->as_array()) all.push_back(one);
  }
  return all;
}

TEST(LogProbs, AreOfTheAnswersTokensTheLikeliestFirst) {
  const TestServer server;
  const Json choice = first_choice(chat(server, R"("top_logprobs": 4)"));
  const Json& tokens = *choice.find("logprobs")->find("content");
  EXPECT_EQ(joined(tokens), choice.find("message")->find("content")->as_string());
  for (const Json& one : tokens.as_array()) {
    const Json::Array& top = one.find("top_logprobs")->as_array();
    ASSERT_EQ(top.size(), 4u);
    EXPECT_EQ(top[0].find("token")->as_string(), one.find("token")->as_string());
    EXPECT_EQ(top[0].find("logprob")->as_number(), one.find("logprob")->as_number());
    EXPECT_LE(one.find("logprob")->as_number(), 1e-6);
    for (size_t i = 1; i < top.size(); ++i)
      EXPECT_LE(top[i].find("logprob")->as_number(), top[i - 1].find("logprob")->as_number());
    EXPECT_EQ(one.find("bytes")->as_array().size(), one.find("token")->as_string().size());
  }
  EXPECT_TRUE(first_choice(chat(server, R"("max_tokens": 1)"))
                  .find("logprobs")
                  ->find("content")
                  ->as_array()[0]
                  .find("top_logprobs")
                  ->as_array()
                  .empty());
}

TEST(LogProbs, AreStreamedAsTheyAreGivenWhole) {
  const TestServer server;
  for (const char* members : {R"("top_logprobs": 2)", R"("top_logprobs": 1, "stop": " instrument")",
                              R"("top_logprobs": 1, "stop": "strumen")", R"("max_tokens": 4)"}) {
    const Json choice = first_choice(chat(server, members));
    const Json& whole = *choice.find("logprobs")->find("content");
    EXPECT_EQ(write_json(streamed_tokens(chat(server, cat(R"("stream": true, )", members)))), write_json(whole));
    // A stop string may begin within a token, which then is the last one.
    const std::string& content = choice.find("message")->find("content")->as_string();
    EXPECT_TRUE(starts_with(content, joined(whole)) || starts_with(joined(whole), content)) << members;
  }
}

// Forced tokens are sampled as well, so that they have their log-probabilities.
TEST(LogProbs, AreThereBesideAForm) {
  const TestServer server;
  const Json choice = first_choice(chat(server, R"("guided_choice": ["violins", "viola"])"));
  EXPECT_EQ(joined(*choice.find("logprobs")->find("content")), choice.find("message")->find("content")->as_string());
  for (const Json& one : choice.find("logprobs")->find("content")->as_array())
    EXPECT_LT(one.find("logprob")->as_number(), 0);
}

TEST(LogProbs, OfACompletionHaveTheirPlaces) {
  const TestServer server;
  const std::string members = R"("prompt": "A violin is", "temperature": 0, "max_tokens": 5, "logprobs": 2)";
  const Json choice = first_choice(ask(server, "/v1/completions", cat("{", members, "}")));
  const Json& log_probs = *choice.find("logprobs");
  std::string text;
  const Json::Array& tokens = log_probs.find("tokens")->as_array();
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(log_probs.find("text_offset")->as_array()[i].as_integer(), static_cast<int64_t>(text.size()));
    text += tokens[i].as_string();
  }
  EXPECT_EQ(text, choice.find("text")->as_string());
  EXPECT_EQ(log_probs.find("top_logprobs")->as_array()[0].as_object().size(), 2u);
  const TestReply streamed = ask(server, "/v1/completions", cat(R"({"stream": true, )", members, "}"));
  Json::Array offsets;
  for (const Json& event : streamed.events())
    if (const Json* one = event.find("choices")->as_array()[0].find("logprobs"); !one->is_null())
      for (const Json& offset : one->find("text_offset")->as_array()) offsets.push_back(offset);
  EXPECT_EQ(write_json(offsets), write_json(*log_probs.find("text_offset")));
}

constexpr const char* kInput =
    R"("temperature": 0, "input": "What is a violin?", "include": ["message.output_text.logprobs"])";

// Without the members "bytes", which events of responses do not have.
Json without_bytes(const Json& tokens) {
  Json::Array list;
  for (const Json& token : tokens.as_array()) {
    Json one = Json::Object{};
    for (const auto& [name, value] : token.as_object())
      if (name == "top_logprobs")
        one.add(name, without_bytes(value));
      else if (name != "bytes")
        one.add(name, value);
    list.push_back(std::move(one));
  }
  return list;
}
Json log_probs_of_item(const Json& item) { return *item.find("content")->as_array()[0].find("logprobs"); }

TEST(LogProbs, OfAResponseAreThoseOfAChat) {
  const TestServer server;
  for (const char* members : {R"("top_logprobs": 2)", R"("top_logprobs": 1, "stop": "strumen")"}) {
    const Json chat_tokens = *first_choice(chat(server, members)).find("logprobs")->find("content");
    ASSERT_FALSE(chat_tokens.as_array().empty());
    const Json whole = ask(server, "/v1/responses", cat("{", kInput, ", ", members, "}")).json();
    EXPECT_EQ(write_json(log_probs_of_item(whole.find("output")->as_array()[0])), write_json(chat_tokens));
    Json::Array streamed;
    for (const Json& event :
         ask(server, "/v1/responses", cat(R"({"stream": true, )", kInput, ", ", members, "}")).events()) {
      const std::string& type = event.find("type")->as_string();
      if (type == "response.output_text.delta")
        for (const Json& one : event.find("logprobs")->as_array()) streamed.push_back(one);
      if (type == "response.output_text.done")
        EXPECT_EQ(write_json(*event.find("logprobs")), write_json(without_bytes(chat_tokens)));
      if (type == "response.output_item.done")
        EXPECT_EQ(write_json(log_probs_of_item(*event.find("item"))), write_json(chat_tokens));
    }
    EXPECT_EQ(write_json(streamed), write_json(without_bytes(chat_tokens)));
  }
}

TEST(LogProbs, OfAResponseAreThoseOfEachMessage) {
  const std::unique_ptr<AnswerWriter> writer = make_response_writer(Json::Object{});
  AnsweredPart part;
  const auto token = [](const char* bytes) { return TurnEvent(LogProbEvent{{.bytes = bytes, .log_prob = -1}}); };
  // All in one step: the second message's token belongs to no other item.
  const AnswerNews news{.events = {token("a"), TextEvent{"a"}, token("b"), TextEvent{"b"}, ToolCallEvent{{"now", {}}},
                                   token("c"), TextEvent{"c"}, DoneEvent{}}};
  part.take(news);
  const TestReply streamed{.head = {}, .body = writer->stream(news, part)};
  std::vector<std::string> deltas, done;
  for (const Json& event : streamed.events()) {
    const std::string& type = event.find("type")->as_string();
    if (type == "response.output_text.delta") deltas.push_back(joined(*event.find("logprobs")));
    if (type == "response.output_text.done") done.push_back(joined(*event.find("logprobs")));
  }
  EXPECT_THAT(deltas, testing::ElementsAre("ab", "", "c"));
  EXPECT_THAT(done, testing::ElementsAre("ab", "c"));
  const Json whole = writer->whole({part});
  const Json::Array& output = whole.find("output")->as_array();
  EXPECT_EQ(joined(log_probs_of_item(output[0])), "ab");
  EXPECT_EQ(joined(log_probs_of_item(output[2])), "c");
}

TEST(LogProbs, OfOllamasAnswersAreThoseOfAChat) {
  const TestServer server;
  const Json chat_tokens = *first_choice(chat(server, R"("top_logprobs": 2)")).find("logprobs")->find("content");
  const std::string common = R"({"model": "demo", "options": {"temperature": 0}, )";
  const std::string question = R"("messages": [{"role": "user", "content": "What is a violin?"}])";
  const std::string wanted = R"(, "logprobs": true, "top_logprobs": 2)";
  const auto asked = [&](const std::string& path, const std::string& members) {
    Json::Array tokens;
    for (const std::string& line : split(ask(server, path, cat(common, members, "}")).body, '\n')) {
      if (line.empty()) continue;
      const Json json = unwrap(parse_json(line, line));
      if (const Json* some = json.find("logprobs"))
        for (const Json& one : some->as_array()) tokens.push_back(one);
    }
    return write_json(tokens);
  };
  const std::string whole = R"(, "stream": false)";
  EXPECT_EQ(asked("/api/chat", question + wanted), write_json(chat_tokens));
  EXPECT_EQ(asked("/api/chat", question + wanted + whole), write_json(chat_tokens));
  EXPECT_EQ(asked("/api/generate", R"("prompt": "What is a violin?")" + wanted), write_json(chat_tokens));
  EXPECT_EQ(asked("/api/generate", R"("prompt": "What is a violin?")" + whole), "[]");
}

TEST(LogProbs, OfHalfCharactersHaveTheirBytes) {
  const Json json = chat_log_probs(std::vector<TokenLogProb>{{.bytes = "\xe2\x82", .log_prob = -1}});
  EXPECT_EQ(
      write_json(json.find("content")->as_array()[0]),
      "{\"token\": \"\xEF\xBF\xBD\xEF\xBF\xBD\", \"logprob\": -1.0, \"bytes\": [226, 130], \"top_logprobs\": []}");
}

}  // namespace
}  // namespace sluice
