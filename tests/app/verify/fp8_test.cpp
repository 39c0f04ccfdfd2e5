// A DeepSeek checkpoint in FP8, every expert a tensor of its own: the decoded numbers are those of a script that shares
// no code with Sluice, bit for bit, and the model holds to the reference device.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/files/file.h"
#include "base/json.h"
#include "base/text.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

const std::string kModel = std::string(SLUICE_TEST_DATA) + "/deepseek_v3";

// Blocks of 32 rows: a head has 32 of keys and 32 of values. 48 does not divide the columns.
class Fp8Checkpoint : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("python3 -c '' 2> /dev/null") != 0) GTEST_SKIP() << "no python3";
    const std::string make = cat("mkdir ", folder_.path("fp8"), " ", folder_.path("f32"),
                                 " && python3 tests/app/verify/make_fp8.py ", kModel, " ", fp8_, " ", f32_, " 32 48");
    ASSERT_EQ(std::system(make.c_str()), 0) << make;
  }
  std::string answer(const std::string& model, const char* device) {
    const ProgramResult result = run_sluice({"run", model, "Hello", "--raw", "--temperature", "0", "--arithmetic",
                                             "exact", "--max-tokens", "12", "--device", device, "--threads", "1"});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  }

  TemporaryFolder folder_;
  const std::string fp8_ = folder_.path("fp8/model"), f32_ = folder_.path("f32/model");
};

TEST_F(Fp8Checkpoint, IsTheDecodedNumbers) {
  std::string files[2];
  for (const char* name : {"fp8", "f32"}) {
    const std::string file = folder_.path(cat(name, ".gguf"));
    const ProgramResult result = run_sluice({"convert", folder_.path(cat(name, "/model")), file, "--to", "f32"});
    ASSERT_EQ(result.status, 0) << result.err;
    files[name == std::string("fp8") ? 0 : 1] = *read_file(file, 1 << 24);
  }
  EXPECT_TRUE(files[0] == files[1]);
  EXPECT_NE(answer(fp8_, "reference"), "");
  for (const char* device : {"reference", "cpu"}) EXPECT_EQ(answer(fp8_, device), answer(f32_, device)) << device;
}

TEST_F(Fp8Checkpoint, HoldsAndIsConverted) {
  const std::string q8_0 = folder_.path("q8_0.gguf");
  ASSERT_EQ(run_sluice({"convert", fp8_, q8_0, "--to", "q8_0"}).status, 0);
  for (const std::string& model : {fp8_, q8_0}) {
    const ProgramResult result =
        run_sluice({"verify", model, "--golden", kModel + "/golden.json", "--json", "--threads", "1"});
    const Result<Json> json = parse_json(result.out, "verify --json");
    ASSERT_TRUE(json) << result.err;
    EXPECT_EQ(json->find("missed")->as_integer(), 0) << result.out;
    EXPECT_EQ(json->find("held")->as_integer(), 12);
  }
}

}  // namespace
}  // namespace sluice
