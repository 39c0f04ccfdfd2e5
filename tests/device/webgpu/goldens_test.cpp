// The text goldens of the models in tests/data on the WebGPU device, as `sluice verify` holds them: all cases, and one
// of each family where time is short.
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/text.h"
#include "library.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

const std::string kData = SLUICE_TEST_DATA;

// Of a folder of a model and its golden: so many results, each a case in an arithmetic.
void expect_results(const std::string& path, const std::vector<std::string>& chosen, int64_t results) {
  if (webgpu_test_device() == nullptr) GTEST_SKIP() << "webgpu: no library or no GPU here: tools/fetch_webgpu.sh";
  std::vector<std::string> words = {"verify",   path,     "--golden",         path + "/golden.json", "--json",
                                    "--device", "webgpu", "--webgpu-library", webgpu_test_library()};
  words.insert(words.end(), chosen.begin(), chosen.end());
  const ProgramResult result = run_sluice(words);
  const Result<Json> json = parse_json(result.out, "verify --json");
  ASSERT_TRUE(json) << result.err;
  EXPECT_EQ(result.status, 0) << result.out;
  EXPECT_EQ(json->find("missed")->as_integer(), 0) << result.out;
  EXPECT_EQ(json->find("held")->as_integer(), results);
}
// All cases, in both arithmetics.
void expect_holds(const std::string& path, int64_t cases) { expect_results(path, {}, 2 * cases); }
// The smallest case that has intermediate values, too.
void expect_short_holds(const std::string& model, const char* arithmetic) {
  expect_results(cat(kData, "/", model), {"--cases", "short17", "--arithmetic", arithmetic}, 1);
}

// Of each family, in the arithmetic in which other tests have its kernels compiled.
TEST(WebGpuShortGoldens, Gemma4Moe) { expect_short_holds("gemma4_moe", "fast"); }
TEST(WebGpuShortGoldens, Qwen35Moe) { expect_short_holds("qwen3_5_moe", "fast"); }
TEST(WebGpuShortGoldens, DeepseekV3) { expect_short_holds("deepseek_v3", "exact"); }

TEST(WebGpuGoldens, Gemma4Dense) { expect_holds(kData + "/gemma4_dense", 6); }
TEST(WebGpuGoldens, Gemma4Moe) { expect_holds(kData + "/gemma4_moe", 6); }
TEST(WebGpuGoldens, Qwen35Moe) { expect_holds(kData + "/qwen3_5_moe", 6); }
TEST(WebGpuGoldens, DeepseekV3) { expect_holds(kData + "/deepseek_v3", 6); }

// Directories of MLX, whose tokenizers are those of the same models above.
TEST(WebGpuGoldens, Qwen35MoeOfMlx) {
  const TemporaryFolder folder;
  expect_holds(folder.links("mlx", {kData + "/qwen3_5_moe_mlx2", kData + "/qwen3_5_moe"}), 6);
}
TEST(WebGpuGoldens, DeepseekV3OfMlx) {
  const TemporaryFolder folder;
  expect_holds(folder.links("mlx", {kData + "/deepseek_v3_mlx4", kData + "/deepseek_v3"}), 6);
}

}  // namespace
}  // namespace sluice
