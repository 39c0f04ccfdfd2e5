// The goldens of the models in tests/data on the WebGPU device, as `sluice verify` holds them.
#include <gtest/gtest.h>

#include "base/json.h"
#include "library.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

const std::string kData = SLUICE_TEST_DATA;

void expect_holds(const std::string& model, const std::string& cases, int64_t held) {
  if (webgpu_test_device() == nullptr) GTEST_SKIP() << "webgpu: no library or no GPU here: tools/fetch_webgpu.sh";
  const std::string path = kData + "/" + model;
  const ProgramResult result = run_sluice({"verify", path, "--golden", path + "/golden.json", "--json", "--cases",
                                           cases, "--device", "webgpu", "--webgpu-library", webgpu_test_library()});
  const Result<Json> json = parse_json(result.out, "verify --json");
  ASSERT_TRUE(json) << result.err;
  EXPECT_EQ(result.status, 0) << result.out;
  EXPECT_EQ(json->find("missed")->as_integer(), 0) << result.out;
  EXPECT_EQ(json->find("held")->as_integer(), held);
}

TEST(WebGpuGoldens, Gemma4Dense) { expect_holds("gemma4_dense", "short17", 2); }
TEST(WebGpuGoldens, Qwen35Moe) { expect_holds("qwen3_5_moe", "short17", 2); }

}  // namespace
}  // namespace sluice
