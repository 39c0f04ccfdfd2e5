// What `sluice plan` says of a GPU, and what is said afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "library.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

using testing::HasSubstr;

const std::string kMoe = std::string(SLUICE_TEST_DATA) + "/qwen3_5_moe";

class WebGpuPlans : public testing::Test {
 protected:
  void SetUp() override {
    if (webgpu_test_device() == nullptr) GTEST_SKIP() << "webgpu: no library or no GPU here: tools/fetch_webgpu.sh";
  }
  static ProgramResult sluice(std::vector<std::string> words, const std::vector<std::string>& more) {
    for (const char* word : {"--device", "webgpu", "--webgpu-library"}) words.emplace_back(word);
    words.push_back(webgpu_test_library());
    words.insert(words.end(), more.begin(), more.end());
    return run_sluice(words);
  }
  static Json plan(const std::vector<std::string>& more) {
    const ProgramResult planned = sluice({"plan", kMoe, "--context", "256", "--json"}, more);
    EXPECT_EQ(planned.status, 0) << planned.err;
    return *parse_json(planned.out, "plan");
  }
};

TEST_F(WebGpuPlans, SayTheLayoutAndTheSpeed) {
  const Json whole = plan({});
  EXPECT_FALSE(whole.find("experts")->find("streamed")->as_bool());
  EXPECT_GT(whole.find("dispatches_per_token")->as_integer(), 0);
  EXPECT_FALSE(whole.find("misses_played")->as_bool());
  EXPECT_NEAR(whole.find("tokens_per_second")->as_number() * whole.find("step_seconds")->as_number(), 1, 1e-9);
  int64_t on_device = whole.find("experts")->find("bytes")->as_integer(), on_host = 0;
  for (const Json& line : whole.find("memory")->as_array())
    (line.find("domain")->as_string() == "device" ? on_device : on_host) += line.find("bytes")->as_integer();
  EXPECT_EQ(on_device, whole.find("recommended_bytes")->as_integer());
  EXPECT_GT(on_host, 0);

  const Json part = plan({"--device-memory", "1500k"});
  EXPECT_TRUE(part.find("experts")->find("streamed")->as_bool());
  EXPECT_EQ(part.find("misses_played")->as_bool(), true);
  EXPECT_LT(part.find("hit_rate")->as_number(), 1);
  EXPECT_GT(part.find("tokens_per_second")->as_number(), 0);
}

TEST_F(WebGpuPlans, SayWhatDoesNotFit) {
  const ProgramResult refused = sluice({"plan", kMoe}, {"--device-memory", "1M"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.out, HasSubstr("not foreseen: it does not fit"));
  EXPECT_THAT(refused.err, HasSubstr("sluice: device memory: 1.0 MB in all: want at least "));
}

TEST_F(WebGpuPlans, AreHeldToWhatWasSeen) {
  const ProgramResult run = sluice({"run", kMoe, "hello", "--max-tokens", "3", "--context", "256", "--stats"}, {});
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.err, testing::ContainsRegex("\nplan    [0-9.]+ tokens/s foreseen, [0-9.]+ times that seen"));
  const ProgramResult bench = sluice({"bench", kMoe, "--prompt", "0", "--answer", "2", "--rounds", "1"}, {});
  EXPECT_EQ(bench.status, 0) << bench.err;
  EXPECT_THAT(bench.out, testing::ContainsRegex("\nplan    [0-9.]+ tokens/s foreseen, [0-9.]+ times that seen"));
}

}  // namespace
}  // namespace sluice
