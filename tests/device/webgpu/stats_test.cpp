// What `sluice run --stats` says about dispatches.
#include <gtest/gtest.h>

#include <cstdio>

#include "library.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

// A layer of Gemma 4 without embeddings of its own: products of queries, keys and values; their norms, turns and
// append; attention in parts and their merging; a product; norms and a sum; the gate's product; a product; norms and a
// sum.
TEST(WebGpuStats, CountDispatchesOfATokenAndALayer) {
  if (webgpu_test_device() == nullptr) GTEST_SKIP() << "webgpu: no library or no GPU here: tools/fetch_webgpu.sh";
  const std::string model = std::string(SLUICE_TEST_DATA) + "/gemma4_dense";
  const ProgramResult result = run_sluice({"run", model, "hi", "--max-tokens", "2", "--stats", "--device", "webgpu",
                                           "--webgpu-library", webgpu_test_library()});
  ASSERT_EQ(result.status, 0) << result.err;
  const size_t line = result.err.find("\nkernels ");
  ASSERT_NE(line, std::string::npos) << result.err;
  unsigned token = 0, pipelines = 0;
  double layer = 0;
  ASSERT_EQ(std::sscanf(result.err.c_str() + line, " kernels %u dispatches a token, %lf a layer; %u pipelines", &token,
                        &layer, &pipelines),
            3)
      << result.err;
  EXPECT_GT(token, layer);
  EXPECT_GT(layer, 0);
  EXPECT_LE(layer, 10);
  EXPECT_GT(pipelines, 0u);
}

}  // namespace
}  // namespace sluice
