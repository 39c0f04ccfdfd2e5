// Training steps on the WebGPU device. Some 20 s a family where kernels are compiled for a processor.
#include <gtest/gtest.h>

#include <cmath>

#include "device/reference/reference.h"
#include "library.h"
#include "tests/train/trained_model.h"

namespace sluice {
namespace {

// In relative norm, of each factor.
void expect_same_gradients(const std::vector<std::vector<float>>& found, const std::vector<std::vector<float>>& want) {
  ASSERT_EQ(found.size(), want.size());
  for (size_t t = 0; t < want.size(); ++t) {
    double off = 0, all = 0;
    for (size_t i = 0; i < want[t].size(); ++i) {
      off += std::pow(double{found[t][i]} - double{want[t][i]}, 2);
      all += std::pow(double{want[t][i]}, 2);
    }
    EXPECT_LE(std::sqrt(off), 1e-4 * std::sqrt(all)) << "factor " << t;
  }
}

class WebGpuTraining : public testing::TestWithParam<const char*> {};

// The second run has other factors, which the device must have taken.
TEST_P(WebGpuTraining, GradientsAreThoseOfTheReferenceDevice) {
  if (webgpu_test_device() == nullptr) GTEST_SKIP() << "webgpu: no library or no GPU here: tools/fetch_webgpu.sh";
  TrainedModel trained(std::string(SLUICE_TEST_DATA) + "/" + GetParam());
  const std::unique_ptr<Device> reference = make_reference_device_f64();
  const std::unique_ptr<TrainingStep> oracle = trained.step(*reference), step = trained.step(*webgpu_test_device());
  const TrainSequence one = drawn_sequence(trained.model, 1, kTokens), other = drawn_sequence(trained.model, 2, 6);
  const std::vector<BatchPart> batch = {{.sequence = &one, .share = 0.25f}, {.sequence = &other, .share = -0.5f}};
  for (uint32_t round = 0; round < 2; ++round) {
    SCOPED_TRACE(round);
    trained.factors->clear_gradients();
    const double want = loss_of(*oracle, batch);
    const std::vector<std::vector<float>> gradients = trained.gradients();
    trained.factors->clear_gradients();
    EXPECT_NEAR(loss_of(*step, batch), want, 1e-4);
    expect_same_gradients(trained.gradients(), gradients);
    for (StoredFactor& factor : trained.factors->tensors())
      for (float& number : factor.numbers) number *= 0.5f;
    trained.factors->lay_out();
  }
}

INSTANTIATE_TEST_SUITE_P(Families, WebGpuTraining,
                         testing::Values("gemma4_dense", "gemma4_moe", "qwen3_5_moe", "deepseek_v3"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace sluice
