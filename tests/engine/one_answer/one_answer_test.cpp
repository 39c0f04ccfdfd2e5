// A sequence's logits are a function of its history and of the numerics id: one test for each line of that promise,
// bit for bit, on each device, in each arithmetic, over each kind of model.
#include <unistd.h>

#include <cstdio>
#include <numeric>
#include <ostream>
#include <random>

#include "base/files/file.h"
#include "base/json.h"
#include "devices.h"
#include "engine/plan/memory_plan.h"
#include "tests/engine/real_engine.h"
#include "tests/small_models.h"

namespace sluice {
namespace {

struct Variant {
  const AnswerDevice* device;
  Arithmetic arithmetic;
  std::string model;
  std::optional<Format> cache{};
};
void PrintTo(const Variant& variant, std::ostream* out) {
  *out << variant.device->name << (variant.arithmetic == Arithmetic::exact ? ", exact, " : ", fast, ") << variant.model;
  if (variant.cache) *out << ", cache of " << format_name(*variant.cache);
}

class OneAnswer : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    if (!device().is_here()) GTEST_SKIP() << device().absent;
  }
  static const AnswerDevice& device() { return *GetParam().device; }
  EngineOptions options(uint32_t sequences = 1, uint32_t chunk = 128) const {
    EngineOptions options;
    options.arithmetic = GetParam().arithmetic;
    options.cache = GetParam().cache;
    options.sequences = sequences;
    options.prompt_chunk = chunk;
    return options;
  }
  RealEngine engine(const EngineOptions& with, uint32_t threads = 1) const {
    return {real_model(GetParam().model), RealDevice::Open(device().open), with, threads};
  }
  RealEngine engine() const { return engine(options()); }

  std::vector<int32_t> prompt(size_t tokens, uint32_t seed) const {
    std::mt19937 random(seed);
    const uint32_t vocabulary = real_model(GetParam().model).facts().vocabulary;
    std::vector<int32_t> prompt;
    for (size_t i = 0; i < tokens; ++i) prompt.push_back(static_cast<int32_t>(random() % vocabulary));
    return prompt;
  }
  // With the logits of some prompt rows, so that bits and not only choices are seen.
  Request request(size_t tokens, uint32_t seed, uint32_t max_tokens) const {
    Request request;
    request.prompt = prompt(tokens, seed);
    request.max_tokens = max_tokens;
    request.sampling.temperature = seed % 2 == 0 ? 0.0f : 1.0f;
    request.sampling.seed = seed;
    request.sampling.candidates = kCandidates;
    for (uint32_t i = 0; i < tokens; i += 37) request.logits_at.push_back(i);
    return request;
  }
  // Of an answer: fewer where each step takes long.
  static uint32_t tokens(uint32_t usual, uint32_t where_steps_are_slow) {
    return device().slow_steps ? where_steps_are_slow : usual;
  }
  Progress alone(const Request& request) const { return engine().answer(request); }
};

// The other tests use one thread: teams that wait for each other are slow where tests share processors.
TEST_P(OneAnswer, AnyNumberOfThreads) {
  if (const char* reason = device().reason_against(Line::threads)) GTEST_SKIP() << reason;
  const Request asked = request(150, 1, 8), beside = request(70, 2, 8);
  const Progress want = alone(asked), want_beside = alone(beside);
  for (const uint32_t threads : {2u, 3u}) {
    RealEngine team = engine(options(2), threads);
    const RequestId first = team.submit(asked), second = team.submit(beside);
    team.run();
    EXPECT_TRUE(same_bits(team.collect(first), want)) << threads << " threads";
    EXPECT_TRUE(same_bits(team.collect(second), want_beside)) << threads << " threads";
  }
}

