// Repositories of a Hugging Face hub, served on the loopback: its API, its redirects to another host, its tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "app/files/hub_files.h"
#include "app/files/pull.h"
#include "base/files/file.h"
#include "base/sha256.h"
#include "checkpoint/places/places.h"
#include "tests/app/files/http_server.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kCommit(40, 'c');

std::string hex_of(std::string_view content) {
  Sha256 sum;
  sum.add(content);
  return sum.finish_hex();
}

// A hub that sends large files to a second server, as the real one does.
class PullHub : public testing::Test {
 protected:
  PullHub()
      : files_([this](const LocalRequest& asked) { return answer_file(asked); }),
        hub_([this](const LocalRequest& asked) { return answer(asked); }),
        cache_(folder_.path("hub")),
        model_(*read_file(SLUICE_TEST_DATA "/peer/gemma4_moe-bf16.gguf", 1 << 24)) {
    setenv("no_proxy", "127.0.0.1", 1);
    setenv("HF_TOKEN_PATH", "/none", 1);
    unsetenv("HF_TOKEN");
  }
  ~PullHub() override {
    for (const char* name : {"HF_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT", "NETRC"}) unsetenv(name);
  }

  std::string listing() const {
    std::string out = cat(R"({"id":"org/repo","sha":")", kCommit, R"(","siblings":[)");
    bool first = true;
    for (const auto& [path, content] : repository_) {
      out += cat(first ? "" : ",", R"({"rfilename":")", path, R"(","size":)", content.size(), R"(,"blobId":")",
                 std::string(40, 'b'), '"');
      if (!ends_with(path, ".json"))
        out += cat(R"(,"lfs":{"sha256":")", hex_of(content), R"(","size":)", content.size(), "}");
      out += "}";
      first = false;
    }
    return out + "]}";
  }
  LocalReply answer(const LocalRequest& asked) {
    if (!token_.empty()) {
      const auto given = asked.headers.find("authorization");
      if (given == asked.headers.end() || given->second != "Bearer " + token_) return {401, {}, ""};
    }
    if (busy_ > 0) {
      --busy_;
      return {429, {"Retry-After: 1"}, ""};
    }
    if (asked.path == "/api/models/org/repo/revision/main?blobs=true") return {200, {}, listing()};
    const std::string prefix = cat("/org/repo/resolve/", kCommit, '/');
    if (!starts_with(asked.path, prefix)) return {404, {}, ""};
    return {302, {"Location: " + files_.url("/" + asked.path.substr(prefix.size()))}, ""};
  }
  LocalReply answer_file(const LocalRequest& asked) {
    const auto found = repository_.find(asked.path.substr(1));
    if (found == repository_.end()) return {404, {}, ""};
    LocalReply reply = file_reply(asked, found->second, '"' + hex_of(found->second) + '"');
    reply.sent_bytes = std::exchange(cut_, SIZE_MAX);
    if (lie_) reply.body[100] ^= 1;
    return reply;
  }

  PullRequest request(const std::string& wanted = "") const {
    return {.url = hub_.url(""),
            .folder = cache_,
            .options = {.timeout_seconds = 20, .retries = 0},
            .hub = RepositoryName{"org", "repo", wanted}};
  }
  std::string refusal(const PullRequest& wanted) {
    const Result<Pulled> pulled = pull(wanted, console_);
    return pulled ? "pulled" : pulled.error().text;
  }
  Result<ModelFiles> find(const std::string& name) const { return find_model(name, {{}, {cache_}, {}}); }

  std::map<std::string, std::string> repository_;  // paths and contents
  std::string token_;                              // that the hub wants; "": none
  size_t cut_ = SIZE_MAX;                          // bytes after which the next file stops
  int busy_ = 0;                                   // replies of "too many requests"
  bool lie_ = false;                               // a byte of every file is wrong
  LocalServer files_, hub_;
  TemporaryFolder folder_;
  Console console_;
  const std::string cache_;
  const std::string model_;
};

