#include "app/verify/golden.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/files/file.h"
#include "base/text.h"

namespace sluice {
namespace {

const std::string kModel = SLUICE_TEST_DATA "/gemma4_moe/";

// golden.json with this text, beside an empty safetensors file.
class GoldenFile : public testing::Test {
 protected:
  std::string error_of(std::string_view text) {
    const std::string path = cat(testing::TempDir(), getpid(), "_golden.json");
    EXPECT_TRUE(write_file(path, text));
    EXPECT_TRUE(
        write_file(cat(testing::TempDir(), getpid(), "_golden.safetensors"), std::string("\2\0\0\0\0\0\0\0{}", 10)));
    const Result<Golden> golden = Golden::open(path);
    if (golden) return "";
    const std::string& sentence = golden.error().text;
    return starts_with(sentence, path) ? sentence.substr(path.size()) : sentence;
  }

  std::string error_of_case(std::string_view members) {
    return error_of(cat(R"({"model": "m", "cases": [{"name": "a", "kind": "text", )", members, "}]}"));
  }
};

TEST(Golden, ReadsCasesAndTensors) {
  const Result<Golden> golden = Golden::open(kModel + "golden.json");
  ASSERT_TRUE(golden);
  EXPECT_EQ(golden->model(), "gemma4_moe");
  ASSERT_EQ(golden->cases().size(), 6u);
  const GoldenCase& short17 = golden->cases()[1];
  EXPECT_EQ(short17.name, "short17");
  EXPECT_EQ(short17.input_ids.size(), 17u);
  EXPECT_EQ(short17.positions, (std::vector<uint32_t>{0, 8, 16}));
  EXPECT_EQ(short17.greedy.size(), 32u);
  EXPECT_NEAR(*short17.perplexity, 128426.067, 1e-3);

  const Result<GoldenTensor> logits = golden->tensor(short17, "logits");
  ASSERT_TRUE(logits);
  ASSERT_EQ(logits->shape.size(), 2u);
  EXPECT_EQ(logits->shape[0], 3);
  EXPECT_EQ(logits->floats.size(), static_cast<size_t>(3 * logits->shape[1]));
  const Result<GoldenTensor> chosen = golden->tensor(short17, "layer.0.topk_index");
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->integers.size(), 17u * 2);
  EXPECT_EQ(golden->tensor(short17, "layer.9.q").error().text, "case short17: no tensor layer.9.q");
}

TEST(Golden, CasesThatCannotRunSayWhy) {
  EXPECT_EQ(reason_not_run("text"), std::nullopt);
  EXPECT_EQ(reason_not_run("image"), std::nullopt);
  EXPECT_EQ(reason_not_run("lora"), std::nullopt);
  EXPECT_EQ(reason_not_run("train"), std::nullopt);
  EXPECT_EQ(reason_not_run("dance"), "cases of kind dance are not known");
}

TEST_F(GoldenFile, EveryMistakeIsOneSentence) {
  EXPECT_EQ(error_of(R"({"cases": []})"), ": model is missing or of another kind: want a string");
  EXPECT_EQ(error_of(R"({"model": "m", "cases": {}})"), ": cases is missing or of another kind: want an array");
  EXPECT_EQ(error_of_case(R"("input_ids": [1, "x"])"),
            ": case a: input_ids is missing or of another kind: want an array of numbers");
  EXPECT_EQ(error_of_case(R"("input_ids": [])"),
            ": case a: input_ids is missing or of another kind: want at least one token");
  EXPECT_EQ(error_of_case(R"("input_ids": [3000000000])"),
            ": case a: input_ids is missing or of another kind: want an array of numbers");
  EXPECT_EQ(error_of_case(R"("input_ids": [1, 2], "positions": [1, 1])"),
            ": case a: positions[1] is 1: want ascending positions below 2");
  EXPECT_EQ(error_of_case(R"("input_ids": [1], "greedy": [1], "greedy_margin": [])"),
            ": case a: 0 greedy margins: want 1");
}

TEST_F(GoldenFile, CasesOfOtherKindsAreOnlyListed) {
  EXPECT_EQ(error_of(R"({"model": "m", "cases": [{"name": "t", "kind": "train", "input_ids": [[1]]}]})"), "");
}

}  // namespace
}  // namespace sluice
