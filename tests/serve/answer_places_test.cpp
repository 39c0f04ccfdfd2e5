// Who gets the next place when several keys wait, and how many waiting places a key may hold. Costs 0.3 s in each
// change.
#include "serve/answer_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/text.h"
#include "serve/openai/openai.h"
#include "tests/serve/test_server.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PlacesOfAModel, AreSharedByKeys) {
  AnswerPlaces places(2, 8, 3);
  EXPECT_EQ(places.most_parts(), 6u);
  ASSERT_TRUE(places.take(0, 6)) << "2 will run, and 4 wait";
  const Checked more = places.take(0, 1);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().status, 429);
  EXPECT_TRUE(more.error().retry);
  EXPECT_TRUE(places.take(1, 2));
  EXPECT_EQ(places.take(1, 1).error().message,
            "this key's requests hold 2 of the queue's 8 places: want the same request when some of them have ended");
  EXPECT_TRUE(places.take(2, 1)) << "there is room for the next key";
}

TEST(PlacesOfAModel, AreWhollyOfASingleClient) {
  AnswerPlaces places(1, 3, 1);
  EXPECT_EQ(places.most_parts(), 4u);
  EXPECT_TRUE(places.take(0, 4));
  EXPECT_EQ(places.take(0, 1).error().code, "queue_full");
  places.begin(0);
  EXPECT_EQ(places.waiting(), 3u);
  places.end(0);
  places.leave(0);
  EXPECT_TRUE(places.take(0, 2));
}

TEST(PlacesOfAModel, AreGivenToAKeyEvenInTheShortestQueue) {
  AnswerPlaces none(1, 0, 2), one(1, 1, 2);
  EXPECT_TRUE(none.take(0, 1));
  EXPECT_EQ(none.take(1, 1).error().status, 503);
  EXPECT_EQ(one.most_parts(), 2u);
  EXPECT_TRUE(one.take(0, 2));
}

// The order in which a queue of one running place ends requests that were all submitted before it began.
struct Asked {
  Claim claim;
  std::string prompt;
};
std::vector<std::string> ended_in_order(const std::vector<Asked>& all, std::map<std::string, std::string>* answers) {
  ModelShelf shelf({demo_recipe(/*running=*/1)});
  AnswerQueue queue(shelf, 64, 3);
  std::vector<std::string> order;
  Outcome<std::shared_ptr<ModelUse>> loaded = shelf.load({});
  std::shared_ptr<ModelUse> use = *std::move(loaded);
  for (const Asked& one : all) {
    const std::string body = cat(R"({"prompt": ")", one.prompt, R"(", "max_tokens": 8, "temperature": 1})");
    Outcome<AnswerRequest> request = read_openai_completion(unwrap(parse_json(body, "body")), use->model());
    Outcome<std::vector<AnswerJob>> jobs = prepare(*request, use->model());
    for (AnswerJob& job : *jobs) job.use = use;
    const auto note = [&, name = one.prompt](const AnswerNews& news) {
      for (const TurnEvent& event : news.events)
        if (const auto* text = std::get_if<TextEvent>(&event)) (*answers)[name] += text->text;
      if (news.is_last()) order.push_back(name);
    };
    EXPECT_TRUE(queue.submit(*std::move(jobs), one.claim, note));
  }
  use.reset();
  queue.close();
  queue.run();
  return order;
}

TEST(PlacesOfAModel, GoToTheKeyThatHasFewestAndWaitedLongest) {
  std::map<std::string, std::string> answers, others;
  const std::vector<Asked> all = {{{0, 0}, "a1"}, {{0, 0}, "a2"}, {{0, 0}, "a3"},
                                  {{1, 0}, "b1"}, {{1, 0}, "b2"}, {{2, 0}, "c1"}};
  EXPECT_THAT(ended_in_order(all, &answers), ElementsAre("a1", "b1", "c1", "a2", "b2", "a3"));
  std::vector<Asked> one_key = all;
  for (Asked& one : one_key) one.claim.client = 0;
  EXPECT_THAT(ended_in_order(one_key, &others), ElementsAre("a1", "a2", "a3", "b1", "b2", "c1"));
  EXPECT_EQ(answers, others);
  EXPECT_FALSE(answers["a1"].empty());
}

TEST(PlacesOfAModel, GoToUrgentRequestsOfAKeyFirst) {
  std::map<std::string, std::string> answers;
  const std::vector<Asked> all = {{{0, 5}, "later"}, {{0, 0}, "usual"}, {{1, 9}, "other"}, {{0, -1}, "soon"}};
  EXPECT_THAT(ended_in_order(all, &answers), ElementsAre("soon", "other", "usual", "later"));
}

TEST(PlacesOfAModel, AreHeldByTheKeyOfARequest) {
  TestServer server({.running = 1, .waiting = 2, .access = {.keys = {"first-key", "second-key"}}});
  const auto ask_as = [](TestClient& client, const std::string& key, const std::string& more) {
    client.send(request_text("POST", "/v1/completions", cat(R"({"prompt": "A violin is", "temperature": 1, )", more),
                             cat("x-api-key: ", key, "\r\n")));
  };
  std::string biases;
  for (const int32_t end : demo_model().text.ends) biases += cat(biases.empty() ? "" : ", ", '"', end, "\": -100");
  const std::string endless = cat(R"("max_tokens": 400, "logit_bias": {)", biases, "}}");
  TestClient runs(server.port()), waits(server.port()), refused(server.port()), other(server.port());
  ask_as(runs, "first-key", endless);
  ASSERT_TRUE(server.wait_for_running(1));
  ask_as(waits, "first-key", R"("max_tokens": 1})");
  while (server.waiting() == 0) std::this_thread::yield();
  ask_as(refused, "first-key", R"("max_tokens": 1})");
  const TestReply reply = refused.read();
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.header("retry-after"), "1");
  EXPECT_THAT(reply.body, HasSubstr("queue_share_full"));
  ask_as(other, "second-key", R"("max_tokens": 1})");
  EXPECT_EQ(other.read().status, 200);
  EXPECT_EQ(waits.read().status, 200);
}

TEST(PlacesOfAModel, AreNotForPrioritiesThatAreNoNumbers) {
  const TestServer server;
  const std::pair<const char*, const char*> kBodies[] = {
      {"/v1/completions", R"("prompt": "a")"},
      {"/v1/responses", R"("input": "a")"},
      {"/v1/chat/completions", R"("messages": [{"role": "user", "content": "a"}])"}};
  for (const char* priority : {"\"high\"", "1.5", "1000001", "[]"})
    for (const auto& [path, asked] : kBodies) {
      const TestReply reply = ask(server, path, cat('{', asked, R"(, "priority": )", priority, '}'));
      EXPECT_EQ(reply.status, 400) << path << priority;
      EXPECT_THAT(reply.body, HasSubstr("want a whole number from -1000000 to 1000000"));
    }
  const TestReply fine = ask(server, "/v1/completions", R"({"prompt": "a", "max_tokens": 1, "priority": -3})");
  EXPECT_EQ(fine.status, 200);
  EXPECT_EQ(fine.header("x-sluice-ignored"), "");
}

}  // namespace
}  // namespace sluice
