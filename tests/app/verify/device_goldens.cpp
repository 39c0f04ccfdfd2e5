#include "tests/app/verify/device_goldens.h"

#include "base/json.h"
#include "base/text.h"
#include "tests/app/program.h"
#include "tests/small_models.h"

namespace sluice {

std::vector<GoldenParam> golden_params(const GoldenDevice& device) {
  std::vector<GoldenParam> params;
  // In the arithmetic in which other tests have the kernels compiled, where a device compiles them when it is asked.
  const std::pair<const char*, const char*> families[] = {
      {"gemma4_moe", "fast"}, {"qwen3_5_moe", "fast"}, {"deepseek_v3", "exact"}};
  for (const auto& [family, arithmetic] : families)
    params.push_back({.device = device,
                      .name = cat(family, "_short"),
                      .folders = {family},
                      .chosen = {"--cases", "short17", "--arithmetic", arithmetic},
                      .results = 1});
  for (const SmallModel& model : small_models()) {
    if (!model.weights_here) continue;
    std::vector<std::string> folders = {model.name};
    if (!model.tokenizer_of.empty()) folders.push_back(model.tokenizer_of);
    params.push_back({.device = device,
                      .name = model.name,
                      .folders = std::move(folders),
                      .results = 2 * (model.golden_held + model.golden_towers)});
  }
  return params;
}

std::string golden_name(const testing::TestParamInfo<GoldenParam>& info) { return info.param.name; }

// This program may have no such device.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceGoldens);

TEST_P(DeviceGoldens, Hold) {
  const GoldenParam& golden = GetParam();
  const std::string absent = golden.device.absent ? golden.device.absent() : "";
  if (!absent.empty()) GTEST_SKIP() << absent;
  std::vector<std::string> folders;
  for (const std::string& folder : golden.folders) folders.push_back(cat(SLUICE_TEST_DATA, "/", folder));
  const TemporaryFolder joined;
  const std::string path = folders.size() == 1 ? folders.front() : joined.links("model", folders);
  std::vector<std::string> words = {"verify", path, "--golden", path + "/golden.json", "--json"};
  const std::vector<std::string> chosen = golden.device.words();
  words.insert(words.end(), chosen.begin(), chosen.end());
  words.insert(words.end(), golden.chosen.begin(), golden.chosen.end());
  const ProgramResult result = run_sluice(words);
  const Result<Json> json = parse_json(result.out, "verify --json");
  ASSERT_TRUE(json) << result.err;
  EXPECT_EQ(result.status, 0) << result.out;
  EXPECT_EQ(json->find("missed")->as_integer(), 0) << result.out;
  EXPECT_EQ(json->find("held")->as_integer(), golden.results);
}

}  // namespace sluice
