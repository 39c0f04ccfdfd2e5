// Several models behind one server: loaded when requests name them, unloaded when time or memory is over, and never of
// influence on each other's answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "base/text.h"
#include "base/threads.h"
#include "device/cpu/cpu.h"
#include "serve/keep_alive.h"
#include "serve/model_shelf.h"
#include "tests/model/adapters/written_adapter.h"
#include "tests/serve/test_server.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::HasSubstr;

// Models of the tests' data on one device, with one budget.
class Models : public testing::Test {
 protected:
  // Served as `name`, and with the adapter at `adapter` as "name:words".
  ModelRecipe recipe(const std::string& name, const std::string& path, const std::string& adapter = "") {
    ModelCard card;
    card.names = {name};
    std::vector<ModelCard> cards = {card};
    if (!adapter.empty()) cards.push_back({.names = {name + ":words"}});
    return {.cards = cards, .running = 2, .load = [this, cards, path, adapter](bool) {
              ++loads_;
              return loaded(cards, path, adapter);
            }};
  }

  Result<std::unique_ptr<LoadedModel>> loaded(const std::vector<ModelCard>& cards, const std::string& path,
                                              const std::string& adapter) {
    std::vector<AdapterSum> sums(1);
    const auto options = [&](const ChatModel& model) -> Result<EngineOptions> {
      EngineOptions one{.context = 256, .sequences = 2};
      if (adapter.empty()) return one;
      TRY(std::shared_ptr<const Adapter> opened, Adapter::open(model.model, adapter));
      sums.push_back({{.adapter = std::move(opened)}});
      one.adapters = {sums[1]};
      return one;
    };
    auto made = std::make_unique<LoadedModel>();
    TRY(made->opened, open_chat_model({.files = files_at(path), .options = options}, *device_, budget_, /*bounds=*/{}));
    for (size_t i = 0; i < cards.size(); ++i) {
      ServedModel served;
      static_cast<ModelCard&>(served) = cards[i];
      served.describe(made->opened->model, made->opened->text);
      served.context = 256;
      served.text = &made->opened->text;
      served.model = &made->opened->model;
      served.adapters = sums[i];
      made->variants.push_back(std::move(served));
    }
    return made;
  }
  std::vector<ModelRecipe> both() {
    return {recipe("gemma", "tests/data/gemma4_dense"), recipe("qwen", "tests/data/qwen3_5_moe")};
  }

  ThreadPool pool_{2};
  std::unique_ptr<Device> device_ = make_cpu_device({.pool = &pool_});
  Budget budget_;
  std::atomic<int> loads_ = 0;
};

std::string completion(const std::string& model, const std::string& more = "") {
  return cat(R"({"model": ")", model, R"(", "prompt": "A violin is", "temperature": 1, "max_tokens": 24)", more, "}");
}

std::string answer(const TestServer& server, const std::string& model) {
  const TestReply reply = ask(server, "/v1/completions", completion(model));
  return reply.status != 200 ? reply.body : reply.json().find("choices")->as_array()[0].find("text")->as_string();
}

