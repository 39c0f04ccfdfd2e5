// sluice convert --mmproj: towers in a file of their own, held to the goldens of pictures and sounds, and to the files
// of llama.cpp's converter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "tests/app/program.h"
#include "tests/reference_models.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

const std::string kData = SLUICE_TEST_DATA;
const std::string kDense = kData + "/gemma4_dense";

struct Written {
  std::string text, towers;
};

// The text part in bf16, which keeps it as it is.
Written converted(const TemporaryFolder& folder, const std::string& model) {
  Written written{folder.path("text.gguf"), folder.path("towers.gguf")};
  const ProgramResult result =
      run_sluice({"convert", model, written.text, "--to", "bf16", "--mmproj", written.towers, "--threads", "1"});
  EXPECT_EQ(result.status, 0) << result.err;
  return written;
}

// So many cases hold, in both arithmetics together.
void expect_holds(const Written& files, const std::string& golden, const std::string& cases, int64_t held) {
  SCOPED_TRACE(cat(golden, " ", cases));
  const ProgramResult result = run_sluice({"verify", files.text, "--mmproj", files.towers, "--golden", golden,
                                           "--cases", cases, "--threads", "1", "--json"});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  const Result<Json> json = parse_json(result.out, "verify --json");
  ASSERT_TRUE(json) << result.err;
  EXPECT_EQ(json->find("held")->as_integer(), held);
  EXPECT_EQ(json->find("missed")->as_integer(), 0);
}

TEST(ConvertTowers, PicturesGiveTheGoldensNumbers) {
  const TemporaryFolder folder;
  expect_holds(converted(folder, kDense), kDense + "/golden.json", "image", 2);
  const TemporaryFolder other;
  const std::string qwen = kData + "/qwen3_5_moe";
  expect_holds(converted(other, qwen), qwen + "/golden.json", "image", 2);
}

TEST(ConvertTowers, FullReferenceModels) {
  const std::string models = reference_models();
  if (models.empty())
    GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set: towers of gemma4, gemma4_towers, gemma4_unified and qwen3_5 "
                    "did not go through an mmproj file";
  struct Case {
    std::string model, golden, cases;
    int64_t held;
  };
  for (const Case& one : {Case{"gemma4", "golden", "image4", 2}, Case{"gemma4", "golden_audio", "audio2", 2},
                          Case{"gemma4_towers", "golden", "*", 12}, Case{"gemma4_unified", "golden", "*", 12},
                          Case{"qwen3_5", "golden", "image", 2}, Case{"qwen3_5", "golden_media", "*", 6}}) {
    const TemporaryFolder folder;
    const std::string model = cat(models, "/", one.model);
    expect_holds(converted(folder, model), cat(model, "/", one.golden, ".json"), one.cases, one.held);
  }
}

bool same_bytes(const StoredTensor& a, const StoredTensor& b) {
  const std::byte* const first = a.bytes.data();
  const std::byte* const second = b.bytes.data();
  return a.bytes.size() == b.bytes.size() && std::equal(first, first + a.bytes.size(), second);
}

TEST(ConvertTowers, TensorsAndKeysAreLlamaCpps) {
  const std::string models = reference_models();
  if (models.empty()) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set: no mmproj file of llama.cpp to compare with";
  for (const char* model : {"gemma4_dense", "qwen3_5", "qwen3_5_moe"}) {
    SCOPED_TRACE(model);
    const TemporaryFolder folder;
    const Checkpoint ours = unwrap(open_checkpoint(converted(folder, cat(models, "/", model)).towers));
    const Checkpoint theirs = unwrap(open_checkpoint(cat(models, "/peer/mmproj-", model, ".gguf")));
    EXPECT_EQ(ours.tensors().size(), theirs.tensors().size());
    for (const StoredTensor& tensor : theirs.tensors()) {
      const StoredTensor* own = ours.find(tensor.name);
      ASSERT_NE(own, nullptr) << tensor.name;
      EXPECT_EQ(own->shape, tensor.shape) << tensor.name;
      EXPECT_EQ(own->format, tensor.format) << tensor.name;
      EXPECT_TRUE(same_bytes(*own, tensor)) << tensor.name;
    }
    for (const auto& [name, value] : theirs.metadata().entries())
      if (starts_with(name, "clip.")) EXPECT_TRUE(ours.key(name) != nullptr && *ours.key(name) == value) << name;
  }
}

std::string refusal(const std::string& model, const std::string& text, const std::string& towers) {
  const ProgramResult result = run_sluice({"convert", model, text, "--to", "q8_0", "--mmproj", towers});
  EXPECT_EQ(result.status, text == towers ? 2 : 1);
  return result.err;
}

TEST(ConvertTowers, NothingIsWrittenUnlessBothFilesAre) {
  const TemporaryFolder folder;
  const std::string text = folder.path("text.gguf"), towers = folder.path("towers.gguf");
  EXPECT_THAT(refusal(kData + "/gemma4_moe", text, towers),
              EndsWith("gemma4_moe: has no tower to write: want a model that takes pictures or sounds\n"));
  EXPECT_THAT(refusal(kDense, text, text), HasSubstr("is the file of the text part: want another\n"));
  EXPECT_THAT(refusal(kDense, text, folder.path("none/towers.gguf")), HasSubstr("none/towers.gguf"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("")));
}

TEST(ConvertTowers, TheReportCountsWhatWasWritten) {
  const TemporaryFolder folder;
  const std::string text = folder.path("text.gguf"), towers = folder.path("towers.gguf");
  const auto report = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"convert", kDense, text, "--to", "q8_0", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return unwrap(parse_json(run_sluice(words).out, "convert --json"));
  };
  const Json alone = report({}), both = report({"--mmproj", towers});
  EXPECT_EQ(alone.find("left_out")->as_integer(), 31);
  EXPECT_EQ(both.find("left_out")->as_integer(), 0);
  EXPECT_EQ(both.find("tensors")->as_integer(), alone.find("tensors")->as_integer() + 31);
  EXPECT_EQ(both.find("files")->as_array().back().as_string(), towers);
}

}  // namespace
}  // namespace sluice
