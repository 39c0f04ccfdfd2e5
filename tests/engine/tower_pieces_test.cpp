// A tower on the processor: its ops take turns with the steps of other sequences, and change no bit by it.
#include "tests/engine/real_engine.h"
#include "tests/engine/shown_picture.h"

namespace sluice {
namespace {

constexpr uint32_t kBefore = 5, kTokens = 150;

struct Answers {
  Progress words, about_picture;
  size_t meanwhile = 0;  // tokens of the answer in words while the tower computed
};

bool is_done(const Progress& progress) { return progress.finish != Finish::running; }

// Progress since the last time, behind that before it.
void take(Progress now, Progress& all) {
  now.tokens.insert(now.tokens.begin(), all.tokens.begin(), all.tokens.end());
  now.logits.insert(now.logits.begin(), all.logits.begin(), all.logits.end());
  all = std::move(now);
}

Answers answers(const char* name, uint64_t piece_flops) {
  const Model& model = real_model(name);
  const RealDevice::Open open = [&](ThreadPool& pool) {
    return make_cpu_device({.pool = &pool, .piece_flops = piece_flops});
  };
  EngineOptions options;
  options.sequences = 2;
  RealEngine made(model, open, options);
  const ShownPicture shown = grey_picture(model, kBefore);
  unwrap(made.engine->give_media(shown.input));
  Request about = request_about(shown, 4);
  about.logits_at = {static_cast<uint32_t>(about.prompt.size()) - 1};
  const RequestId words = made.submit(words_request(20, kTokens)), picture = made.submit(about);
  Answers all;
  for (uint32_t steps = 0; steps < kMostSteps && !(is_done(all.words) && is_done(all.about_picture)); ++steps) {
    made.engine->step();
    if (!is_done(all.words)) take(made.collect(words), all.words);
    if (!is_done(all.about_picture)) take(made.collect(picture), all.about_picture);
    if (all.about_picture.computed_prompt_tokens == 0) all.meanwhile = all.words.tokens.size();
  }
  return all;
}

class TowerInPieces : public testing::TestWithParam<const char*> {};

TEST_P(TowerInPieces, LetsOtherAnswersGoOn) {
  const Answers whole = answers(GetParam(), UINT64_MAX), pieces = answers(GetParam(), 1);
  EXPECT_LE(whole.meanwhile, 3u);
  EXPECT_GE(pieces.meanwhile, 20u);  // the tower has more ops than that
  EXPECT_EQ(whole.words.tokens.size(), kTokens);
  EXPECT_TRUE(same_bits(whole.words, pieces.words));
  EXPECT_TRUE(same_bits(whole.about_picture, pieces.about_picture));
  EXPECT_FALSE(pieces.about_picture.logits.empty());
}

INSTANTIATE_TEST_SUITE_P(Families, TowerInPieces, testing::Values("gemma4_dense", "qwen3_5_moe"), real_model_name);

}  // namespace
}  // namespace sluice
