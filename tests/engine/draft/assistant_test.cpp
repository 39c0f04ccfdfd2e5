// A draft model of its own (Gemma 4's assistant), which reads the text model's keys: it changes no answer.
#include "base/files/file.h"
#include "base/json.h"
#include "engine/plan/memory_plan.h"
#include "tests/engine/draft/first_guesses.h"
#include "tests/engine/real_engine.h"

namespace sluice {
namespace {

constexpr const char *kAssistant = "gemma4_assistant", *kOrdered = "gemma4_assistant_ordered";

class AssistantEngines {
 public:
  explicit AssistantEngines(const std::string& name = kAssistant)
      : model_(unwrap(with_draft_head(real_model("gemma4_dense"), cat(SLUICE_TEST_DATA, "/", name)))) {}

  std::unique_ptr<Engine> engine(DraftKind kind, uint32_t sequences, Arithmetic arithmetic = Arithmetic::fast) {
    EngineOptions how = options(kind, sequences);
    how.arithmetic = arithmetic;
    return unwrap(Engine::create(model_, *machine_.device, budget_, how));
  }
  static EngineOptions options(DraftKind kind, uint32_t sequences) {
    EngineOptions options;
    options.arithmetic = Arithmetic::fast;
    options.context = 512;
    options.prompt_chunk = 64;
    options.sequences = sequences;
    options.draft = {.kind = kind, .tokens = 4, .always = true};
    return options;
  }

  const Model& model() const { return model_; }
  Device& device() { return *machine_.device; }
  Budget& budget() { return budget_; }

