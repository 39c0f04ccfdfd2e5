// Drafting by a model's own head gives exactly the tokens without drafts. A good head's drafts are mostly accepted.
#include "engine/draft/drafts.h"
#include "engine/engine_impl.h"
#include "engine/plan/memory_plan.h"
#include "tests/engine/draft/first_guesses.h"
#include "tests/engine/real_engine.h"
#include "tests/model/draft_checkpoint.h"
#include "tests/small_models.h"

namespace sluice {
namespace {

Result<Model> open_folder(const std::string& path) {
  TRY(Checkpoint checkpoint, open_checkpoint(path));
  return resolve(std::make_shared<const Checkpoint>(std::move(checkpoint)));
}

struct Engines {
  Engines(const std::string& base, const std::string& name, const tests::DraftCheckpoint::Values& values)
      : files(base, name, values), model(open_folder(files.path())) {
    EXPECT_TRUE(model) << model.error().text;
  }
  std::unique_ptr<Engine> engine(const EngineOptions& options) {
    return unwrap(Engine::create(*model, *machine.device, budget, options));
  }

  tests::DraftCheckpoint files;
  Result<Model> model;
  RealDevice machine{"cpu", 1};
  Budget budget;
};

EngineOptions options(DraftKind kind, uint32_t sequences = 1) {
  EngineOptions options;
  options.arithmetic = Arithmetic::exact;
  options.context = 512;
  options.prompt_chunk = 64;
  options.sequences = sequences;
  options.draft = {.kind = kind, .tokens = 4, .always = true};
  return options;
}

Request request(size_t tokens, int32_t seed, uint32_t max_tokens) {
  Request request;
  for (size_t i = 0; i < tokens; ++i)
    request.prompt.push_back(static_cast<int32_t>((i * i + 7 * i + static_cast<size_t>(seed) * 31) % 768));
  request.max_tokens = max_tokens;
  request.sampling.temperature = seed % 2 == 0 ? 0.0f : 0.7f;
  request.sampling.repeat_penalty = seed % 3 == 0 ? 1.1f : 1.0f;
  request.sampling.seed = static_cast<uint64_t>(seed);
  request.sampling.candidates = kCandidates;
  return request;
}

Progress answer(Engine& engine, const Request& request) {
  const RequestId id = unwrap(engine.submit(request));
  run_until_idle(engine);
  return unwrap(engine.collect(id));
}

class DraftHeadEngine : public ::testing::TestWithParam<const char*> {};

TEST_P(DraftHeadEngine, IsCountedByThePlan) {
  Engines engines(GetParam(), cat(GetParam(), "_draft_plan"), tests::nothing_replaced);
  const EngineOptions how = options(DraftKind::both);
  const Result<MemoryPlan> plan = plan_memory(*engines.model, weight_files(*engines.model), *engines.machine.device,
                                              engines.budget, UINT64_MAX, how);
  ASSERT_TRUE(plan) << plan.error().text;
  uint64_t planned = plan->experts.bytes, planned_staging = 0, held = 0, held_staging = 0;
  for (const MemoryLine& line : plan->lines)
    (line.purpose == Purpose::staging ? planned_staging : planned) += line.bytes;
  const std::unique_ptr<Engine> engine = engines.engine(how);
  for (const BudgetLine& line : engines.budget.lines())
    (line.purpose == Purpose::staging ? held_staging : held) += line.bytes;
  EXPECT_EQ(planned, held);
  EXPECT_GE(planned_staging, held_staging);
}

// Answers of three at once.
void expect_same_answers(Engines& engines, DraftKind kind) {
  const std::unique_ptr<Engine> plain = engines.engine(options(DraftKind::none));
  const std::unique_ptr<Engine> drafting = engines.engine(options(kind, 3));
  std::vector<RequestId> ids;
  std::vector<Request> asked;
  for (int32_t i = 0; i < 4; ++i) {
    asked.push_back(request(20 + 45 * static_cast<size_t>(i), i, 200));
    ids.push_back(*drafting->submit(asked.back()));
  }
  run_until_idle(*drafting);
  for (size_t i = 0; i < ids.size(); ++i)
    EXPECT_TRUE(same_bits(*drafting->collect(ids[i]), answer(*plain, asked[i]))) << i;
  EXPECT_GT(drafting->stats().drafted, 200u);
}

TEST_P(DraftHeadEngine, ARandomHeadChangesNoAnswer) {
  Engines engines(GetParam(), cat(GetParam(), "_draft_random"), tests::nothing_replaced);
  expect_same_answers(engines, DraftKind::mtp);
}

TEST_P(DraftHeadEngine, DraftsOfAHeadThatPredictsTheTextAreAccepted) {
  Engines engines(GetParam(), cat(GetParam(), "_draft_counting"), tests::counting);
  const std::unique_ptr<Engine> plain = engines.engine(options(DraftKind::none));
  const std::unique_ptr<Engine> drafting = engines.engine(options(DraftKind::mtp));
  Request asked = request(70, 2, 300);
  EXPECT_TRUE(same_bits(answer(*drafting, asked), answer(*plain, asked)));
  const EngineStats stats = drafting->stats();
  EXPECT_GT(stats.drafted, 200u);
  EXPECT_GE(static_cast<double>(stats.accepted), 0.9 * static_cast<double>(stats.drafted));
  EXPECT_LT(drafting->stats().steps, 80u) << "some five tokens a step";
}

// 0.1 s a family.
TEST_P(DraftHeadEngine, ChangesNoAnswerBesideNgrams) {
  Engines engines(GetParam(), cat(GetParam(), "_draft_both"), tests::counting);
  expect_same_answers(engines, DraftKind::both);
}

// A text of 16 tokens again and again, which the model would not write: n-grams foretell it, the head does not. 0.1 s a
// family.
TEST_P(DraftHeadEngine, LeavesGuessingToNgramsThatAreRightMoreOften) {
  Engines engines(GetParam(), cat(GetParam(), "_draft_surer"), tests::nothing_replaced);
  Request asked = request(16, 2, 0);
  for (int32_t i = 0; i < 160; ++i) asked.recorded.push_back(asked.prompt[static_cast<size_t>(i) % 16]);
  asked.max_tokens = static_cast<uint32_t>(asked.recorded.size());
  const auto share_right = [&](DraftKind kind) {
    const Progress ended = answer(*engines.engine(options(kind)), asked);
    EXPECT_EQ(ended.tokens.size(), asked.recorded.size());
    return static_cast<double>(ended.accepted) / ended.drafted;
  };
  EXPECT_LT(share_right(DraftKind::mtp), 0.2);
  EXPECT_GT(share_right(DraftKind::both), 0.8);
}

// Every token may come at first, and drafts may reach so far; then the multiples of three.
class FreeAtFirst final : public Constraint {
 public:
  explicit FreeAtFirst(size_t free) : free_(free), bits_(mask_words(kVocabulary)) {
    for (uint32_t token = 0; token < kVocabulary; token += 3) bits_[token / 32] |= 1U << (token % 32);
  }
  Result<std::span<const uint32_t>> mask() override {
    return free_ > 0 ? std::span<const uint32_t>() : std::span<const uint32_t>(bits_);
  }
  std::optional<size_t> free_guesses(std::span<const int32_t> guesses) const override {
    return free_ == 0 ? 0 : std::min(guesses.size(), free_ - 1);
  }
  bool accept(int32_t token) override { return free_ == 0 ? token % 3 == 0 : free_-- > 0; }

