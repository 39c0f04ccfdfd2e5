// Gradients of whole models, every op of the families among them, against finite differences of the f64 reference
// device; and what training promises on the CPU. Some seconds.
#include <gtest/gtest.h>

#include <cmath>

#include "base/threads.h"
#include "chat/media_parts.h"
#include "device/cpu/cpu.h"
#include "device/reference/reference.h"
#include "tests/model/tiny_model.h"
#include "tests/train/trained_model.h"
#include "tests/unwrap.h"
#include "train/media_rows.h"

namespace sluice {
namespace {

// Directional derivatives: every element of every factor takes part in each.
void expect_derivatives(TrainedModel& trained, TrainingStep& step, const std::vector<BatchPart>& batch) {
  loss_of(step, batch);
  const std::vector<std::vector<float>> gradients = trained.gradients();
  const std::vector<StoredFactor> start(trained.factors->tensors().begin(), trained.factors->tensors().end());
  constexpr double kStep = 2.5e-4;  // with larger ones a router chooses other experts
  for (uint32_t direction = 0; direction < 2; ++direction) {
    double foretold = 0;
    const auto loss_at = [&](double distance) {
      for (uint32_t t = 0; t < start.size(); ++t)
        for (uint32_t i = 0; i < start[t].numbers.size(); ++i)
          trained.factors->tensors()[t].numbers[i] =
              start[t].numbers[i] + static_cast<float>(distance * drawn(1000 * (direction + 1) + t, i));
      trained.factors->lay_out();
      return loss_of(step, batch);
    };
    for (uint32_t t = 0; t < start.size(); ++t)
      for (uint32_t i = 0; i < start[t].numbers.size(); ++i)
        foretold += double{gradients[t][i]} * drawn(1000 * (direction + 1) + t, i);
    const double found = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
    // The losses are read as f32: errors of some 1e-7, divided by the step.
    EXPECT_NEAR(foretold, found, 1e-3 * std::max(1.0, std::abs(found))) << "direction " << direction;
  }
}

void expect_derivatives(const std::string& folder) {
  SCOPED_TRACE(folder);
  TrainedModel trained(folder);
  const std::unique_ptr<Device> device = make_reference_device_f64();
  const std::unique_ptr<TrainingStep> step = trained.step(*device);
  const TrainSequence one = drawn_sequence(trained.model, 1, kTokens), other = drawn_sequence(trained.model, 2, 6);
  expect_derivatives(trained, *step, {{.sequence = &one, .share = 0.25f}, {.sequence = &other, .share = -0.5f}});
}

// A picture behind three tokens, before the others.
TrainSequence sequence_with_picture(const Model& model) {
  Picture picture{.width = 96, .height = 64, .pixels = {}};
  for (uint32_t i = 0; i < 3 * 96 * 64; ++i) picture.pixels.push_back(static_cast<uint8_t>(255 * (drawn(50, i) + 0.5)));
  const PreparedMedia media = unwrap(prepare_media(model, picture));
  TrainSequence made = drawn_sequence(model, 3, kTokens);
  constexpr uint32_t kAt = 3;
  made.tokens.insert(made.tokens.begin() + kAt, media.rows(), media.tokens.row);
  made.is_target.insert(made.is_target.begin() + kAt, media.rows(), uint8_t{0});
  made.media.push_back({.span = {.at = kAt, .rows = media.rows(), .content = media.input.content, .shape = media.shape},
                        .input = media.input});
  return made;
}

TEST(Gradients, OfEveryFamilyAreFiniteDifferences) {
  for (const char* model : {"gemma4_dense", "gemma4_moe", "qwen3_5_moe", "deepseek_v3"})
    expect_derivatives(cat(SLUICE_TEST_DATA, "/", model));
}

// Rows of a picture that see one another, and rows that count by time, height and width.
TEST(Gradients, BehindPicturesAreFiniteDifferences) {
  for (const char* name : {"gemma4_dense", "qwen3_5_moe"}) {
    SCOPED_TRACE(name);
    TrainedModel trained(cat(SLUICE_TEST_DATA, "/", name));
    const std::unique_ptr<Device> device = make_reference_device_f64();
    const TrainSequence shows = sequence_with_picture(trained.model), text = drawn_sequence(trained.model, 2, 6);
    const TrainMedia* const media = shows.media.data();
    const std::unique_ptr<MediaRows> rows =
        unwrap(MediaRows::compute(trained.model, *device, trained.budget, Arithmetic::exact, {&media, 1}));
    const auto most = static_cast<uint32_t>(shows.tokens.size() + text.tokens.size());
    const std::unique_ptr<TrainingStep> step =
        unwrap(TrainingStep::create(trained.model, *trained.factors, *device, trained.budget,
                                    {.arithmetic = Arithmetic::exact,
                                     .size = {.rows = most, .targets = most, .sequences = 2, .shows_media = true},
                                     .media = rows.get()}));
    expect_derivatives(trained, *step, {{.sequence = &text, .share = -0.5f}, {.sequence = &shows, .share = 0.25f}});
  }
}

// Per-layer inputs, and layers that read the keys and values of earlier ones.
class SharedKeys : public tests::TinyModel {};
TEST_F(SharedKeys, GradientsAreFiniteDifferences) {
  put_model(tests::like_e4b());
  expect_derivatives(folder_);
}

// The gradients of a model on the processor, by kept layers, and the number of ops that make them.
struct Kept {
  std::vector<std::vector<float>> gradients;
  size_t ops = 0;
};
Kept keep_layers(const std::string& folder, uint32_t kept_layers) {
  TrainedModel trained(folder);
  const std::unique_ptr<Device> device = make_cpu_device({.pool = &trained.pool});
  const std::unique_ptr<TrainingStep> step = trained.step(*device, Arithmetic::fast, kept_layers);
  const TrainSequence one = drawn_sequence(trained.model, 1, kTokens), other = drawn_sequence(trained.model, 2, 6);
  loss_of(*step, {{.sequence = &one}, {.sequence = &other}});
  return {trained.gradients(), step->program().ops.size()};
}

void expect_same_with_kept_layers(const std::string& folder) {
  SCOPED_TRACE(folder);
  const Kept none = keep_layers(folder, 0), two = keep_layers(folder, 2), all = keep_layers(folder, 1000);
  EXPECT_EQ(two.gradients, none.gradients);
  EXPECT_EQ(all.gradients, none.gradients);
  EXPECT_LT(two.ops, none.ops);
  EXPECT_LT(all.ops, two.ops);
}

TEST(Training, KeptLayersChangeNothing) {
  for (const char* name : {"gemma4_dense", "gemma4_moe", "qwen3_5_moe", "deepseek_v3"})
    expect_same_with_kept_layers(cat(SLUICE_TEST_DATA, "/", name));
}

TEST_F(SharedKeys, KeptLayersChangeNothing) {
  put_model(tests::like_e4b());
  expect_same_with_kept_layers(folder_);
}

TEST(Training, ThreadsAndPartsOfABatchChangeNothing) {
  for (const char* name : {"qwen3_5_moe", "deepseek_v3", "gemma4_moe"}) {
    SCOPED_TRACE(name);
    std::vector<std::vector<std::vector<float>>> found;
    for (const uint32_t threads : {1u, 3u}) {
      TrainedModel trained(cat(SLUICE_TEST_DATA, "/", name));
      ThreadPool pool(threads);
      const std::unique_ptr<Device> device = make_cpu_device({.pool = &pool});
      const std::unique_ptr<TrainingStep> step = trained.step(*device, Arithmetic::fast);
      const TrainSequence one = drawn_sequence(trained.model, 1, kTokens), other = drawn_sequence(trained.model, 2, 6);
      loss_of(*step, {{.sequence = &one}, {.sequence = &other}});
      found.push_back(trained.gradients());
      if (threads != 1) continue;
      trained.factors->clear_gradients();
      loss_of(*step, {{.sequence = &one}});
      loss_of(*step, {{.sequence = &other}});
      for (size_t t = 0; t < found.front().size(); ++t)
        for (size_t i = 0; i < found.front()[t].size(); ++i)
          ASSERT_NEAR(trained.gradients()[t][i], found.front()[t][i], 1e-5f) << t;
    }
    EXPECT_EQ(found[0], found[1]) << "one thread and three";
  }
}

}  // namespace
}  // namespace sluice