 private:
  RealDevice machine_{"cpu", 1};
  Budget budget_;
  Model model_;
};

Request request(size_t tokens, int32_t seed, uint32_t max_tokens) {
  Request request;
  for (size_t i = 0; i < tokens; ++i)
    request.prompt.push_back(static_cast<int32_t>((i * i + 5 * i + static_cast<size_t>(seed) * 17) % 768));
  request.max_tokens = max_tokens;
  request.sampling.temperature = seed % 2 == 0 ? 0.0f : 0.7f;
  request.sampling.seed = static_cast<uint64_t>(seed);
  request.sampling.candidates = kCandidates;
  return request;
}

Progress answer(Engine& engine, const Request& request) {
  const RequestId id = unwrap(engine.submit(request));
  run_until_idle(engine);
  return unwrap(engine.collect(id));
}

// 1 s. Prompts of several chunks, beyond the window, side by side.
TEST(AssistantEngine, ChangesNoAnswer) {
  AssistantEngines engines;
  const std::unique_ptr<Engine> plain = engines.engine(DraftKind::none, 1);
  const std::unique_ptr<Engine> drafting = engines.engine(DraftKind::mtp, 3);
  std::vector<RequestId> ids;
  std::vector<Request> asked;
  for (int32_t i = 0; i < 5; ++i) {
    asked.push_back(request(3 + 75 * static_cast<size_t>(i), i, 120));
    ids.push_back(unwrap(drafting->submit(asked.back())));
  }
  run_until_idle(*drafting);
  for (size_t i = 0; i < ids.size(); ++i)
    EXPECT_TRUE(same_bits(unwrap(drafting->collect(ids[i])), answer(*plain, asked[i]))) << i;
  const EngineStats stats = drafting->stats();
  EXPECT_GT(stats.drafted, 400u);
}

// 0.1 s. The engine feeds the assistant chunk by chunk; it then guesses what transformers' does. `before`: so many
// tokens were the prompt of another request before.
void expect_goldens_guesses(const std::string& name, size_t before = 0) {
  AssistantEngines engines(name);
  const std::string path = cat(SLUICE_TEST_DATA, "/", name, "/golden.json");
  const Json golden = unwrap(parse_json(unwrap(read_file(path, 1 << 20)), path));
  size_t held = 0;
  for (const Json& one : golden.find("cases")->as_array()) {
    const std::unique_ptr<Engine> engine = engines.engine(DraftKind::mtp, 1, Arithmetic::exact);
    Request asked;
    for (const Json& token : one.find("input_ids")->as_array())
      asked.prompt.push_back(static_cast<int32_t>(token.as_integer()));
    std::vector<int32_t> wanted;
    for (const Json& token : one.find("draft_tokens")->as_array())
      wanted.push_back(static_cast<int32_t>(token.as_integer()));
    if (asked.prompt.size() <= before) continue;
    ++held;
    if (before > 0) {
      Request first;
      first.prompt.assign(asked.prompt.begin(), asked.prompt.begin() + static_cast<ptrdiff_t>(before));
      first.max_tokens = 2;
      answer(*engine, first);
    }
    const tests::FirstGuesses found = tests::first_guesses(*engine, std::move(asked), wanted.size());
    EXPECT_EQ(found.reused_tokens, before / 64 * 64);
    EXPECT_EQ(found.token, one.find("first_token")->as_integer());
    EXPECT_EQ(found.guesses, wanted) << name << " " << one.find("name")->as_string();
  }
  EXPECT_GT(held, 0u);
}

TEST(AssistantEngine, GuessesTheGoldensTokens) {
  expect_goldens_guesses(kAssistant);
  expect_goldens_guesses(kOrdered);
}

// 0.1 s. Beyond the window of 32, and within a page of the prompt's end.
TEST(AssistantEngine, GuessesTheSameBehindARestoredPrefix) {
  for (const size_t before : {70u, 200u, 299u}) expect_goldens_guesses(kAssistant, before);
}

// 0.3 s. Snapshots of earlier conversations give way to the pages of this one.
TEST(AssistantEngine, DraftsInEveryConversation) {
  AssistantEngines engines;
  const std::unique_ptr<Engine> engine = engines.engine(DraftKind::mtp, 1);
  for (int32_t i = 0; i < 6; ++i) EXPECT_GE(answer(*engine, request(450, 2 * i, 12)).drafted, 8u) << i;
}

// 1 s. Forked, truncated, gone on from a snapshot: the head begins anew where it was not given the text.
TEST(AssistantEngine, ContinuesWithItsSequence) {
  AssistantEngines engines;
  const std::unique_ptr<Engine> plain = engines.engine(DraftKind::none, 2);
  const std::unique_ptr<Engine> drafting = engines.engine(DraftKind::mtp, 2);
  std::vector<Progress> seen[2];
  for (const auto& [engine, turns] : {std::pair(plain.get(), &seen[0]), {drafting.get(), &seen[1]}}) {
    Request turn = request(170, 4, 40);
    turn.keep_sequence = true;
    turns->push_back(answer(*engine, turn));
    turn.sequence = turns->back().sequence;
    turn.prompt = {5, 6, 300};
    const SequenceId fork = unwrap(engine->fork(turn.sequence));
    turns->push_back(answer(*engine, turn));
    turn.sequence = fork;
    turns->push_back(answer(*engine, turn));
    ASSERT_TRUE(engine->truncate(fork, 90));
    turns->push_back(answer(*engine, turn));
    turns->push_back(answer(*engine, request(250, 4, 30)));
  }
  for (size_t i = 0; i < seen[0].size(); ++i) EXPECT_TRUE(same_bits(seen[0][i], seen[1][i])) << i;
}

TEST(AssistantEngine, IsCountedByThePlan) {
  AssistantEngines engines;
  const EngineOptions how = AssistantEngines::options(DraftKind::mtp, 2);
  const MemoryPlan plan = unwrap(
      plan_memory(engines.model(), weight_files(engines.model()), engines.device(), engines.budget(), UINT64_MAX, how));
  uint64_t planned = plan.experts.bytes, planned_staging = 0, held = 0, held_staging = 0;
  for (const MemoryLine& line : plan.lines)
    (line.purpose == Purpose::staging ? planned_staging : planned) += line.bytes;
  const std::unique_ptr<Engine> engine = engines.engine(DraftKind::mtp, 2);
  for (const BudgetLine& line : engines.budget().lines())
    (line.purpose == Purpose::staging ? held_staging : held) += line.bytes;
  EXPECT_EQ(planned, held);
  EXPECT_GE(planned_staging, held_staging);
}

TEST(AssistantEngine, WithoutOneTheModelDoesNotDraft) {
  RealDevice machine("cpu", 1);
  Budget budget;
  const auto made =
      Engine::create(real_model("gemma4_dense"), *machine.device, budget, AssistantEngines::options(DraftKind::mtp, 1));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().text, cat(SLUICE_TEST_DATA,
                                   "/gemma4_dense: no draft model was given: want one beside it or as "
                                   "--draft-model to draft by mtp"));
}

}  // namespace
}  // namespace sluice
