// Models on the GPU whose experts do not all find room there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "library.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

using testing::HasSubstr;

const std::string kMoe = std::string(SLUICE_TEST_DATA) + "/qwen3_5_moe";

class WebGpuStreaming : public testing::Test {
 protected:
  void SetUp() override {
    if (webgpu_test_device() == nullptr) GTEST_SKIP() << "webgpu: no library or no GPU here: tools/fetch_webgpu.sh";
  }
  static ProgramResult run(std::vector<std::string> options) {
    std::vector<std::string> words = {
        "run",      kMoe,     "hello there",      "--max-tokens",       "6", "--context", "256",
        "--device", "webgpu", "--webgpu-library", webgpu_test_library()};
    words.insert(words.end(), options.begin(), options.end());
    return run_sluice(words);
  }
};

TEST_F(WebGpuStreaming, AnswersAsWithResidentExperts) {
  const ProgramResult resident = run({});
  ASSERT_EQ(resident.status, 0) << resident.err;
  const ProgramResult few = run({"--expert-memory", "64k", "--stats"});
  EXPECT_EQ(few.out, resident.out) << few.err;
  EXPECT_THAT(few.err, HasSubstr(" uses found in 5 slots for 64, "));
  EXPECT_EQ(run({"--device-memory", "3M"}).out, resident.out);
}

TEST_F(WebGpuStreaming, IsRefusedBelowTheFloor) {
  const ProgramResult refused = run({"--device-memory", "1M"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("sluice: device memory: 1.0 MB in all: want at least "));
  EXPECT_THAT(refused.err, HasSubstr(", at least 4 experts "));
}

}  // namespace
}  // namespace sluice
