// list and pull as a shell sees them, over stores in a folder of the test's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "app/commands.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "tests/app/http_server.h"
#include "tests/app/json_fields.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string kMoe = SLUICE_TEST_DATA "/peer/gemma4_moe-bf16.gguf";

std::string hex_of(std::string_view content) {
  Sha256 sum;
  sum.add(content);
  return sum.finish_hex();
}

class PlacesCli : public testing::Test {
 protected:
  PlacesCli() {
    setenv("HOME", folder_.path().c_str(), 1);
    setenv("OLLAMA_MODELS", folder_.path("ollama").c_str(), 1);
    setenv("HF_HUB_CACHE", folder_.path("hub").c_str(), 1);
    setenv("no_proxy", "127.0.0.1", 1);
  }
  ~PlacesCli() override {
    setenv("HOME", home_.c_str(), 1);
    unsetenv("OLLAMA_MODELS");
    unsetenv("HF_HUB_CACHE");
  }

  std::string put(const std::string& name, std::string_view content) const {
    const std::string path = folder_.path(name);
    EXPECT_TRUE(make_folders(path.substr(0, path.rfind('/'))).ok());
    EXPECT_TRUE(write_file(path, content).ok());
    return path;
  }
  void put_ollama(const std::string& name, std::string_view model) const {
    const std::string hex = hex_of(model);
    put("ollama/blobs/sha256-" + hex, model);
    put("ollama/manifests/registry.ollama.ai/library/" + name,
        cat(R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:)", hex, R"(","size":)",
            model.size(), "}]}"));
  }

  const std::string home_ = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  TemporaryFolder folder_;
  const std::string model_ = *read_file(kMoe, 1 << 24);
};

TEST_F(PlacesCli, NoModelsIsNoFailure) {
  const ProgramResult result = run_sluice({"list"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "no models in Ollama's store, the Hugging Face cache and LM Studio's folders\n");
}

TEST_F(PlacesCli, ListShowsWhatRunsAndWhyNot) {
  put_ollama("tiny/moe", model_);
  put_ollama("cut/latest", model_.substr(0, model_.size() - 1000));
  put("ollama/manifests/registry.ollama.ai/library/broken/latest", "{");
  const std::string strange =
      put("hub/models--org--strange/snapshots/aaa/m.gguf",
          std::string("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 24) +
              std::string("\24\0\0\0\0\0\0\0general.architecture\10\0\0\0\3\0\0\0\0\0\0\0foo", 43));
  put(".lmstudio/models/org/repo/gemma-BF16.gguf", model_);
  const ProgramResult result = run_sluice({"list"});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::vector<std::string> lines = split(result.out, '\n');
  ASSERT_EQ(lines.size(), 7u) << result.out;
  EXPECT_THAT(lines[0], StartsWith("NAME "));
  EXPECT_THAT(lines[1], StartsWith("broken:latest "));
  EXPECT_THAT(lines[1], HasSubstr("does not run: " + folder_.path("ollama/manifests/")));
  EXPECT_THAT(lines[2], StartsWith("cut:latest "));
  EXPECT_THAT(lines[2], HasSubstr("want a file longer than"));
  EXPECT_THAT(lines[3], testing::MatchesRegex("tiny:moe +bf16 +1.2 MB +gemma4 +Ollama +runs"));
  EXPECT_THAT(lines[4], HasSubstr("foo"));
  EXPECT_THAT(lines[4], HasSubstr("does not run: " + strange));
  EXPECT_THAT(lines[5], testing::MatchesRegex("org/repo +bf16 +1.2 MB +gemma4 +LM Studio +runs"));
  std::set<std::string> seen;
  const ProgramResult json = run_sluice({"list", "--json"});
  expect_known_fields(*find_command("list"), *parse_json(json.out, "list"), seen);
  expect_all_fields(*find_command("list"), seen);
}

TEST_F(PlacesCli, CommandsTakeTheNamesOfList) {
  put_ollama("tiny/moe", model_);
  const ProgramResult inspected = run_sluice({"inspect", "tiny:moe"});
  EXPECT_EQ(inspected.status, 0) << inspected.err;
  EXPECT_THAT(inspected.out, HasSubstr("gemma4"));
  const ProgramResult answered = run_sluice({"run", "tiny:moe", "Hi", "--greedy", "--max-tokens", "3"});
  EXPECT_EQ(answered.status, 0) << answered.err;
  const ProgramResult missing = run_sluice({"run", "tiny", "Hi"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_EQ(missing.err, "sluice: tiny:latest: no such tag in " + folder_.path("ollama") + ": want one of tiny:moe\n");
}

TEST_F(PlacesCli, PullSaysWhatItFetched) {
  const HttpServer server([&](const ServerRequest& asked) { return file_reply(asked, model_, "\"one\""); });
  const ProgramResult result =
      run_sluice({"pull", server.url("/tiny.gguf"), "--to", folder_.path("new"), "--sha256", hex_of(model_)});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, cat(folder_.path("new/tiny.gguf"), "  1.2 MB  sha256:", hex_of(model_), "\n"));
  EXPECT_EQ(run_sluice({"inspect", folder_.path("new/tiny.gguf")}).status, 0);
  std::set<std::string> seen;
  const ProgramResult json = run_sluice({"pull", server.url("/b.gguf"), "--to", folder_.path("new"), "--json"});
  expect_known_fields(*find_command("pull"), *parse_json(json.out, "pull"), seen);
  expect_all_fields(*find_command("pull"), seen);
}

TEST_F(PlacesCli, AFailedPullIsStatusOneAndASentence) {
  const HttpServer server([](const ServerRequest&) { return ServerReply{404, {}, ""}; });
  const ProgramResult result = run_sluice({"pull", server.url("/m.gguf"), "--to", folder_.path()});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err, "sluice: " + server.url("/m.gguf") + ": not on the server (status 404)\n");
  const ProgramResult digest = run_sluice({"pull", server.url("/m.gguf"), "--sha256", "abc"});
  EXPECT_EQ(digest.status, 1);
  EXPECT_EQ(digest.err, "sluice: --sha256: found abc: want 64 hexadecimal digits, lower case\n");
}

}  // namespace
}  // namespace sluice
