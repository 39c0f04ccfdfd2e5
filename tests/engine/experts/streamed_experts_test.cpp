// Streamed experts. The bits are those of resident experts, with any amount of memory for them and any order of reads.
// A failed read is one sentence, and the next request is right.
#include <cerrno>
#include <map>

#include "engine/experts/expert_places.h"
#include "engine/experts/read_ahead.h"
#include "tests/engine/experts/far_slots.h"
#include "tests/engine/experts/scripted_reads.h"
#include "tests/engine/real_engine.h"

namespace sluice {
namespace {

ExpertPlaces places_of(const Model& model) {
  const WeightFiles files{.paths = model.checkpoint().files(),
                          .place = [model](const std::byte* byte) { return model.checkpoint().place_of(byte); }};
  return unwrap(ExpertPlaces::find(unwrap(model.record_text()), model.weights(), files));
}

uint64_t slot_bytes(const Model& model) { return places_of(model).slot_bytes(); }

EngineOptions options_of(Arithmetic arithmetic = Arithmetic::fast) {
  EngineOptions options;
  options.arithmetic = arithmetic;
  options.sequences = 2;
  options.prompt_chunk = 64;
  options.context = 256;
  return options;
}

EngineOptions streamed(const std::string& model, uint64_t slots, ReadScript& script,
                       Arithmetic arithmetic = Arithmetic::fast) {
  EngineOptions options = options_of(arithmetic);
  options.experts.bytes = slots * slot_bytes(real_model(model));
  options.experts.open_reads = [&script](const std::vector<std::string>& paths) -> Result<std::unique_ptr<ReadQueue>> {
    return make_scripted_reads(paths, script);
  };
  return options;
}

Request request(const std::string& model, size_t tokens, uint32_t seed) {
  Request request;
  const uint32_t vocabulary = real_model(model).facts().vocabulary;
  for (uint32_t i = 0; i < tokens; ++i)
    request.prompt.push_back(static_cast<int32_t>((i * i * 7 + seed * 31 + i) % vocabulary));
  request.max_tokens = 6;
  request.sampling.seed = seed;
  request.sampling.candidates = kCandidates;
  request.logits_at = {static_cast<uint32_t>(tokens) / 2};
  return request;
}

// A prompt with a tail, and another beside it.
std::vector<Progress> two_answers(RealEngine& engine, const std::string& model) {
  const RequestId first = engine.submit(request(model, 75, 1)), second = engine.submit(request(model, 9, 2));
  engine.run();
  std::vector<Progress> answers;
  answers.push_back(engine.collect(first));
  answers.push_back(engine.collect(second));
  return answers;
}

void expect_same(const std::vector<Progress>& streamed, const std::vector<Progress>& resident) {
  for (size_t i = 0; i < resident.size(); ++i) {
    EXPECT_EQ(streamed[i].finish, Finish::length);
    EXPECT_FALSE(streamed[i].failure) << streamed[i].failure->text;
    EXPECT_TRUE(same_bits(streamed[i], resident[i])) << "answer " << i;
  }
}

class StreamedExperts : public testing::TestWithParam<const char*> {};

TEST_P(StreamedExperts, GiveTheBitsOfResidentOnes) {
  const std::string model = GetParam();
  for (const Arithmetic arithmetic : {Arithmetic::fast, Arithmetic::exact}) {
    RealEngine resident(model, "cpu", options_of(arithmetic));
    const std::vector<Progress> want = two_answers(resident, model);
    EXPECT_FALSE(resident.engine->expert_stats());
    const uint64_t reads_of_expert = places_of(real_model(model)).place(0, 0).reads.size();
    uint32_t seed = 0;
    for (const uint64_t slots : {1, 3, 9, 1000}) {
      ReadScript script{.seed = ++seed, .turns = 3 * (seed % 2), .short_reads = seed % 3 == 0};
      RealEngine engine(model, "cpu", streamed(model, slots, script, arithmetic));
      EXPECT_EQ(engine.engine->numerics_id(), resident.engine->numerics_id());
      expect_same(two_answers(engine, model), want);
      const ExpertStats stats = *engine.engine->expert_stats();
      EXPECT_GE(script.most_under_way, std::min<uint64_t>(2, slots * reads_of_expert));
      EXPECT_EQ(stats.slots, std::min(slots, stats.experts));
      if (slots > stats.experts)
        EXPECT_LE(stats.misses, stats.experts) << "nothing has to be given up";
      else
        EXPECT_GT(stats.misses, stats.experts) << slots;
    }
  }
}

// Several are packed at once, and in any order.
TEST_P(StreamedExperts, GiveTheSameBitsIfTheDevicePacksThem) {
  const std::string model = GetParam();
  RealEngine resident(model, "cpu", options_of());
  const std::vector<Progress> want = two_answers(resident, model);
  for (const uint64_t slots : {1, 3, 9}) {
    ReadScript script{.seed = static_cast<uint32_t>(slots), .turns = 2, .short_reads = slots == 3};
    RealDevice machine("cpu", 1);
    FarDevice device(*machine.device);
    Budget budget;
    const auto engine = Engine::create(real_model(model), device, budget, streamed(model, slots, script));
    ASSERT_TRUE(engine) << engine.error().text;
    const RequestId first = *(*engine)->submit(request(model, 75, 1));
    const RequestId second = *(*engine)->submit(request(model, 9, 2));
    run_until_idle(**engine, Waiting::yes);
    std::vector<Progress> answers;
    answers.push_back(*(*engine)->collect(first));
    answers.push_back(*(*engine)->collect(second));
    expect_same(answers, want);
    EXPECT_GT((*engine)->expert_stats()->misses, (*engine)->expert_stats()->slots);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, StreamedExperts,
                         testing::Values("gemma4_moe", "gemma4_moe q8_0", "qwen3_5_moe", "qwen3_5_moe q8_0",
                                         "deepseek_v3", "qwen3_5_moe_mlx2", "deepseek_v3_mlx4",
                                         "gemma4_moe q8_0 packed"),
                         real_model_name);

class PackedExperts : public testing::TestWithParam<const char*> {};

TEST_P(PackedExperts, AreOneReadEach) {
  const std::string model = GetParam();
  const ExpertPlaces apart = places_of(real_model(model)), packed = places_of(real_model(model + " packed"));
  ASSERT_EQ(packed.total_experts(), apart.total_experts());
  uint64_t behind = 0;  // the last expert
  for (uint32_t layer = 0; layer < packed.layers(); ++layer)
    for (uint32_t expert = 0; expert < packed.experts(layer); ++expert) {
      const ExpertPlace place = packed.place(layer, expert);
      ASSERT_EQ(place.reads.size(), 1u);
      const ExpertRead& read = place.reads[0];
      EXPECT_EQ(read.from.offset % kReadAlignment, 0u);
      if (behind != 0) EXPECT_EQ(read.from.offset, behind);
      behind = read.from.offset + read.bytes;
      EXPECT_GT(apart.place(layer, expert).reads.size(), 1u);
    }
}

TEST_P(PackedExperts, GiveTheAnswersOfUnpackedOnes) {
  const std::string model = GetParam();
  RealEngine apart(model, "cpu", options_of()), packed(model + " packed", "cpu", options_of());
  expect_same(two_answers(packed, model + " packed"), two_answers(apart, model));
}

INSTANTIATE_TEST_SUITE_P(Models, PackedExperts,
                         testing::Values("gemma4_moe q8_0", "qwen3_5_moe f32", "deepseek_v3 bf16"), real_model_name);

// The second chunk of a prompt finds some of what the first one wanted under way, where there is room that is worth
// less.
TEST(ReadAhead, PrefetchesTheNextLayersLastExperts) {
  const std::string model = "qwen3_5_moe";
  RealEngine resident(model, "cpu", options_of());
  ReadScript script{.seed = 3, .turns = 1, .depth = 32};
  RealEngine engine(model, "cpu", streamed(model, 12, script));
  expect_same(two_answers(engine, model), two_answers(resident, model));
  const ExpertStats stats = *engine.engine->expert_stats();
  EXPECT_GT(stats.ahead_used, 0u);
  EXPECT_LE(stats.ahead_used + stats.ahead_wasted, stats.ahead);
}

// In a page a read has ended when begin() returns, so a prefetch would only wait earlier.
TEST(ReadAhead, IsOffIfReadsDoNotRunInTheBackground) {
  const std::string model = "qwen3_5_moe";
  RealEngine resident(model, "cpu", options_of());
  ReadScript script{.depth = 32, .in_background = false};
  RealEngine engine(model, "cpu", streamed(model, 12, script));
  expect_same(two_answers(engine, model), two_answers(resident, model));
  EXPECT_EQ(engine.engine->expert_stats()->ahead, 0u);
  EXPECT_GT(engine.engine->expert_stats()->misses, 12u);
}

TEST(ReadAhead, TakesTheWayWithTheFastestSteps) {
  for (const ReadAhead best : {ReadAhead::nothing, ReadAhead::last_use, ReadAhead::router}) {
    ReadAheadGauge gauge(8);
    std::map<ReadAhead, uint32_t> steps;
    for (int step = 0; step < 3 * 8 + 16 * 8; ++step) {
      ++steps[gauge.way()];
      gauge.add(gauge.way() == best ? 0.1 : 0.2);
    }
    for (const ReadAhead way : {ReadAhead::nothing, ReadAhead::last_use, ReadAhead::router})
      EXPECT_EQ(steps[way], way == best ? 8u + 16u * 8u : 8u);
    for (int step = 0; step < 3; ++step, gauge.add(1)) ++steps[gauge.way()];
    for (const ReadAhead way : {ReadAhead::nothing, ReadAhead::last_use, ReadAhead::router})
      EXPECT_EQ(steps[way] % 8, 1u) << "tried again";
  }
}

class RealReads : public testing::TestWithParam<ReadMethod> {};

TEST_P(RealReads, GiveTheSameBits) {
  const ReadMethod method = GetParam();
  const std::string model = "qwen3_5_moe";
  if (!open_read_queue(real_model(model).checkpoint().files(), method)) GTEST_SKIP() << "this machine has no io_uring";
  RealEngine resident(model, "cpu", options_of());
  EngineOptions options = options_of();
  options.experts.bytes = 7 * slot_bytes(real_model(model));
  options.experts.open_reads = [method](const std::vector<std::string>& paths) {
    return open_read_queue(paths, method);
  };
  RealEngine engine(model, "cpu", options, 2);
  const RequestId first = engine.submit(request(model, 75, 1)), second = engine.submit(request(model, 9, 2));
  run_until_idle(*engine.engine, Waiting::yes);
  std::vector<Progress> answers;
  answers.push_back(engine.collect(first));
  answers.push_back(engine.collect(second));
  expect_same(answers, two_answers(resident, model));
}

INSTANTIATE_TEST_SUITE_P(Methods, RealReads, testing::Values(ReadMethod::uring, ReadMethod::threads),
                         [](const auto& method) { return method.param == ReadMethod::uring ? "uring" : "threads"; });

// A read that fails at any time fails the answer that needs it, and no other.
TEST(FaultyFiles, AnErrorIsOneSentenceAndTheNextAnswerIsRight) {
  const std::string model = "qwen3_5_moe";
  RealEngine resident(model, "cpu", options_of());
  const Progress want = resident.answer(request(model, 20, 3));
  for (const int64_t failing : {0, 1, 2, 17, 40}) {
    ReadScript script{.seed = 5, .turns = 2, .failing = failing};
    RealEngine engine(model, "cpu", streamed(model, 5, script));
    const Progress failed = engine.answer(request(model, 20, 3));
    ASSERT_EQ(failed.finish, Finish::failed);
    EXPECT_EQ(failed.failure->text,
              cat(real_model(model).checkpoint().files()[0], ": cannot read: Input/output error"));
    EXPECT_TRUE(same_bits(engine.answer(request(model, 20, 3)), want));
  }
}

TEST(FaultyFiles, InterruptedReadsAreTriedAgain) {
  const std::string model = "gemma4_moe";
  ReadScript script{.failing = 3, .error_number = EINTR};
  RealEngine engine(model, "cpu", streamed(model, 5, script)), resident(model, "cpu", options_of());
  EXPECT_TRUE(same_bits(engine.answer(request(model, 20, 3)), resident.answer(request(model, 20, 3))));
  EXPECT_GT(script.reads, 4);
}

TEST(FaultyFiles, AFileThatBecameShorterIsOneSentence) {
  const std::string model = "deepseek_v3";
  const std::string path = real_model(model).checkpoint().files()[0];
  ReadScript script{.turns = 1, .short_reads = true};
  RealEngine engine(model, "cpu", streamed(model, 4, script)), resident(model, "cpu", options_of());
  EXPECT_TRUE(same_bits(engine.answer(request(model, 20, 3)), resident.answer(request(model, 20, 3))));
  script.file_bytes = 100'000;
  const Progress failed = engine.answer(request(model, 20, 4));
  ASSERT_EQ(failed.finish, Finish::failed);
  EXPECT_EQ(failed.failure->text.find(cat(path, ": ends at byte ")), 0u) << failed.failure->text;
  EXPECT_EQ(failed.failure->kind, ErrorKind::corrupt);
  script.file_bytes = ~uint64_t{0};
  EXPECT_TRUE(same_bits(engine.answer(request(model, 20, 4)), resident.answer(request(model, 20, 4))));
}

// An engine goes while reads are under way, a request is cancelled while its step has stopped.
TEST(StreamedExpertsEnd, DoesNotWaitForTheirStep) {
  const std::string model = "qwen3_5_moe";
  ReadScript script{.turns = 50};
  RealEngine engine(model, "cpu", streamed(model, 3, script)), resident(model, "cpu", options_of());
  const RequestId id = engine.submit(request(model, 20, 3));
  for (int i = 0; i < 5; ++i) engine.engine->step();
  engine.engine->cancel(id);
  engine.run();
  EXPECT_EQ(engine.collect(id).finish, Finish::cancelled);
  EXPECT_TRUE(same_bits(engine.answer(request(model, 20, 5)), resident.answer(request(model, 20, 5))));
  engine.submit(request(model, 30, 6));
  for (int i = 0; i < 5; ++i) engine.engine->step();
}

TEST(ExpertMemorySize, IsRefusedBelowOneExpert) {
  const std::string model = "gemma4_moe";
  const auto failure = [](const std::string& name, uint64_t bytes) {
    RealDevice machine("cpu", 1);
    Budget budget;
    EngineOptions options;
    options.experts.bytes = bytes;
    const auto made = Engine::create(real_model(name), *machine.device, budget, options);
    return made ? "none" : made.error().text;
  };
  const uint64_t least = slot_bytes(real_model(model));
  EXPECT_EQ(failure(model, least - 1),
            cat("experts: ", format_bytes(least - 1), " for them: want at least the ", format_bytes(least), " of one"));
  EXPECT_EQ(failure("gemma4_dense", least), "experts: the model has none: want no memory for them");
}

// The slots are the whole of it: nothing else grows with the model.
TEST(ExpertMemorySize, IsReservedInTheBudget) {
  const std::string model = "gemma4_moe";
  ReadScript script;
  RealEngine engine(model, "cpu", streamed(model, 3, script));
  uint64_t weights = 0;
  for (const BudgetLine& line : engine.budget.lines()) weights += line.purpose == Purpose::weights ? line.bytes : 0;
  EXPECT_EQ(weights, 3 * slot_bytes(real_model(model)));
}

}  // namespace
}  // namespace sluice
