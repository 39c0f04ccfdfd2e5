// The store of a server, changed as its clients ask, with a registry on the loopback. What clients see of it is in
// tests/serve/store_test.cpp. 1 s, with each change.
#include "app/serve/served_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <thread>

#include "app/commands.h"
#include "base/files/file.h"
#include "checkpoint/places/ollama_store.h"
#include "tests/app/files/ollama_registry.h"
#include "tests/app/program.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class ServedStoreTest : public testing::Test, protected OllamaRegistry {
 protected:
  ServedStoreTest() : root_(folder_.path("store")) {
    setenv("SLUICE_OLLAMA_REGISTRY", server_.url("").c_str(), 1);
    serve_manifest(whole_manifest());
    const std::vector<std::string> words = {"--store", "--device", "cpu", "--threads", "1", "--context", "256"};
    arguments_ = unwrap(parse_arguments(command_, words));
    machine_.emplace(unwrap(open_machine(arguments_)));
    open({});
  }
  ~ServedStoreTest() override {
    queue_.close();
    engines_.join();
    unsetenv("SLUICE_OLLAMA_REGISTRY");
  }

  // `named`: the models that stay.
  void open(std::vector<ModelFiles> named) {
    store_.emplace(
        ServedStore::Setup{.roots = {root_}, .arguments = arguments_, .named = std::move(named), .version = "0"},
        shelf_, queue_, *machine_, console_);
  }
  static OllamaName name(const std::string& text) { return *parse_ollama_name(text); }
  // "": it was fetched.
  std::string pull(const std::string& model) {
    const Checked done = store_->pull(name(model), [&](const PullProgress& news) { told_.push_back(news); }, stop_);
    return done ? "" : done.error().message;
  }
  std::string copy(const std::string& source, const std::string& destination) {
    const Checked done = store_->copy(name(source), name(destination));
    return done ? "" : done.error().message;
  }
  std::string remove(const std::string& model) {
    const Checked done = store_->remove(name(model));
    return done ? "" : done.error().message;
  }
  std::vector<std::string> offered() const {
    std::vector<std::string> names;
    for (const auto& [place, card] : shelf_.cards()) names.push_back(card->id());
    return names;
  }
  std::vector<std::string> blobs() const { return *list_directory(root_ + "/blobs"); }
  static std::string blob(std::string_view content) { return "sha256-" + hex_of(content); }

  TemporaryFolder folder_;
  const std::string root_;
  const CommandSpec command_ = serve_command();
  Arguments arguments_;
  Console console_;
  std::optional<Machine> machine_;
  ModelShelf shelf_{{}};
  AnswerQueue queue_{shelf_, 8};
  std::thread engines_{[this] { queue_.run(); }};
  std::optional<ServedStore> store_;
  std::vector<PullProgress> told_;
  std::atomic<bool> stop_ = false;
};

TEST_F(ServedStoreTest, WhatIsPulledOrCopiedIsOfferedAndWhatIsDeletedGoes) {
  EXPECT_EQ(pull("tiny:e2b"), "");
  EXPECT_THAT(offered(), ElementsAre("tiny:e2b"));
  EXPECT_EQ(told_.front().status, "pulling manifest");
  EXPECT_EQ(told_.back().status, "writing manifest");
  uint64_t most = 0;
  for (const PullProgress& one : told_)
    most = std::max(most, one.digest == "sha256:" + hex_of(model_) ? one.completed : 0);
  EXPECT_EQ(most, model_.size());
  EXPECT_EQ(copy("tiny:e2b", "me/mine"), "");
  EXPECT_THAT(offered(), ElementsAre("tiny:e2b", "me/mine:latest"));
  EXPECT_EQ(remove("tiny:e2b"), "");
  EXPECT_THAT(offered(), ElementsAre("me/mine:latest"));
  EXPECT_EQ(blobs().size(), 4u) << "the copy has them";
  const auto loaded = unwrap(shelf_.recipe(shelf_.find("me/mine")->recipe)->load(true));
  EXPECT_EQ(loaded->variants[0].system, "Be brief.");
  EXPECT_EQ(remove("me/mine"), "");
  EXPECT_THAT(offered(), IsEmpty());
  EXPECT_THAT(blobs(), IsEmpty());
  EXPECT_THAT(*list_directory(root_ + "/manifests"), IsEmpty());
  EXPECT_THAT(remove("me/mine"), HasSubstr("model me/mine:latest not found"));
  EXPECT_THAT(copy("tiny:e2b", "b"), HasSubstr("model tiny:e2b not found"));
}

