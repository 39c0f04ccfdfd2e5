// Examples that show pictures: their loss is that of transformers' logits, and they are learnt. Two seconds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "app/verify/golden.h"
#include "app/verify/verify_media.h"
#include "base/files/file.h"
#include "base/text.h"
#include "device/cpu/cpu.h"
#include "model/adapters/new_adapter.h"
#include "tests/app/program.h"
#include "tests/unwrap.h"
#include "train/trainer.h"

namespace sluice {
namespace {

using testing::HasSubstr;

// Of the token that follows each of the golden's positions; behind the last one, token 5.
struct Expected {
  TrainSequence sequence;
  double loss = 0;
};
Expected expected(const Golden& golden, const GoldenCase& one, const CaseMedia& shown) {
  Expected made;
  made.sequence.tokens = one.input_ids;
  made.sequence.tokens.push_back(5);
  made.sequence.is_target.resize(made.sequence.tokens.size());
  for (size_t i = 0; i < shown.spans.size(); ++i)
    made.sequence.media.push_back({.span = shown.spans[i], .input = shown.media[i].input});
  const GoldenTensor logits = unwrap(golden.tensor(one, "logits"));
  const size_t width = logits.floats.size() / one.positions.size();
  for (size_t row = 0; row < one.positions.size(); ++row) {
    const size_t next = one.positions[row] + 1;
    made.sequence.is_target[next] = 1;
    const float* const at = logits.floats.data() + row * width;
    double sum = 0;
    for (size_t i = 0; i < width; ++i) sum += std::exp(double{at[i]});
    made.loss += std::log(sum) - at[made.sequence.tokens[next]];
  }
  return made;
}

TEST(TrainOnPictures, TheLossIsThatOfTheGoldensLogits) {
  const TemporaryFolder folder;
  ThreadPool pool(2);
  const std::unique_ptr<Device> device = make_cpu_device({.pool = &pool});
  for (const char* name : {"gemma4_dense", "qwen3_5_moe"}) {
    SCOPED_TRACE(name);
    const std::string files = cat(SLUICE_TEST_DATA, "/", name);
    const Model model = unwrap(resolve(std::make_shared<const Checkpoint>(unwrap(open_checkpoint(files)))));
    const Golden golden = unwrap(Golden::open(files + "/golden.json"));
    const GoldenCase& one = *std::ranges::find(golden.cases(), "image", &GoldenCase::name);
    const CaseMedia shown = unwrap(open_case_media(model, golden, one, {}));
    const Expected want = expected(golden, one, shown);
    NewAdapter made = unwrap(new_adapter(model, {.rank = 2}));  // adds nothing yet
    unwrap(write_adapter(folder.path(name), made.config, made.tensors));
    Budget budget;
    const std::unique_ptr<TrainedFactors> factors =
        unwrap(TrainedFactors::create(unwrap(Adapter::open(model, folder.path(name))), model.weights(), pool, budget));
    const std::unique_ptr<Trainer> trainer =
        unwrap(Trainer::create(model, *factors, *device, budget, {want.sequence}, {.arithmetic = Arithmetic::exact}));
    const double targets = static_cast<double>(one.positions.size());
    EXPECT_NEAR(unwrap(trainer->step()).loss, want.loss / targets, 1e-4);
  }
}

TEST(TrainOnPictures, TheDemoLearnsWhatAPictureShows) {
  const TemporaryFolder folder;
  const std::string picture = std::filesystem::absolute(cat(SLUICE_TEST_DATA, "/gemma4/picture1.png"));
  unwrap(write_file(
      folder.path("data.jsonl"),
      cat(R"({"messages": [{"role": "user", "content": [{"type": "image"}, {"type": "text", )",
          R"("text": "What is it?"}]}, {"role": "assistant", "content": "A blorptrix."}], )", R"("images": [")",
          picture, "\"]}\n", R"({"messages": [{"role": "user", "content": [{"type": "image", "image": "a.png"}]}, )",
          R"({"role": "assistant", "content": "A."}]})", "\n")));
  const ProgramResult trained = run_sluice({"train", "demo", folder.path("data.jsonl"), "--out", folder.path("out"),
                                            "--steps", "25", "--epochs", "25", "--rate", "4e-3"});
  EXPECT_EQ(trained.status, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("a.png: cannot open"));
  const ProgramResult asked = run_sluice(
      {"run", "demo", "--adapter", folder.path("out"), "--image", picture, "--temperature", "0", "What is it?"});
  EXPECT_THAT(asked.out, HasSubstr("blorptrix")) << asked.err;
}

}  // namespace
}  // namespace sluice
