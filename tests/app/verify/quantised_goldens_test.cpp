// Quantised files that llama.cpp wrote, through `sluice verify`. The anchors are not ours: how far the golden is from
// the same weights computed without rounding activations, by another implementation.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "tests/app/program.h"
#include "tests/reference_models.h"

namespace sluice {
namespace {

// verify's report on peer/FILE against the golden of `model`; null when the reference models are not there.
Json verified(const std::string& file, const std::string& model, const char* arithmetic) {
  const std::string folder = reference_models();
  if (folder.empty()) return {};
  const ProgramResult result =
      run_sluice({"verify", cat(folder, "/peer/", file), "--golden", cat(folder, "/", model, "/golden.json"),
                  "--arithmetic", arithmetic, "--json", "--threads", "1"});
  EXPECT_EQ(result.status, 0) << result.err << result.out;
  const Result<Json> json = parse_json(result.out, "verify --json");
  EXPECT_TRUE(json) << result.err;
  return json ? *json : Json();
}

void expect_mean_kl(const Json& report, double anchor) {
  if (report.is_null()) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set: a quantised demo was not verified";
  const Json& run = report.find("runs")->as_array()[0];
  EXPECT_EQ(run.find("mean_kl_cases")->as_integer(), 11);
  EXPECT_NEAR(run.find("mean_kl")->as_number() / anchor, 1.0, 0.02);
}

TEST(Goldens, PeersQ4KMOfTheDemoMissesTheGoldenByAsMuchAsItsWeightsDo) {
  expect_mean_kl(verified("gemma4-q4_k_m.gguf", "gemma4", "exact"), 8.57e-3);
}

TEST(Goldens, PeersQ6KOfTheDemoMissesTheGoldenByAsMuchAsItsWeightsDo) {
  expect_mean_kl(verified("gemma4-q6_k.gguf", "gemma4", "exact"), 1.195e-3);
}

// Rows of 32-blocks that stand in for 256-blocks (q5_0, q8_0), against the reference device.
TEST(Goldens, PeersQ4KMOfRandomModelsHolds) {
  for (const auto& [model, held] : {std::pair("gemma4_dense", 14), std::pair("gemma4_moe", 12)}) {
    const Json report = verified(cat(model, "-q4_k_m.gguf"), model, "both");
    if (report.is_null()) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set: quantised models were not verified";
    EXPECT_EQ(report.find("missed")->as_integer(), 0) << model;
    EXPECT_EQ(report.find("held")->as_integer(), held) << model;
  }
}

}  // namespace
}  // namespace sluice