 private:
  static constexpr uint32_t kVocabulary = 768;
  size_t free_;
  std::vector<uint32_t> bits_;
};

// 0.1 s a family.
TEST_P(DraftHeadEngine, DraftsAsFarAsAConstraintIsFree) {
  Engines engines(GetParam(), cat(GetParam(), "_draft_free"), tests::counting);
  const std::unique_ptr<Engine> plain = engines.engine(options(DraftKind::none));
  const std::unique_ptr<Engine> drafting = engines.engine(options(DraftKind::mtp));
  const auto ask = [](Engine& engine) {
    Request asked = request(70, 2, 90);
    asked.constraint = std::make_shared<FreeAtFirst>(61);
    return answer(engine, asked);
  };
  const Progress drafted = ask(*drafting);
  EXPECT_TRUE(same_bits(drafted, ask(*plain)));
  EXPECT_GT(drafted.accepted, 30u);
  EXPECT_LT(drafted.drafted, 61u) << "nothing is drafted under the mask";
}

// Forked, truncated, gone on from a snapshot: the head begins anew where it was not given the text.
TEST_P(DraftHeadEngine, ContinuesWithItsSequence) {
  Engines engines(GetParam(), cat(GetParam(), "_draft_turns"), tests::counting);
  const std::unique_ptr<Engine> plain = engines.engine(options(DraftKind::none));
  const std::unique_ptr<Engine> drafting = engines.engine(options(DraftKind::mtp));
  std::vector<Progress> last[2];
  int which = 0;
  for (Engine* engine : {plain.get(), drafting.get()}) {
    std::vector<Progress>& seen = last[which++];
    Request turn = request(70, 4, 40);
    turn.keep_sequence = true;
    seen.push_back(answer(*engine, turn));
    turn.sequence = seen.back().sequence;
    turn.prompt = {5, 6, 300};
    const SequenceId fork = *engine->fork(turn.sequence);
    seen.push_back(answer(*engine, turn));
    turn.sequence = fork;
    seen.push_back(answer(*engine, turn));
    ASSERT_TRUE(engine->truncate(fork, 90));
    seen.push_back(answer(*engine, turn));
    seen.push_back(answer(*engine, request(150, 4, 30)));
  }
  for (size_t i = 0; i < last[0].size(); ++i) EXPECT_TRUE(same_bits(last[0][i], last[1][i])) << i;
  const EngineStats stats = drafting->stats();
  EXPECT_GE(static_cast<double>(stats.accepted), 0.9 * static_cast<double>(stats.drafted));
}

// 0.1 s a family.
TEST_P(DraftHeadEngine, GuessesTheSameBehindARestoredPrefix) {
  Engines engines(GetParam(), cat(GetParam(), "_draft_restored"), tests::nothing_replaced);
  const Request whole = request(170, 4, 1);
  for (const size_t before : {140u, 169u}) {
    const std::unique_ptr<Engine> fresh = engines.engine(options(DraftKind::mtp));
    const std::unique_ptr<Engine> restored = engines.engine(options(DraftKind::mtp));
    Request first = whole;
    first.prompt.resize(before);
    first.max_tokens = 2;
    answer(*restored, first);
    const tests::FirstGuesses want = tests::first_guesses(*fresh, whole, 4);
    const tests::FirstGuesses found = tests::first_guesses(*restored, whole, 4);
    EXPECT_EQ(found.reused_tokens, 128u);
    EXPECT_EQ(want.guesses.size(), 4u);
    EXPECT_EQ(found.guesses, want.guesses) << before;
  }
}

TEST_P(DraftHeadEngine, KeepsNothingOfClosedSequences) {
  Engines engines(GetParam(), cat(GetParam(), "_draft_closed"), tests::counting);
  const std::unique_ptr<Engine> engine = engines.engine(options(DraftKind::mtp, 2));
  const auto& drafts = static_cast<const Drafts&>(static_cast<const EngineImpl&>(*engine).continuation());
  const DraftHead& head = *drafts.head();
  Request kept = request(20, 2, 10);
  kept.keep_sequence = true;
  const SequenceId sequence = answer(*engine, kept).sequence;
  answer(*engine, request(30, 4, 10));
  EXPECT_EQ(head.sequences(), 1u) << "the open one";
  unwrap(engine->close(sequence));
  EXPECT_EQ(head.sequences(), 0u);
}

TEST(DraftHead, AModelWithoutAHeadIsRefused) {
  RealDevice machine("cpu", 1);
  Budget budget;
  const auto made = Engine::create(real_model("qwen3_5_moe"), *machine.device, budget, options(DraftKind::mtp));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().text, cat(SLUICE_TEST_DATA,
                                   "/qwen3_5_moe: has no layer for multi-token prediction: want one "
                                   "to draft by mtp"));
}

INSTANTIATE_TEST_SUITE_P(Families, DraftHeadEngine, ::testing::ValuesIn(small_models_with_draft_heads()),
                         [](const auto& variant) { return std::string(variant.param); });

}  // namespace
}  // namespace sluice