TEST_F(PullHub, AQuantisationComesIntoTheCacheWithItsTowers) {
  repository_ = {{"m-Q4_K_M.gguf", model_},     {"m-Q8_0.gguf", "another"}, {"mmproj-BF16.gguf", "towers in bf16"},
                 {"mmproj-F16.gguf", "towers"}, {"README.md", "text"},      {"m.imatrix.gguf", "counts"}};
  const Result<Pulled> pulled = pull(request(), console_);
  ASSERT_TRUE(pulled.ok()) << pulled.error().text;
  EXPECT_EQ(pulled->name, "org/repo");
  EXPECT_EQ(pulled->bytes, model_.size() + 6);
  EXPECT_EQ(pulled->fetched, pulled->bytes);
  const std::string snapshot = cache_ + "/models--org--repo/snapshots/" + kCommit;
  EXPECT_THAT(*list_directory(snapshot), ElementsAre("m-Q4_K_M.gguf", "mmproj-F16.gguf"));
  EXPECT_TRUE(std::filesystem::is_symlink(snapshot + "/m-Q4_K_M.gguf"));
  EXPECT_TRUE(std::filesystem::exists(cache_ + "/models--org--repo/blobs/" + hex_of(model_)));
  const Result<ModelFiles> files = find("org/repo");
  ASSERT_TRUE(files.ok()) << files.error().text;
  EXPECT_EQ(*read_file(files->path, 1 << 24), model_);
  EXPECT_THAT(files->projector, EndsWith("/mmproj-F16.gguf"));
  const Result<Pulled> again = pull(request(), console_);
  ASSERT_TRUE(again.ok()) << again.error().text;
  EXPECT_EQ(again->fetched, 0u);
  EXPECT_EQ(pull(request("q8_0"), console_)->name, "org/repo/m-Q8_0.gguf");
}

TEST_F(PullHub, ASplitModelComesWhole) {
  repository_ = {{"Q4_0/m-Q4_0-00001-of-00002.gguf", "one"}, {"Q4_0/m-Q4_0-00002-of-00002.gguf", "two"}};
  EXPECT_EQ(refusal(request("Q4_0")), "pulled");
  const std::string folder = cache_ + "/models--org--repo/snapshots/" + kCommit + "/Q4_0";
  EXPECT_EQ(*read_file(folder + "/m-Q4_0-00002-of-00002.gguf", 10), "two");
  repository_.erase("Q4_0/m-Q4_0-00002-of-00002.gguf");
  EXPECT_EQ(refusal(request("Q4_0")),
            "org/repo: Q4_0/m-Q4_0-00002-of-00002.gguf is missing: want all parts of the model");
}

TEST_F(PullHub, ADirectoryOfSafetensorsComesWhole) {
  repository_ = {{"config.json", "{}"},          {"model.safetensors", "weights"}, {"tokenizer.json", "{}"},
                 {"chat_template.jinja", "..."}, {"pytorch_model.bin", "pickle"},  {"onnx/model.onnx", "graph"}};
  PullRequest wanted = request();
  wanted.plain_files = true;
  wanted.folder = folder_.path("plain");
  const Result<Pulled> pulled = pull(wanted, console_);
  ASSERT_TRUE(pulled.ok()) << pulled.error().text;
  EXPECT_EQ(pulled->path, wanted.folder);
  EXPECT_THAT(*list_directory(wanted.folder),
              ElementsAre("chat_template.jinja", "config.json", "model.safetensors", "tokenizer.json"));
}

TEST_F(PullHub, AGatedRepositoryWantsAToken) {
  repository_ = {{"m-Q4_K_M.gguf", model_}};
  token_ = "hf_secret";
  EXPECT_THAT(refusal(request()), EndsWith("the server refuses it (status 401): want a repository that exists, and "
                                           "HF_TOKEN where its terms must be accepted (" +
                                           hub_.url("/org/repo") + ")"));
  setenv("HF_TOKEN", "hf_other", 1);
  EXPECT_THAT(refusal(request()), HasSubstr("want a token of somebody who has accepted its terms"));
  setenv("HF_TOKEN", "hf_secret", 1);
  EXPECT_EQ(refusal(request()), "pulled");
  for (const LocalRequest& asked : files_.requests()) EXPECT_FALSE(asked.headers.contains("authorization"));
  EXPECT_FALSE(files_.requests().empty());
}

TEST_F(PullHub, ALoginOfNetrcIsUsed) {
  repository_ = {{"m-Q4_K_M.gguf", model_}};
  const std::string netrc = folder_.path("netrc");
  ASSERT_TRUE(write_file(netrc, "machine 127.0.0.1 login me password secret\n"));
  setenv("NETRC", netrc.c_str(), 1);
  EXPECT_EQ(refusal(request()), "pulled");
  EXPECT_EQ(hub_.requests().front().headers.at("authorization"), "Basic bWU6c2VjcmV0");
}

