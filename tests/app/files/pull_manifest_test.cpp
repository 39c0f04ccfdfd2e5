// Models of an Ollama registry, served on the loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "app/files/pull.h"
#include "base/files/file.h"
#include "checkpoint/places/ollama_store.h"
#include "checkpoint/places/places.h"
#include "tests/app/files/ollama_registry.h"
#include "tests/app/program.h"
#include "tests/app/run/terminal.h"

namespace sluice {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class PullManifest : public testing::Test, protected OllamaRegistry {
 protected:
  PullManifest() : store_(folder_.path("store")) {}

  PullRequest request(const std::string& tag = "e2b") const {
    return {.url = server_.url(cat(base(), "/manifests/", tag)),
            .sha256 = "",
            .folder = store_,
            .options = {.timeout_seconds = 20, .retries = 0}};
  }
  std::string refusal(const PullRequest& wanted) {
    const Result<Pulled> pulled = pull_manifest(wanted, console_);
    return pulled ? "pulled" : pulled.error().text;
  }
  std::string name() const { return cat(server_.host(), "/library/tiny:e2b"); }
  bool named() const { return find_model(name(), {{store_}, {}, {}}).ok(); }
  std::vector<std::string> blobs() const { return *list_directory(store_ + "/blobs"); }

  TemporaryFolder folder_;
  Console console_;
  const std::string store_;
};

TEST(PullUrl, AManifestIsKnownByItsPath) {
  EXPECT_TRUE(is_manifest_url("https://registry.ollama.ai/v2/library/gemma4/manifests/e2b"));
  EXPECT_TRUE(is_manifest_url("https://hf.co/v2/org/repo-GGUF/manifests/Q4_K_M?x=y"));
  for (const char* url : {"https://a/v2/library/gemma4/manifests/sha256:00", "https://a/v2/library/gemma4/manifests/",
                          "https://a/v2/gemma4/manifests/e2b", "https://a/v2/../gemma4/manifests/e2b",
                          "https://a/m.gguf", "m", "https://a/v2/library/gemma4/blobs/sha256:00",
                          "https://a/v2/a/b/c/manifests/d", "ftp://a/v2/b/c/manifests/d"}) {
    EXPECT_FALSE(is_manifest_url(url)) << url;
  }
}

TEST_F(PullManifest, AModelComesIntoAStoreAndIsFoundByName) {
  const std::string manifest = whole_manifest();
  serve_manifest(manifest);
  const Result<Pulled> pulled = pull_manifest(request(), console_);
  ASSERT_TRUE(pulled.ok()) << pulled.error().text;
  EXPECT_EQ(pulled->name, name());
  EXPECT_EQ(pulled->path, store_ + "/blobs/sha256-" + hex_of(model_));
  EXPECT_EQ(pulled->sha256, hex_of(manifest));
  EXPECT_GT(pulled->bytes, model_.size());
  EXPECT_EQ(pulled->fetched, pulled->bytes);
  EXPECT_EQ(blobs().size(), 4u);
  const Result<ModelFiles> files = find_model(name(), {{store_}, {}, {}});
  ASSERT_TRUE(files.ok()) << files.error().text;
  EXPECT_EQ(files->path, pulled->path);
  EXPECT_EQ(files->system, "Be brief.");
  EXPECT_EQ(*read_file(files->path, 1 << 24), model_);
}

TEST_F(PullManifest, FilesThatExistAreNotFetchedAgain) {
  serve_manifest(whole_manifest());
  ASSERT_EQ(refusal(request()), "pulled");
  const size_t before = server_.requests().size();
  const Result<Pulled> again = pull_manifest(request(), console_);
  ASSERT_TRUE(again.ok()) << again.error().text;
  EXPECT_EQ(again->fetched, 0u);
  EXPECT_EQ(server_.requests().size(), before + 1);  // the manifest
}

TEST_F(PullManifest, ADamagedBlobIsFetchedAnew) {
  serve_manifest(whole_manifest());
  ASSERT_EQ(refusal(request()), "pulled");
  const std::string path = store_ + "/blobs/sha256-" + hex_of(model_);
  std::string damaged = model_;
  damaged[1000] ^= 1;
  ASSERT_TRUE(write_file(path, damaged).ok());
  EXPECT_EQ(refusal(request()), "pulled");
  EXPECT_EQ(*read_file(path, 1 << 24), model_);
}

TEST_F(PullManifest, ABlobThatWasCutGoesOn) {
  serve_manifest(whole_manifest());
  cut_[blob_url_path(model_)] = 500'000;
  EXPECT_THAT(refusal(request()), EndsWith("(500.0 kB are kept: the same command goes on from there)"));
  EXPECT_FALSE(named());
  const Result<Pulled> pulled = pull_manifest(request(), console_);
  ASSERT_TRUE(pulled.ok()) << pulled.error().text;
  EXPECT_EQ(pulled->bytes - pulled->fetched, 500'000u);
  EXPECT_TRUE(named());
}

TEST_F(PullManifest, AWrongBlobNeverGetsAName) {
  serve_manifest(whole_manifest());
  std::string& served = served_[blob_url_path(model_)];
  served[1000] ^= 1;
  EXPECT_EQ(refusal(request()), cat(server_.url(blob_url_path(model_)), ": SHA-256 is ", hex_of(served), ": want ",
                                    hex_of(model_), "; nothing of it is kept"));
  EXPECT_FALSE(named());
  EXPECT_THAT(blobs(), IsEmpty());
}

TEST_F(PullManifest, ABlobOfAnotherLengthIsRefused) {
  serve_manifest(whole_manifest());
  served_[blob_url_path(model_)] = "short";
  EXPECT_EQ(refusal(request()),
            cat(server_.url(blob_url_path(model_)), ": the server has 5 bytes: want ", model_.size()));
  EXPECT_THAT(blobs(), IsEmpty());
}

TEST_F(PullManifest, TheManifestsOwnDigestIsHeld) {
  serve_manifest(whole_manifest());
  PullRequest wanted = request();
  wanted.sha256 = std::string(64, '0');
  EXPECT_EQ(refusal(wanted),
            cat(wanted.url, ": SHA-256 is ", hex_of(whole_manifest()), ": want ", std::string(64, '0')));
  EXPECT_FALSE(std::filesystem::exists(store_));
}

TEST_F(PullManifest, AListGivesItsFirstModel) {
  const std::string pieces = cat(R"({"layers":[)", entry("tensor", "piece"), "]}");
  const std::string whole = whole_manifest();
  const auto member = [&](const std::string& manifest) {
    served_[cat(base(), "/manifests/sha256:", hex_of(manifest))] = manifest;
    return cat(R"({"mediaType":"m","digest":"sha256:)", hex_of(manifest), R"(","size":)", manifest.size(), "}");
  };
  serve_manifest(cat(R"({"manifests":[)", member(pieces), ',', member(whole), "]}"));
  EXPECT_EQ(refusal(request()), "pulled");
  EXPECT_TRUE(named());
  serve_manifest(cat(R"({"manifests":[)", member(pieces), "]}"));
  EXPECT_EQ(refusal(request()), request().url + ": a list of 1 manifests, none of them with a GGUF model: want one");
}

TEST_F(PullManifest, AnythingButAManifestIsRefusedBeforeFilesAreFetched) {
  serve_manifest("<html>");
  EXPECT_THAT(refusal(request()), StartsWith(request().url + ": no JSON at byte"));
  serve_manifest(cat(R"({"layers":[)", entry("tensor", "piece"), "]}"));
  EXPECT_EQ(refusal(request()), request().url + ": a model without a GGUF file: want a model layer");
  serve_manifest(R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","size":5,)"
                 R"("digest":"sha256:../../../../../../../../../../../../../../../../../../../etc/cron.d/x"}]})");
  EXPECT_EQ(
      refusal(request()),
      request().url +
          ": digest sha256:../../../../../../../../../../../../../../../../../../../etc/cron.d/x: want sha256: and "
          "64 hexadecimal digits");
  EXPECT_EQ(refusal(request("none")), request("none").url + ": not on the server (status 404)");
  EXPECT_FALSE(std::filesystem::exists(store_));
}

// As somebody types it: the name alone, looked up at the address that a variable names.
TEST_F(PullManifest, TheCommandTakesAName) {
  serve_manifest(whole_manifest());
  setenv("SLUICE_OLLAMA_REGISTRY", server_.url("").c_str(), 1);
  setenv("OLLAMA_MODELS", store_.c_str(), 1);
  const ProgramResult pulled = run_sluice({"pull", "tiny:e2b"});
  EXPECT_EQ(pulled.err, "");
  EXPECT_THAT(pulled.out, StartsWith("tiny:e2b  1.2 MB  " + store_ + "/blobs/sha256-"));
  EXPECT_THAT(run_sluice({"list", "--names"}).out, HasSubstr("tiny:e2b\n"));
  const ProgramResult missing = run_sluice({"pull", "tiny:e4b"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_EQ(missing.err,
            "sluice: tiny:e4b: registry.ollama.ai has no such model (status 404): sluice list --online shows some that "
            "it has\n");
  unsetenv("SLUICE_OLLAMA_REGISTRY");
  unsetenv("OLLAMA_MODELS");
}

// At a terminal a missing model is offered with its size, the room there is, and its memory by its header.
TEST_F(PullManifest, RunOffersAModelThatIsNotHere) {
  serve_manifest(whole_manifest());
  setenv("SLUICE_OLLAMA_REGISTRY", server_.url("").c_str(), 1);
  setenv("OLLAMA_MODELS", store_.c_str(), 1);
  Terminal refused({"run", "tiny:e2b", "Hi", "--max-tokens", "2"});
  const std::string question = refused.wait_for("[y/N] ");
  EXPECT_THAT(question, HasSubstr("tiny:e2b: registry.ollama.ai has it, 1.2 MB, for " + store_));
  EXPECT_THAT(question, ContainsRegex("it takes [0-9.]+ MB of memory, of [0-9.]+ GB here"));
  refused.type("n\n");
  EXPECT_THAT(refused.wait_for("online\r\n"), HasSubstr("tiny:e2b: no file or model of that name on this machine"));
  EXPECT_EQ(refused.wait_for_end(), 1);
  EXPECT_FALSE(std::filesystem::exists(store_));
  Terminal taken({"run", "tiny:e2b", "Hi", "--max-tokens", "2"});
  taken.wait_for("[y/N] ");
  taken.type("y\n");
  EXPECT_EQ(taken.wait_for_end(), 0);
  EXPECT_TRUE(find_model("tiny:e2b", {{store_}, {}, {}}).ok());
  unsetenv("SLUICE_OLLAMA_REGISTRY");
  unsetenv("OLLAMA_MODELS");
}

}  // namespace
}  // namespace sluice
