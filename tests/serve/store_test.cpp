// Changes of the store by Ollama's API: who may make them, pulls that clients share and leave, the end of the server.
// The store is imitated; tests/app/serve/served_store_test.cpp has the real one. 0.9 s, with each change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <list>
#include <optional>
#include <thread>

#include "base/text.h"
#include "tests/serve/test_server.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

// Pulls wait until they are let go.
class FakeStore final : public ModelStore {
 public:
  Checked pull(const OllamaName& name, const PullSink& tell, const std::atomic<bool>& stop) override {
    ++pulls;
    tell({.status = "pulling manifest"});
    tell({.status = "pulling 0123", .digest = "sha256:0123", .total = 100});
    tell({.status = "pulling 0123", .digest = "sha256:0123", .total = 100, .completed = 40});
    ++under_way;
    while (!may_end && !stop) std::this_thread::yield();
    while (stop && !may_stop) std::this_thread::yield();
    --under_way;
    if (stop) {
      ++stopped;
      return Refusal{.status = 503, .message = "stopped (40 bytes are kept)"};
    }
    if (name.model == "wrong") return Refusal{.status = 404, .message = "there is no such model"};
    tell({.status = "pulling 0123", .digest = "sha256:0123", .total = 100, .completed = 100});
    return Fine{};
  }
  Checked copy(const OllamaName& source, const OllamaName& destination) override {
    changes.push_back(cat(source.text(), " to ", destination.text()));
    return source.model == "missing" ? Checked(Refusal{.status = 404, .message = "model missing not found"}) : Fine{};
  }
  Checked remove(const OllamaName& name) override {
    changes.push_back(cat("without ", name.text()));
    return Fine{};
  }

  std::atomic<int> pulls = 0, under_way = 0, stopped = 0;
  std::atomic<bool> may_end = true, may_stop = true;
  std::vector<std::string> changes;  // of one thread
};

void wait_until(const std::function<bool()>& holds) {
  while (!holds()) std::this_thread::yield();
}

TestReply remove(const TestServer& server, const std::string& body) {
  TestClient client(server.port());
  client.send(request_text("DELETE", "/api/delete", body));
  return client.read();
}

std::string pull_text(const std::string& model) {
  return request_text("POST", "/api/pull", cat(R"({"model": ")", model, "\"}"));
}

TEST(StoreChanges, AreRefusedUnlessTheyAreAllowed) {
  const TestServer server;
  const std::string sentence =
      "{\"error\": \"clients may not change the store of models: start the server with --allow-store-changes\"}\n";
  for (const char* path : {"/api/pull", "/api/copy"}) {
    const TestReply refused = ask(server, path, R"({"model": "tiny"})");
    EXPECT_EQ(refused.status, 403) << path;
    EXPECT_EQ(refused.body, sentence);
    EXPECT_EQ(refused.header("x-should-retry"), "false");
  }
  EXPECT_EQ(remove(server, R"({"model": "demo"})").body, sentence);
  EXPECT_EQ(get(server, "/api/pull").status, 405);
}

TEST(StoreChanges, NothingIsCreatedOrPublished) {
  FakeStore store;
  const TestServer server({.store = &store});
  for (const char* path : {"/api/create", "/api/push", "/api/blobs/sha256:00"}) {
    const TestReply refused = ask(server, path, R"({"model": "tiny"})");
    EXPECT_EQ(refused.status, 400) << path;
    EXPECT_THAT(refused.body, EndsWith(" is not supported: Sluice neither creates nor publishes models\"}\n"));
  }
  TestClient client(server.port());
  client.send(request_text("HEAD", "/api/blobs/sha256:00"));
  EXPECT_EQ(client.read(/*has_body=*/false).status, 400);
}

TEST(StoreChanges, APullIsToldLineByLineOrAtItsEnd) {
  FakeStore store;
  const TestServer server({.store = &store});
  const TestReply lines = ask(server, "/api/pull", R"({"name": "tiny", "insecure": true})");
  EXPECT_EQ(lines.status, 200);
  EXPECT_EQ(lines.header("content-type"), "application/x-ndjson");
  EXPECT_EQ(lines.header("x-sluice-ignored"), "insecure");
  EXPECT_THAT(split(lines.body, '\n'),
              ElementsAre(R"({"status": "pulling manifest"})",
                          R"({"status": "pulling 0123", "digest": "sha256:0123", "total": 100})",
                          R"({"status": "pulling 0123", "digest": "sha256:0123", "total": 100, "completed": 100})",
                          R"({"status": "success"})", ""));
  const TestReply whole = ask(server, "/api/pull", R"({"model": "tiny", "stream": false})");
  EXPECT_EQ(whole.body, "{\"status\": \"success\"}\n");
  EXPECT_EQ(whole.header("content-type"), "application/json; charset=utf-8");
  EXPECT_THAT(ask(server, "/api/pull", R"({"model": "wrong"})").body,
              EndsWith("}\n{\"error\": \"there is no such model\"}\n"));
  const TestReply failed = ask(server, "/api/pull", R"({"model": "wrong", "stream": false})");
  EXPECT_EQ(failed.status, 404);
  EXPECT_EQ(failed.body, "{\"error\": \"there is no such model\"}\n");
  EXPECT_EQ(store.pulls, 4);
}