TEST_F(PullHub, ABusyHubIsAskedAgainWhenItSays) {
  repository_ = {{"m-Q4_K_M.gguf", model_}};
  busy_ = 1;
  PullRequest wanted = request();
  wanted.options.retries = 1;
  EXPECT_EQ(refusal(wanted), "pulled");
  busy_ = 2;
  EXPECT_THAT(refusal(request()), EndsWith("the server fails (status 429)"));
}

TEST_F(PullHub, ACutFileGoesOnAndAWrongOneIsThrownAway) {
  repository_ = {{"m-Q4_K_M.gguf", model_}};
  cut_ = 500'000;
  EXPECT_THAT(refusal(request()), EndsWith("(500.0 kB are kept: the same command goes on from there)"));
  EXPECT_FALSE(find("org/repo").ok());
  const Result<Pulled> pulled = pull(request(), console_);
  ASSERT_TRUE(pulled.ok()) << pulled.error().text;
  EXPECT_EQ(pulled->bytes - pulled->fetched, 500'000u);
  std::filesystem::remove_all(cache_);
  lie_ = true;
  EXPECT_THAT(refusal(request()), EndsWith("; nothing of it is kept"));
  EXPECT_FALSE(find("org/repo").ok());
}

TEST_F(PullHub, WhatIsNotThereIsOneSentence) {
  repository_ = {{"m-Q4_K_M.gguf", "a"}, {"m-Q8_0.gguf", "b"}};
  EXPECT_EQ(refusal(request("Q2_K")),
            "org/repo: no model Q2_K: want one of org/repo/m-Q4_K_M.gguf, org/repo/m-Q8_0.gguf");
  repository_ = {{"README.md", "text"}};
  EXPECT_EQ(refusal(request()), "org/repo: no model: want config.json with safetensors, or a GGUF file");
}

TEST_F(PullHub, TheCommandTakesNamesAndPages) {
  repository_ = {{"m-Q4_K_M.gguf", model_}};
  setenv("HF_ENDPOINT", hub_.url("/").c_str(), 1);
  for (const char* name : {"org/repo", "hf.co/org/repo:Q4_K_M", "https://huggingface.co/org/repo"}) {
    const std::string to = folder_.path(std::to_string(name[0]) + std::to_string(std::string_view(name).size()));
    const ProgramResult result = run_sluice({"pull", name, "--to", to});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, StartsWith(to + "/m-Q4_K_M.gguf  "));
  }
  EXPECT_EQ(run_sluice({"pull", "what is this"}).status, 2);
}

TEST(HubListing, PathsThatWouldLeaveTheFolderAreLeftOut) {
  const std::string entry = R"(","size":1,"blobId":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"})";
  std::string text = cat(R"({"sha":")", kCommit, R"(","siblings":[)");
  for (const char* path : {"../a.gguf", "/etc/a.gguf", "a/../b.gguf", ".git/a.gguf", "a//b.gguf"})
    text += cat(R"({"rfilename":")", path, entry, ',');
  const Result<HubListing> listing = parse_hub_listing(cat(text, R"({"rfilename":"m.gguf)", entry, "]}"), "hub");
  ASSERT_TRUE(listing.ok()) << listing.error().text;
  ASSERT_EQ(listing->files.size(), 1u);
  EXPECT_EQ(listing->files[0].path, "m.gguf");
}

TEST(HubListing, OddAnswersAreOneSentence) {
  const auto refused = [](const std::string& text) { return parse_hub_listing(text, "hub").error().text; };
  EXPECT_THAT(refused("<html>"), StartsWith("hub: no JSON at byte"));
  for (const char* text : {"{}", "[]", R"({"sha":"main","siblings":[]})"})
    EXPECT_EQ(refused(text), "hub: no commit and files: want the hub's answer about a model");
  const std::string head = cat(R"({"sha":")", kCommit, R"(","siblings":[{"rfilename":"m.gguf")");
  for (const char* rest : {"}]}", R"(,"size":-1,"blobId":"b"}]})", R"(,"lfs":{"sha256":"../../x","size":1}}]})",
                           R"(,"size":1,"blobId":"/etc/passwd"}]})"}) {
    EXPECT_EQ(refused(head + rest), "hub: m.gguf has no size and digest: want both");
  }
}

}  // namespace
}  // namespace sluice