TEST_P(OneAnswer, OneSixteenOrThreeHundredDecodeRows) {
  const uint32_t length = tokens(6, 3);
  const Request asked = request(20, 1, length);
  const Progress want = alone(asked);
  for (const uint32_t rows : {16u, 300u}) {
    if (rows == 300 && device().reason_against(Line::crowds)) continue;
    EngineOptions many = options(rows);
    many.context = 64;
    RealEngine crowd = engine(many);
    std::vector<RequestId> ids;
    for (uint32_t i = 0; i < rows; ++i) ids.push_back(crowd.submit(i == rows / 2 ? asked : request(2, i, length)));
    crowd.run();
    EXPECT_TRUE(same_bits(crowd.collect(ids[rows / 2]), want)) << rows << " rows";
    EXPECT_TRUE(same_bits(crowd.collect(ids[3]), alone(request(2, 3, length)))) << rows << " rows";
  }
}

TEST_P(OneAnswer, AloneOrWithStrangersOfAnyLength) {
  const uint32_t length = tokens(12, 6);
  const Request asked = request(150, 1, length - 2);
  const Progress want = alone(asked);
  RealEngine crowd = engine(options(4, 256));
  std::vector<RequestId> ids;
  for (uint32_t i = 0; i < 3; ++i) ids.push_back(crowd.submit(request(5 + 60 * i, 10 + i, length)));
  crowd.engine->step();
  const RequestId id = crowd.submit(asked);
  crowd.run();
  EXPECT_TRUE(same_bits(crowd.collect(id), want));
  EXPECT_TRUE(same_bits(crowd.collect(ids[1]), alone(request(65, 11, length))));
}

// Only its largest logits are told or not: nothing else hangs on how many were asked for.
TEST_P(OneAnswer, HoweverManyCandidatesAreAskedFor) {
  Request asked = request(20, 2, 6);
  const Progress want = alone(asked);
  for (const uint32_t candidates : {0u, 3u}) {
    asked.sampling.candidates = candidates;
    Progress told = alone(asked);
    for (size_t i = 0; i < told.tokens.size(); ++i) {
      for (uint32_t c = 0; c < kCandidates; ++c) {
        Candidate& candidate = told.tokens[i].candidates[c];
        const Candidate& wanted = want.tokens[i].candidates[c];
        EXPECT_EQ(candidate.token, c < candidates ? wanted.token : -1);
        candidate = wanted;
      }
    }
    EXPECT_EQ(want.tokens[0].candidates[0].token, want.tokens[0].token);
    EXPECT_TRUE(same_bits(told, want)) << candidates;
  }
}

TEST_P(OneAnswer, AnyChunkThatIsAMultipleOf64) {
  const Request asked = request(210, 2, 4);
  const Progress want = alone(asked);
  for (const uint32_t chunk : {64u, 192u, 512u})
    EXPECT_TRUE(same_bits(engine(options(1, chunk)).answer(asked), want)) << "chunks of " << chunk;
}

// So long that attention is merged from parts of the history.
TEST_P(OneAnswer, AnyChunkAndAnyThreadsOfALongPrompt) {
  if (const char* reason = device().reason_against(Line::long_prompts)) GTEST_SKIP() << reason;
  const Request asked = request(device().slow_steps ? 300 : 600, 9, 4);
  EngineOptions deep = options(1, 640);
  deep.context = 700;
  const Progress want = engine(deep).answer(asked);
  for (const uint32_t chunk : {64u, device().slow_steps ? 256u : 512u}) {
    deep.prompt_chunk = chunk;
    EXPECT_TRUE(same_bits(engine(deep, chunk == 64 ? 1 : 2).answer(asked), want)) << "chunks of " << chunk;
  }
}

TEST_P(OneAnswer, PromptTailsOfOneTo63Rows) {
  Request whole = request(127, 3, 0);
  whole.logits_at.resize(63);
  std::iota(whole.logits_at.begin(), whole.logits_at.end(), 64u);
  RealEngine shared = engine();
  const std::vector<float> want = shared.answer(whole).logits;
  const size_t width = want.size() / 63;
  for (uint32_t tail = 1; tail <= 63; ++tail) {
    Request part = whole;
    part.prompt.resize(64 + tail);
    part.logits_at = {63 + tail};
    const Progress progress = shared.answer(part);
    EXPECT_EQ(progress.reused_tokens, 64u);
    ASSERT_EQ(progress.logits.size(), width);
    EXPECT_EQ(std::memcmp(progress.logits.data(), want.data() + (tail - 1) * width, width * 4), 0) << "tail " << tail;
  }
}