TEST(StoreChanges, WrongNamesAndOtherHostsAreRefused) {
  FakeStore store;
  const TestServer server({.store = &store});
  EXPECT_EQ(ask(server, "/api/pull", R"({"model": "../a"})").body,
            "{\"error\": \"model is ../a: want a name such as gemma4:e2b\"}\n");
  EXPECT_EQ(ask(server, "/api/pull", "{}").status, 400);
  const TestReply host = ask(server, "/api/pull", R"({"model": "10.0.0.1:5000/a/b"})");
  EXPECT_EQ(host.status, 400);
  EXPECT_THAT(host.body, HasSubstr("the server does not fetch from 10.0.0.1:5000: want a model of Ollama's registry"));
  EXPECT_EQ(ask(server, "/api/pull", R"({"model": "hf.co/org/repo:Q4_K_M", "stream": false})").status, 200);
  EXPECT_EQ(ask(server, "/api/copy", R"({"source": "a"})").body,
            "{\"error\": \"destination is missing: want a name\"}\n");
  EXPECT_EQ(remove(server, R"({"model": "a b"})").status, 400);
  EXPECT_THAT(store.changes, ElementsAre());
}

TEST(StoreChanges, CopiesAndDeletionsReplyWithoutABody) {
  FakeStore store;
  const TestServer server({.store = &store});
  const TestReply copied = ask(server, "/api/copy", R"({"source": "tiny", "destination": "me/mine:v1"})");
  EXPECT_EQ(copied.status, 200);
  EXPECT_EQ(copied.body, "");
  EXPECT_EQ(remove(server, R"({"name": "tiny"})").status, 200);
  const TestReply missing = ask(server, "/api/copy", R"({"source": "missing", "destination": "b"})");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.body, "{\"error\": \"model missing not found\"}\n");
  EXPECT_THAT(store.changes,
              ElementsAre("tiny:latest to me/mine:v1", "without tiny:latest", "missing:latest to b:latest"));
}

TEST(StoreChanges, ClientsShareAPullAndTheLastOneToLeaveStopsIt) {
  FakeStore store;
  store.may_end = false;
  const TestServer server({.store = &store});
  {
    TestClient second(server.port());
    {
      TestClient first(server.port());
      first.send(pull_text("tiny"));
      ASSERT_TRUE(first.read_until("\"completed\": 40"));
      second.send(pull_text("tiny:latest"));
      ASSERT_TRUE(second.read_until("\"completed\": 40")) << "it hears what is known";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(store.stopped, 0);
    EXPECT_EQ(store.pulls, 1);
  }
  wait_until([&] { return store.stopped == 1; });
  store.may_end = true;
  EXPECT_THAT(ask(server, "/api/pull", R"({"model": "tiny"})").body, EndsWith("{\"status\": \"success\"}\n"));
  EXPECT_EQ(store.pulls, 2);
}

TEST(StoreChanges, AClientWhoComesWhileAPullIsStoppedGetsItAgain) {
  FakeStore store;
  store.may_end = false;
  store.may_stop = false;
  const TestServer server({.store = &store});
  {
    TestClient first(server.port());
    first.send(pull_text("tiny"));
    ASSERT_TRUE(first.read_until("\"completed\": 40"));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the server has noticed
  TestClient second(server.port());
  second.send(pull_text("tiny"));
  ASSERT_TRUE(second.read_until("\"completed\": 40"));
  store.may_stop = true;
  wait_until([&] { return store.stopped == 1; });
  store.may_end = true;
  EXPECT_TRUE(second.read_until("\"success\""));
  EXPECT_EQ(store.pulls, 2);
}

TEST(StoreChanges, MorePullsThanTheServerMakesAtOnceAreRefused) {
  FakeStore store;
  store.may_end = false;
  const TestServer server({.store = &store});
  std::list<TestClient> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back(server.port()).send(pull_text(cat("m", i)));
    ASSERT_TRUE(clients.back().read_until("\"completed\": 40"));
  }
  const TestReply busy = ask(server, "/api/pull", R"({"model": "m4"})");
  EXPECT_EQ(busy.status, 503);
  EXPECT_EQ(busy.header("retry-after"), "1");
  store.may_end = true;
  for (TestClient& client : clients) EXPECT_TRUE(client.read_until("\"success\""));
}

TEST(StoreChanges, ASilentPullSaysThatItGoesOn) {
  FakeStore store;
  store.may_end = false;
  const TestServer server({.limits = {.keep_alive_seconds = 0.02}, .store = &store});
  TestClient client(server.port());
  client.send(pull_text("tiny"));
  EXPECT_TRUE(client.read_until("{\"status\": \"still pulling tiny:latest\"}\n"));
}

TEST(StoreChanges, ADrainEndsPulls) {
  FakeStore store;
  store.may_end = false;
  TestServer server({.store = &store});
  TestClient client(server.port());
  client.send(pull_text("tiny"));
  ASSERT_TRUE(client.read_until("\"completed\": 40"));
  server.drain();
  EXPECT_TRUE(client.read_until("{\"error\": \"stopped (40 bytes are kept)\"}\n"));
  EXPECT_TRUE(client.is_closed());
  wait_until([&] { return server.has_ended(); });
  EXPECT_EQ(store.under_way, 0);
}

TEST(StoreChanges, AServerThatIsStoppedWaitsForItsPulls) {
  FakeStore store;
  store.may_end = false;
  std::optional<TestClient> client;
  {
    TestServer server({.store = &store});
    client.emplace(server.port());
    client->send(pull_text("tiny"));
    ASSERT_TRUE(client->read_until("\"completed\": 40"));
  }
  EXPECT_EQ(store.stopped, 1);
}

}  // namespace
}  // namespace sluice
