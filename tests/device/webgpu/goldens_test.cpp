// The text goldens of the models in tests/data on the WebGPU device, all cases, as `sluice verify` holds them.
#include <gtest/gtest.h>

#include "base/json.h"
#include "library.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

const std::string kData = SLUICE_TEST_DATA;

// All cases of a folder of a model and its golden, in both arithmetics.
void expect_holds(const std::string& path, int64_t cases) {
  if (webgpu_test_device() == nullptr) GTEST_SKIP() << "webgpu: no library or no GPU here: tools/fetch_webgpu.sh";
  const ProgramResult result = run_sluice({"verify", path, "--golden", path + "/golden.json", "--json", "--device",
                                           "webgpu", "--webgpu-library", webgpu_test_library()});
  const Result<Json> json = parse_json(result.out, "verify --json");
  ASSERT_TRUE(json) << result.err;
  EXPECT_EQ(result.status, 0) << result.out;
  EXPECT_EQ(json->find("missed")->as_integer(), 0) << result.out;
  EXPECT_EQ(json->find("held")->as_integer(), 2 * cases);
}

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