TEST_F(ServedStoreTest, AModelThatHasChangedReplacesTheOldOne) {
  EXPECT_EQ(pull("tiny:e2b"), "");
  const size_t first = shelf_.find("tiny:e2b")->recipe;
  EXPECT_EQ(pull("tiny:e2b"), "");
  EXPECT_EQ(shelf_.find("tiny:e2b")->recipe, first) << "nothing is new";
  serve_manifest(whole_manifest("Be long."));
  EXPECT_EQ(pull("tiny:e2b"), "");
  EXPECT_NE(shelf_.find("tiny:e2b")->recipe, first);
  EXPECT_EQ(shelf_.card("tiny:e2b")->system, "Be long.");
  EXPECT_THAT(blobs(), Not(Contains(blob("Be brief."))));
  EXPECT_EQ(blobs().size(), 4u);
}

TEST_F(ServedStoreTest, AModelThatWasNamedStays) {
  ASSERT_EQ(pull("tiny:e2b"), "");
  ASSERT_EQ(copy("tiny:e2b", "other"), "");
  open({unwrap(open_ollama_model(root_, name("tiny:e2b")))});
  ModelRecipe file;
  file.cards = {{.names = {"file"}}};
  shelf_.add(std::move(file));
  const std::string stays = " was named when the server was started: it can be neither deleted nor replaced";
  EXPECT_EQ(remove("tiny:e2b"), "model tiny:e2b" + stays);
  EXPECT_EQ(copy("other", "tiny:e2b"), "model tiny:e2b" + stays);
  EXPECT_EQ(remove("file"), "model file:latest" + stays);
  EXPECT_EQ(pull("file"), "model file:latest" + stays);
  serve_manifest(cat(R"({"layers":[)", entry("model", model_ + "more"), "]}"));
  pull("tiny:e2b");
  EXPECT_EQ(remove("other"), "");
  EXPECT_THAT(blobs(), Contains(blob(model_))) << "it is loaded from there";
}

TEST_F(ServedStoreTest, AModelThatDoesNotRunIsKeptAndSaid) {
  serve_manifest(cat(R"({"layers":[)", entry("model", "no model"), "]}"));
  EXPECT_THAT(pull("tiny:e2b"), HasSubstr("model tiny:e2b was fetched, but does not run: "));
  EXPECT_THAT(offered(), IsEmpty());
  EXPECT_THAT(blobs(), ElementsAre(blob("no model")));
  EXPECT_EQ(remove("tiny:e2b"), "");
  EXPECT_THAT(blobs(), IsEmpty());
}

TEST_F(ServedStoreTest, NoFileGoesThatAnUnreadableManifestMayName) {
  ASSERT_EQ(pull("tiny:e2b"), "");
  const std::string broken = ollama_manifest_path(root_, name("broken"));
  ASSERT_TRUE(make_folders(broken.substr(0, broken.rfind('/'))).ok());
  ASSERT_TRUE(write_file(broken, "{").ok());
  EXPECT_THAT(remove("tiny:e2b"), HasSubstr(broken + ": no JSON at byte"));
  EXPECT_THAT(offered(), IsEmpty());
  EXPECT_EQ(blobs().size(), 4u);
}

TEST_F(ServedStoreTest, AStoppedPullHasNoNameAndGoesOnLater) {
  cut_[blob_url_path(model_)] = 500'000;
  stalls_ = true;
  std::thread stopper([&] {
    while (path_kind(root_ + "/blobs/" + blob(model_) + ".part") == PathKind::missing) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop_ = true;
  });
  EXPECT_THAT(pull("tiny:e2b"), HasSubstr(": stopped (500.0 kB are kept"));
  stopper.join();
  EXPECT_THAT(offered(), IsEmpty());
  EXPECT_TRUE(list_ollama_models(root_).empty());
  EXPECT_THAT(blobs(), Not(Contains(blob(model_))));
  stop_ = false;
  told_.clear();
  EXPECT_EQ(pull("tiny:e2b"), "");
  EXPECT_THAT(offered(), ElementsAre("tiny:e2b"));
  for (const PullProgress& one : told_)
    if (one.digest == "sha256:" + hex_of(model_) && one.completed > 0) EXPECT_GE(one.completed, 500'000u);
}

}  // namespace
}  // namespace sluice