TEST_P(OneAnswer, AColdOrAWarmPrefixCache) {
  Request asked = request(150, 4, 6);
  asked.logits_at = {140};
  const Progress cold = alone(asked);
  RealEngine warm = engine();
  Request other = asked;
  other.prompt.resize(145);
  for (const int32_t token : prompt(30, 77)) other.prompt.push_back(token);
  warm.answer(other);
  const Progress reused = warm.answer(asked);
  EXPECT_EQ(reused.reused_tokens, 128u);
  EXPECT_TRUE(same_bits(reused, cold));
}

// A conversation of three turns, whole on one engine; each way of coming back to its second turn gives the same third.
class Conversation {
 public:
  Conversation(const Request& first, const Request& second, const Request& third)
      : first_(first), second_(second), third_(third) {}
  SequenceId two_turns(RealEngine& engine) const {
    Request turn = first_;
    turn.keep_sequence = true;
    turn.sequence = engine.answer(turn).sequence;
    second(engine, turn.sequence);
    return turn.sequence;
  }
  void second(RealEngine& engine, SequenceId sequence) const {
    Request turn = second_;
    turn.keep_sequence = true;
    turn.sequence = sequence;
    engine.answer(turn);
  }
  Progress third(RealEngine& engine, SequenceId sequence) const {
    Request turn = third_;
    turn.sequence = sequence;
    return engine.answer(turn);
  }

 private:
  Request first_, second_, third_;
};

TEST_P(OneAnswer, FreshSavedAndLoadedForkedTruncatedOrContinued) {
  const Conversation conversation(request(90, 5, 20), request(30, 6, 20), request(25, 7, 10));
  RealEngine whole = engine();
  const Progress want = conversation.third(whole, conversation.two_turns(whole));

  RealEngine saved = engine();
  const SequenceId sequence = conversation.two_turns(saved);
  const std::string path = cat(testing::TempDir(), ::getpid(), "_one_answer_test.state");
  ASSERT_TRUE(saved.engine->save(sequence, path));
  const SequenceId copy = *saved.engine->fork(sequence);
  EXPECT_TRUE(same_bits(conversation.third(saved, copy), want)) << "forked";

  RealEngine loaded = engine();
  std::string note;
  const Result<SequenceId> back = loaded.engine->load(path, &note);
  std::remove(path.c_str());
  ASSERT_TRUE(back) << back.error().text;
  EXPECT_EQ(note, "");
  EXPECT_TRUE(same_bits(conversation.third(loaded, *back), want)) << "loaded";

  ASSERT_TRUE(saved.engine->truncate(sequence, 110));
  conversation.second(saved, sequence);  // another history, to be left again
  ASSERT_TRUE(saved.engine->truncate(sequence, 110));
  conversation.second(saved, sequence);
  EXPECT_TRUE(same_bits(conversation.third(saved, sequence), want)) << "truncated to the first turn's end";
}

// What was kept in another format is computed again, and that is said.
TEST(Caches, OfAnotherFormatAreNotTaken) {
  const std::string path = cat(testing::TempDir(), ::getpid(), "_one_answer_cache.state");
  Request first, next;
  for (int32_t i = 0; i < 100; ++i) first.prompt.push_back(i * 7 % 700);
  first.max_tokens = 5;
  first.keep_sequence = true;
  EngineOptions options;
  RealEngine f16("deepseek_v3", "cpu", options);
  const SequenceId kept = f16.answer(first).sequence;
  ASSERT_TRUE(f16.engine->save(kept, path));
  options.cache = Format::bf16;
  RealEngine bf16("deepseek_v3", "cpu", options);
  EXPECT_NE(f16.engine->numerics_id(), bf16.engine->numerics_id());
  std::string note;
  const Result<SequenceId> loaded = bf16.engine->load(path, &note);
  std::remove(path.c_str());
  ASSERT_TRUE(loaded) << loaded.error().text;
  EXPECT_EQ(note, cat(path, ": was computed by ", f16.engine->numerics_id(), " and this is ",
                      bf16.engine->numerics_id(), ": its tokens are run again"));
  next.prompt = {1, 2, 3};
  next.max_tokens = 5;
  next.sequence = *loaded;
  const Progress again = bf16.answer(next);
  EXPECT_EQ(again.reused_tokens, 0u);

  Request whole;
  const History history = *f16.engine->history(kept);
  for (const HistoryToken& token : history) whole.prompt.push_back(token.token);
  whole.prompt.insert(whole.prompt.end(), {1, 2, 3});
  whole.max_tokens = 5;
  EXPECT_TRUE(same_bits(again, RealEngine("deepseek_v3", "cpu", options).answer(whole)));
}

