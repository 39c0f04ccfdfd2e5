// Leased table rows, read from the file when tokens name them. The bits are those of tables in memory. A failed read is
// one sentence, and the next request is right.
#include <cerrno>

#include "engine/plan/memory_plan.h"
#include "tests/engine/experts/scripted_reads.h"
#include "tests/engine/real_engine.h"
#include "tests/model/tiny_model.h"

namespace sluice {
namespace {

using tests::TinyModel;

EngineOptions options_of() {
  EngineOptions options;
  options.sequences = 2;
  options.prompt_chunk = 64;
  options.context = 256;
  return options;
}

EngineOptions leased(ReadScript& script) {
  EngineOptions options = options_of();
  options.lease_rows = true;
  options.experts.open_reads = [&script](const std::vector<std::string>& paths) -> Result<std::unique_ptr<ReadQueue>> {
    return make_scripted_reads(paths, script);
  };
  return options;
}

Request request(const Model& model, size_t tokens, uint32_t seed) {
  Request request;
  for (uint32_t i = 0; i < tokens; ++i)
    request.prompt.push_back(static_cast<int32_t>((i * i * 7 + seed * 31 + i) % model.facts().vocabulary));
  request.max_tokens = 6;
  request.sampling.seed = seed;
  request.logits_at = {static_cast<uint32_t>(tokens) / 2};
  return request;
}

void expect_same(RealEngine& engine, RealEngine& resident, const Model& model) {
  for (const uint32_t seed : {1u, 2u, 3u}) {
    const Request asked = request(model, 40 * seed, seed);
    const Progress want = resident.answer(asked), got = engine.answer(asked);
    EXPECT_FALSE(got.failure) << got.failure->text;
    EXPECT_TRUE(same_bits(got, want)) << seed;
  }
}

class LeasedTables : public ::testing::TestWithParam<const char*> {};

TEST_P(LeasedTables, GiveTheBitsOfTablesInMemory) {
  const Model& model = real_model(GetParam());
  RealEngine resident(GetParam(), "cpu", options_of());
  EXPECT_FALSE(resident.engine->row_stats());
  for (const uint32_t seed : {1u, 2u, 3u}) {
    ReadScript script{.seed = seed, .turns = 3 * (seed % 2), .short_reads = seed == 3};
    RealEngine engine(GetParam(), "cpu", leased(script));
    EXPECT_EQ(engine.engine->numerics_id(), resident.engine->numerics_id());
    expect_same(engine, resident, model);
    const RowStats stats = *engine.engine->row_stats();
    EXPECT_GT(stats.misses, 0u);
    EXPECT_LT(stats.misses, stats.uses);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LeasedTables, ::testing::Values("qwen3_5_moe", "qwen3_5_moe q8_0", "deepseek_v3"),
                         real_model_name);

// What is not one run of rows in a file, or also makes logits, stays as it is.
TEST(LeasedTables, AreMissingIfTheModelHasNoTables) {
  for (const char* name : {"gemma4_dense", "deepseek_v3_mlx4"}) {
    ReadScript script;
    RealEngine engine(name, "cpu", leased(script)), resident(name, "cpu", options_of());
    EXPECT_FALSE(engine.engine->row_stats());
    expect_same(engine, resident, real_model(name));
  }
}

// Gemma's small models have a table of embeddings of every layer, here of 700 rows of 288 bytes.
class PerLayerRows : public TinyModel {
 protected:
  PerLayerRows() {
    tests::TinyShape shape = tests::like_e4b();
    shape.vocabulary = 700;
    put_model(shape);
    model =
        std::make_unique<Model>(unwrap(resolve(std::make_shared<const Checkpoint>(unwrap(open_checkpoint(folder_))))));
  }
  RealEngine engine(const EngineOptions& options) const { return {*model, "cpu", options}; }

  std::unique_ptr<Model> model;
};

TEST_F(PerLayerRows, GiveTheBitsOfTablesInMemory) {
  ReadScript script{.seed = 4, .turns = 2, .depth = 3};
  RealEngine leasing = engine(leased(script)), resident = engine(options_of());
  expect_same(leasing, resident, *model);
  EXPECT_TRUE(leasing.engine->row_stats());
  EXPECT_EQ(script.most_under_way, 3u);
  uint64_t weights = 0;
  for (const BudgetLine& line : leasing.budget.lines()) weights += line.purpose == Purpose::weights ? line.bytes : 0;
  EXPECT_EQ(weights, 4 * 64 * 288 + 32 * 8192) << "rows of four chunks, and what is under way";
}

// Of lines that are known before the model is loaded: all but staging, of which the plan has more.
TEST_F(PerLayerRows, AreCountedByThePlan) {
  ReadScript script;
  const EngineOptions options = leased(script);
  const auto sum = [](const auto& lines) {
    uint64_t bytes = 0;
    for (const auto& line : lines) bytes += line.purpose == Purpose::staging ? 0 : line.bytes;
    return bytes;
  };
  RealDevice machine("cpu", 1);
  Budget budget;
  const MemoryPlan plan =
      unwrap(plan_memory(*model, weight_files(*model), *machine.device, budget, UINT64_MAX, options));
  EXPECT_TRUE(plan.rows);
  EXPECT_EQ(sum(plan.lines), sum(engine(options).budget.lines()));
}

TEST_F(PerLayerRows, ThatCannotBeReadAreOneSentence) {
  RealEngine resident = engine(options_of());
  const Request asked = request(*model, 70, 5);
  const Progress want = resident.answer(asked);
  for (const int64_t failing : {0, 7, 40}) {
    ReadScript script{.seed = 5, .turns = 2, .failing = failing};
    RealEngine leasing = engine(leased(script));
    const Progress failed = leasing.answer(asked);
    ASSERT_EQ(failed.finish, Finish::failed);
    EXPECT_EQ(failed.failure->text, path("model.safetensors") + ": cannot read: Input/output error");
    EXPECT_TRUE(same_bits(leasing.answer(asked), want));
  }
  ReadScript again{.failing = 3, .error_number = EINTR};
  RealEngine interrupted = engine(leased(again));
  EXPECT_TRUE(same_bits(interrupted.answer(asked), want));
}

TEST_F(PerLayerRows, OfATruncatedFileAreOneSentence) {
  RealEngine resident = engine(options_of());
  const Request asked = request(*model, 70, 6);
  ReadScript script{.turns = 1, .short_reads = true, .file_bytes = 100'000};
  RealEngine leasing = engine(leased(script));
  const Progress failed = leasing.answer(asked);
  ASSERT_EQ(failed.finish, Finish::failed);
  EXPECT_EQ(failed.failure->text.find(path("model.safetensors") + ": ends at byte "), 0u) << failed.failure->text;
  EXPECT_EQ(failed.failure->kind, ErrorKind::corrupt);
  script.file_bytes = ~uint64_t{0};
  EXPECT_TRUE(same_bits(leasing.answer(asked), resident.answer(asked)));
}

TEST_F(PerLayerRows, DoNotDelayOtherRequestsWhileTheyAreRead) {
  RealEngine resident = engine(options_of());
  Request at_hand = request(*model, 256 - 8, 1);
  std::ranges::fill(at_hand.prompt, 5);
  at_hand.max_tokens = 0;
  const Request slow = request(*model, 100, 7);
  Request known;
  known.prompt = {5};
  ReadScript script;
  RealEngine leasing = engine(leased(script));
  EXPECT_FALSE(leasing.answer(known).failure);
  script.stalled = true;
  const RequestId waits = leasing.submit(slow), goes_on = leasing.submit(at_hand);
  Progress done = leasing.collect(goes_on);
  std::vector<float> logits;
  for (int steps = 0; steps < 1000 && done.finish == Finish::running; ++steps) {
    leasing.engine->step();
    done = leasing.collect(goes_on);
    logits.insert(logits.end(), done.logits.begin(), done.logits.end());
  }
  EXPECT_EQ(done.finish, Finish::length);
  EXPECT_EQ(logits, resident.answer(at_hand).logits);
  EXPECT_EQ(leasing.collect(waits).computed_prompt_tokens, 0u);
  EXPECT_EQ(leasing.engine->step(), StepState::in_flight);
  script.stalled = false;
  leasing.run();
  EXPECT_TRUE(same_bits(leasing.collect(waits), resident.answer(slow)));
}

TEST_F(PerLayerRows, OfACancelledRequestServeOtherRequests) {
  RealEngine resident = engine(options_of());
  ReadScript script{.stalled = true};
  RealEngine leasing = engine(leased(script));
  const Request asked = request(*model, 100, 8);
  const RequestId cancelled = leasing.submit(asked);
  EXPECT_EQ(leasing.engine->step(), StepState::in_flight);
  leasing.engine->cancel(cancelled);
  EXPECT_EQ(leasing.collect(cancelled).finish, Finish::cancelled);
  script.stalled = false;
  EXPECT_TRUE(same_bits(leasing.answer(asked), resident.answer(asked)));
}

}  // namespace
}  // namespace sluice