// Until it is gone: a request that came before would still find it.
void unload(TestServer& server, const std::string& model) {
  const TestReply reply =
      ask(server, "/api/generate", cat(R"({"model": ")", model, R"(", "keep_alive": 0, "stream": false})"));
  EXPECT_EQ(reply.json().find("done_reason")->as_string(), "unload");
  const std::optional<ModelPlace> place = server.shelf().find(model);
  while (server.shelf().use_loaded(*place) != nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(get(server, "/api/ps").body.find(cat("\"name\": \"", model)), std::string::npos);
}

TEST_F(Models, AnswerTheSameAloneTogetherAndLoadedAgain) {
  std::vector<std::string> alone;
  for (const ModelRecipe& one : both()) {
    const TestServer server({.recipes = {one}});
    alone.push_back(answer(server, one.cards[0].id()));
  }
  ASSERT_NE(alone[0], alone[1]);
  loads_ = 0;
  TestServer server({.recipes = both()});
  std::vector<std::thread> clients;
  for (int client = 0; client < 8; ++client)
    clients.emplace_back([&, client] {
      const auto model = static_cast<size_t>(client % 2);
      EXPECT_EQ(answer(server, model == 0 ? "gemma" : "qwen:latest"), alone[model]);
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(loads_, 2);
  unload(server, "gemma");
  EXPECT_EQ(answer(server, "gemma"), alone[0]);
  EXPECT_EQ(answer(server, "qwen"), alone[1]);
  EXPECT_EQ(loads_, 3);
}

TEST_F(Models, AnswerWithAnAdapterByItsNameAndShareTheirWeights) {
  const std::string folder = (std::filesystem::path(testing::TempDir()) / "sluice_served_adapter").string();
  tests::write_adapter(folder, tests::peft_config(64),
                       tests::peft_factors({{"model.language_model.layers.0.self_attn.q_proj", 256, 256}}, 2));
  const TestServer server({.recipes = {recipe("demo", "assets/demo-gemma4-q8_0.gguf", folder)}});
  const std::string plain = answer(server, "demo"), adapted = answer(server, "demo:words");
  EXPECT_NE(plain, adapted);
  EXPECT_EQ(answer(server, "demo"), plain);
  EXPECT_EQ(answer(server, "demo:words"), adapted);
  EXPECT_EQ(loads_, 1);
  EXPECT_THAT(get(server, "/v1/models").body, HasSubstr(R"("id": "demo:words")"));
  std::filesystem::remove_all(folder);
}

TEST_F(Models, LeaveForOthersWhenMemoryIsShort) {
  const auto bytes = [&](const ModelRecipe& one) {
    const auto held = unwrap(one.load(true));
    return budget_.used(Domain::host);
  };
  const uint64_t gemma = bytes(both()[0]), qwen = bytes(both()[1]);
  ASSERT_EQ(budget_.used(Domain::host), 0u);
  budget_.set_limit(Domain::host, std::max(gemma, qwen) + std::min(gemma, qwen) / 2);
  TestServer server({.recipes = both()});
  const std::string first = answer(server, "gemma");
  EXPECT_EQ(answer(server, "qwen").find("error"), std::string::npos);
  EXPECT_FALSE(server.shelf().expires_at(0));
  EXPECT_EQ(answer(server, "gemma"), first);
  EXPECT_FALSE(server.shelf().expires_at(1));
  {
    const std::shared_ptr<ModelUse> use = server.shelf().use_loaded({0, 0});
    const TestReply busy = ask(server, "/v1/completions", completion("qwen"));
    EXPECT_EQ(busy.status, 503);
    EXPECT_EQ(busy.header("retry-after"), "1");
    EXPECT_THAT(busy.body, HasSubstr("model qwen cannot be loaded while others answer: host memory: "));
    const TestReply message = ask(server, "/v1/messages", R"({"model": "qwen", "max_tokens": 4,
                                  "messages": [{"role": "user", "content": "a"}]})");
    EXPECT_EQ(message.status, 529);
  }
  EXPECT_EQ(answer(server, "qwen").find("error"), std::string::npos);
}

TEST_F(Models, ThatCannotBeLoadedAreTriedAgain) {
  std::vector<ModelRecipe> recipes = {demo_recipe(), demo_recipe()};
  recipes[1].cards[0].names = {"late"};
  const auto load = recipes[1].load;
  recipes[1].load = [&, load](bool may_lack_room) -> Result<std::unique_ptr<LoadedModel>> {
    if (loads_++ == 0) return error(ErrorKind::corrupt, "late.gguf: is cut");
    return load(may_lack_room);
  };
  const TestServer server({.recipes = recipes});
  const TestReply failed = ask(server, "/api/chat", R"({"model": "late", "messages": [], "stream": false})");
  EXPECT_EQ(failed.status, 500);
  EXPECT_EQ(failed.body, "{\"error\": \"model late cannot be loaded: late.gguf: is cut\"}\n");
  EXPECT_EQ(ask(server, "/api/chat", R"({"model": "late", "messages": []})").status, 200);
}

TEST_F(Models, AreLoadedOnceForAllWhoWaitAlsoWhenTheFirstLeaves) {
  std::vector<ModelRecipe> recipes = {demo_recipe(), demo_recipe()};
  recipes[1].cards[0].names = {"late"};
  std::atomic<bool> may_load = false;
  const auto load = recipes[1].load;
  recipes[1].load = [&, load](bool may_lack_room) -> Result<std::unique_ptr<LoadedModel>> {
    ++loads_;
    while (!may_load) std::this_thread::yield();
    return load(may_lack_room);
  };
  TestServer server({.recipes = recipes});
  TestClient stays(server.port()), stays_too(server.port());
  {
    TestClient leaves(server.port());
    leaves.send(request_text("POST", "/v1/completions", completion("late")));
    while (loads_ == 0) std::this_thread::yield();
    for (TestClient* client : {&stays, &stays_too})
      client->send(request_text("POST", "/v1/completions", completion("late")));
  }
  EXPECT_EQ(get(server, "/health").status, 200);  // a load holds up nobody who asks for something else
  may_load = true;
  EXPECT_EQ(stays.read().status, 200);
  EXPECT_EQ(stays_too.read().status, 200);
  EXPECT_EQ(loads_, 1);
  EXPECT_TRUE(server.shelf().expires_at(1));
}

// The first load holds the engines' thread until all are in the queue. 0.1 s.
TEST_F(Models, AreLoadedInTheOrderInWhichTheyWereAskedFor) {
  std::vector<ModelRecipe> recipes;
  std::atomic<bool> may_load = false;
  std::mutex mutex;  // guards the order
  std::vector<std::string> order;
  for (const char* name : {"first", "b", "c", "d"}) {
    ModelRecipe one = demo_recipe();
    one.cards[0].names = {name};
    one.load = [&, name, load = one.load](bool may_lack_room) -> Result<std::unique_ptr<LoadedModel>> {
      {
        const std::lock_guard lock(mutex);
        order.emplace_back(name);
      }
      ++loads_;
      while (!may_load) std::this_thread::yield();
      return load(may_lack_room);
    };
    recipes.push_back(std::move(one));
  }
  TestServer server({.recipes = recipes});
  std::vector<std::unique_ptr<TestClient>> clients;
  const auto send = [&](const char* model) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    clients.back()->send(request_text("POST", "/v1/completions", completion(model)));
  };
  send("first");
  while (loads_ == 0) std::this_thread::yield();
  send("d");
  EXPECT_TRUE(server.wait_for_waiting(3, 1));
  send("b");
  EXPECT_TRUE(server.wait_for_waiting(1, 1));
  send("c");
  EXPECT_TRUE(server.wait_for_waiting(2, 1));
  send("b");
  EXPECT_TRUE(server.wait_for_waiting(1, 2));
  may_load = true;
  for (const auto& client : clients) EXPECT_EQ(client->read().status, 200);
  const std::lock_guard lock(mutex);
  EXPECT_THAT(order, testing::ElementsAre("first", "d", "b", "c"));
}

// Each asks again where it is told to, because the other model answers. 0.1 s.
TEST_F(Models, TwoThatNeedTheRoomOfOneAreBothAnswered) {
  std::vector<ModelRecipe> recipes = {recipe("gemma", "tests/data/gemma4_dense"),
                                      recipe("second", "tests/data/gemma4_dense"),
                                      recipe("third", "tests/data/gemma4_dense")};
  {
    const auto held = unwrap(recipes[0].load(true));
    budget_.set_limit(Domain::host, budget_.used(Domain::host) * 3 / 2);
  }
  const TestServer server({.recipes = recipes});
  const std::string alone = answer(server, "gemma");
  std::vector<std::thread> clients;
  for (const char* model : {"second", "third"})
    clients.emplace_back([&, model] {
      TestReply reply = ask(server, "/v1/completions", completion(model));
      for (; reply.status == 503; reply = ask(server, "/v1/completions", completion(model))) {
        EXPECT_EQ(reply.header("retry-after"), "1");
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      ASSERT_EQ(reply.status, 200) << reply.body;
      EXPECT_EQ(reply.json().find("choices")->as_array()[0].find("text")->as_string(), alone);
    });
  for (std::thread& client : clients) client.join();
}

TEST_F(Models, GoWhenTheirTimeIsOver) {
  std::vector<ModelRecipe> recipes = {demo_recipe(), demo_recipe(), demo_recipe()};
  recipes[0].is_pinned = true;
  recipes[1].cards[0].names = {"short"};
  recipes[1].keep_alive = KeepAlive(0.02);
  recipes[2].cards[0].names = {"long"};
  recipes[2].keep_alive = KeepAlive(3600);
  TestServer server({.recipes = recipes});
  for (const char* model : {"demo", "short", "long"})
    EXPECT_EQ(ask(server, "/v1/completions", completion(model)).status, 200);
  while (server.shelf().expires_at(1)) std::this_thread::yield();
  const std::string counted = R"({"model": "short", "messages": [{"role": "user", "content": "a"}]})";
  EXPECT_GT(ask(server, "/v1/messages/count_tokens", counted).json().find("input_tokens")->as_integer(), 0);
  EXPECT_EQ(*server.shelf().expires_at(0), ModelShelf::kNever);
  const auto left = *server.shelf().expires_at(2) - ModelShelf::Clock::now();
  EXPECT_GT(left, std::chrono::minutes(55));
  unload(server, "long");
  ask(server, "/api/generate", R"({"model": "demo", "keep_alive": 0})");
  EXPECT_TRUE(server.shelf().expires_at(0)) << "it is pinned";
}

TEST_F(Models, AreNamedAndRefusedByName) {
  std::vector<ModelRecipe> recipes = {demo_recipe(), demo_recipe()};
  recipes[1].cards[0].names = {"gemma4:e2b"};
  TestServer server({.recipes = recipes});
  EXPECT_THAT(ask(server, "/v1/completions", completion("gemma4:e2")).body,
              HasSubstr("model gemma4:e2 not found: did you mean gemma4:e2b?"));
  const TestReply far = ask(server, "/api/show", R"({"model": "qwen3.5:0.8b"})");
  EXPECT_EQ(far.status, 404);
  EXPECT_EQ(far.body, "{\"error\": \"model qwen3.5:0.8b not found: want one of demo, gemma4:e2b\"}\n");
  EXPECT_THAT(ask(server, "/v1/completions", R"({"prompt": "a"})").body, HasSubstr("model is missing"));
  EXPECT_EQ(ask(server, "/api/show", R"({"model": "gemma4:e2b"})").status, 200);
  EXPECT_EQ(get(server, "/v1/models", "anthropic-version: 1\r\n").json().find("last_id")->as_string(), "gemma4:e2b");
  EXPECT_FALSE(server.shelf().expires_at(1)) << "nothing was asked of it";
}

TEST_F(Models, ComeAndGoWhileOthersAnswer) {
  TestServer server({.recipes = {demo_recipe()}});
  const std::string before = answer(server, "demo");
  ModelRecipe late = demo_recipe();
  late.cards[0].names = {"late"};
  const size_t number = server.shelf().add(late);
  EXPECT_EQ(answer(server, "late"), before);
  EXPECT_THAT(ask(server, "/v1/completions", R"({"prompt": "a"})").body, HasSubstr("model is missing"));
  {
    const std::shared_ptr<ModelUse> use = server.shelf().use_loaded({number, 0});
    server.shelf().remove(number);
    EXPECT_THAT(answer(server, "late"), HasSubstr("model late not found: want demo"));
    EXPECT_EQ(get(server, "/v1/models").body.find("late"), std::string::npos);
    EXPECT_TRUE(server.shelf().recipe(number)) << "it is in use";
    use->keep(KeepAlive(3600));
  }
  while (server.shelf().recipe(number)) std::this_thread::yield();
  const size_t again = server.shelf().add(late);
  EXPECT_NE(again, number);
  EXPECT_EQ(answer(server, "late"), before);
  EXPECT_EQ(get(server, "/metrics").body.find("sluice_model_loaded{model=\"late\"} 0"), std::string::npos);
  server.shelf().remove(0);
  EXPECT_EQ(ask(server, "/v1/completions", R"({"prompt": "a", "max_tokens": 1})").status, 200) << "of the only model";
  server.shelf().remove(again);
  EXPECT_THAT(answer(server, "late"), HasSubstr("\"model late not found\""));
  EXPECT_EQ(get(server, "/api/tags").body, "{\"models\": []}\n");
}

TEST_F(Models, ThatWereDeletedAreNotLoadedForWhoAskedBefore) {
  ModelShelf shelf({demo_recipe()});
  const ModelPlace place = *shelf.find("demo");
  shelf.remove(place.recipe);
  shelf.unload_expired();
  EXPECT_EQ(shelf.load(place).error().message, "the model was deleted meanwhile");
  EXPECT_FALSE(shelf.use_loaded(place));
  EXPECT_FALSE(shelf.card(place));
}

TEST(KeepAliveTimes, AreSecondsOrDurations) {
  EXPECT_EQ(parse_keep_alive("90"), KeepAlive(90));
  EXPECT_EQ(parse_keep_alive("5m"), KeepAlive(300));
  EXPECT_EQ(parse_keep_alive("1h30m"), KeepAlive(5400));
  EXPECT_EQ(parse_keep_alive("1.5h"), KeepAlive(5400));
  EXPECT_EQ(parse_keep_alive("500ms"), KeepAlive(0.5));
  EXPECT_EQ(parse_keep_alive("-1m"), kKeepLoaded);
  EXPECT_EQ(parse_keep_alive("0"), KeepAlive(0));
  for (const char* wrong : {"", "-", "m", "5x", "5m3", "nan"}) EXPECT_FALSE(parse_keep_alive(wrong)) << wrong;
}

}  // namespace
}  // namespace sluice