TEST_P(OneAnswer, DroppedAndComputedAgain) {
  const uint32_t length = tokens(100, 40);
  EngineOptions tight = options(3, 64);
  tight.context = 192;
  tight.cache_positions = 256;
  RealEngine crowd = engine(tight);
  std::vector<RequestId> ids;
  for (uint32_t i = 0; i < 3; ++i) ids.push_back(crowd.submit(request(60, 20 + i, length)));
  crowd.run();
  EXPECT_GT(crowd.engine->stats().prompt_rows, 180u) << "nobody was dropped";
  for (uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(crowd.collect(ids[i]), alone(request(60, 20 + i, length))));
}

// Drafts that are mostly wrong, and such as repeat a text that repeats itself.
TEST_P(OneAnswer, DraftsOnOrOff) {
  EngineOptions drafting = options(2, 64);
  drafting.draft = {.kind = DraftKind::ngram, .tokens = 5, .always = true};
  RealEngine crowd = engine(drafting);
  std::vector<Request> asked;
  std::vector<RequestId> ids;
  for (uint32_t i = 0; i < 2; ++i) {
    Request one = request(30, 40 + i, tokens(250, 60));
    const std::vector<int32_t> again = one.prompt;
    one.prompt.insert(one.prompt.end(), again.begin(), again.end());
    one.sampling.temperature = i == 0 ? 0.0f : 0.8f;
    one.sampling.logit_bias = {{again[1], 8.0f}, {again[2], 8.0f}};
    asked.push_back(one);
    ids.push_back(crowd.submit(one));
  }
  crowd.run();
  const EngineStats stats = crowd.engine->stats();
  EXPECT_GT(stats.accepted, 0u);
  EXPECT_GT(stats.drafted, stats.accepted);
  for (uint32_t i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(crowd.collect(ids[i]), alone(asked[i]))) << i;
}

// Made before the first step, or behind some tokens of this answer.
TEST_P(OneAnswer, WeightsAreRepackedOrNot) {
  if (const char* reason = device().reason_against(Line::repacking)) GTEST_SKIP() << reason;
  const Request asked = request(100, 8, 24);
  const Progress want = alone(asked);
  for (const Repack repack : {Repack::first, Repack::behind}) {
    EngineOptions repacking = options();
    repacking.repack = repack;
    EXPECT_TRUE(same_bits(engine(repacking).answer(asked), want));
  }
}

// Of this device, in its own form.
uint64_t bytes_of_expert(const Model& model, const RealDevice& machine, const EngineOptions& options) {
  const Budget budget;
  const Result<MemoryPlan> plan = plan_memory(model, weight_files(model), *machine.device, budget, UINT64_MAX, options);
  CHECK(plan);
  return plan->experts.slot_bytes;
}

// Read as they are chosen, into fewer slots than the model has experts: each step stops and is resumed.
TEST_P(OneAnswer, ExpertsAreResidentOrStreamed) {
  EngineOptions streamed = options(2, 64);
  streamed.context = 512;  // a model's longest may be more than a buffer of the device holds
  const Model& model = real_model(GetParam().model);
  const RealDevice machine(RealDevice::Open(device().open), 1);
  const uint64_t slot = bytes_of_expert(model, machine, streamed);
  if (slot == 0) GTEST_SKIP() << "no experts, or none that this device reads as they are chosen";
  const Request asked = request(75, 1, 6), beside = request(9, 2, 6);
  const Progress want = alone(asked), want_beside = alone(beside);
  for (const uint64_t slots : {1, 5}) {
    streamed.experts.bytes = slots * slot;
    RealEngine reading = engine(streamed);
    const RequestId first = reading.submit(asked), second = reading.submit(beside);
    reading.run();
    EXPECT_TRUE(same_bits(reading.collect(first), want)) << slots << " slots";
    EXPECT_TRUE(same_bits(reading.collect(second), want_beside)) << slots << " slots";
    const std::optional<ExpertStats> stats = reading.engine->expert_stats();
    ASSERT_TRUE(stats);
    EXPECT_EQ(stats->slots, slots);
    EXPECT_GT(stats->misses, stats->slots) << "no expert made room for another";
  }
}

TEST_P(OneAnswer, CancellingOthersChangesNothing) {
  const Request asked = request(100, 8, 12);
  const Progress want = alone(asked);
  RealEngine crowd = engine(options(3, 64));
  const RequestId first = crowd.submit(request(30, 30, 50)), id = crowd.submit(asked);
  const RequestId third = crowd.submit(request(180, 31, 5));
  for (int i = 0; i < 4; ++i) crowd.engine->step();
  crowd.engine->cancel(first);
  crowd.engine->cancel(third);
  crowd.run();
  EXPECT_EQ(crowd.collect(first).finish, Finish::cancelled);
  EXPECT_TRUE(same_bits(crowd.collect(id), want));
}

std::string variant_name(const testing::TestParamInfo<Variant>& info) {
  std::string name = cat(info.param.device->name, "_", info.param.arithmetic == Arithmetic::exact ? "exact" : "fast",
                         "_", info.param.model, info.param.cache ? cat("_", format_name(*info.param.cache)) : "");
  for (char& c : name) c = c == ' ' ? '_' : c;
  return name;
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const AnswerDevice& device : answer_devices())
    for (const Arithmetic arithmetic : device.arithmetics) {
      for (const char* model : small_models_here()) all.push_back({&device, arithmetic, model});
      if (arithmetic == Arithmetic::exact) continue;
      for (const char* model : small_models_here()) all.push_back({&device, arithmetic, cat(model, " q8_0")});
      all.push_back({&device, arithmetic, "deepseek_v3", Format::bf16});
    }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Devices, OneAnswer, testing::ValuesIn(variants()), variant_name);

// An anchor outside of all that: transformers' greedy tokens (their smallest margin is far above f32's rounding).
class Golden : public testing::TestWithParam<const AnswerDevice*> {};

TEST_P(Golden, GreedyAnswersAreTransformers) {
  const AnswerDevice& device = *GetParam();
  if (!device.is_here()) GTEST_SKIP() << device.absent;
  for (const char* model : {"gemma4_dense", "gemma4_moe", "qwen3_5_moe"}) {
    EngineOptions options;
    options.arithmetic = Arithmetic::exact;
    RealEngine engine(real_model(model), RealDevice::Open(device.open), options);
    const std::string text = *read_file(cat(SLUICE_TEST_DATA, "/", model, "/golden.json"), 1u << 28);
    const Json golden = *parse_json(text, "golden.json");
    for (const Json& one : golden.find("cases")->as_array()) {
      if (one.find("kind")->as_string() == "image") continue;
      Request request;
      for (const Json& id : one.find("input_ids")->as_array())
        request.prompt.push_back(static_cast<int32_t>(id.as_integer()));
      request.sampling.temperature = 0;
      const Json::Array& greedy = one.find("greedy")->as_array();
      request.max_tokens = static_cast<uint32_t>(greedy.size());
      const Progress progress = engine.answer(request);
      ASSERT_EQ(progress.tokens.size(), greedy.size());
      for (size_t i = 0; i < greedy.size(); ++i) {
        ASSERT_EQ(progress.tokens[i].token, greedy[i].as_integer())
            << device.name << ", " << model << ", " << one.find("name")->as_string() << ", token " << i;
      }
    }
  }
}

std::vector<const AnswerDevice*> device_pointers() {
  std::vector<const AnswerDevice*> all;
  for (const AnswerDevice& device : answer_devices()) all.push_back(&device);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Devices, Golden, testing::ValuesIn(device_pointers()),
                         [](const auto& one) { return std::string(one.param->name); });

}  // namespace
}  // namespace sluice
