// `sluice bench` as a user runs it, and the synthetic models that it measures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <set>

#include "app/bench/bench_model.h"
#include "app/bench/bench_ops.h"
#include "app/bench/bench_routing.h"
#include "app/bench/bench_runs.h"
#include "app/commands.h"
#include "app/plan/read_bandwidth.h"
#include "base/files/file.h"
#include "base/text.h"
#include "device/cpu/cpu.h"
#include "device/reference/reference.h"
#include "engine/session.h"
#include "tests/app/json_fields.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string kMoe = SLUICE_TEST_DATA "/gemma4_moe";

// A shape with a small vocabulary, in memory.
Result<Model> small_model(const char* shape, ThreadPool& pool, Budget& budget, const Routing& routing = {}) {
  TRY(ShapeConfig config, find_shape(shape));
  for (auto& [name, value] : config.config.as_object())
    if (name == "vocab_size") value = 1024;
  TRY(const SyntheticModel synthetic, SyntheticModel::make(config, *find_mix("q4_k_m"), routing));
  return place_synthetic(synthetic, pool, budget);
}

// Nothing explodes or vanishes on the way: logits are finite, differ, and are of the size of normal numbers.
TEST(SyntheticModels, GiveFiniteLogits) {
  ThreadPool pool(2);
  const auto device = make_cpu_device({.pool = &pool});
  for (const char* shape : {"gemma4-e2b:7", "qwen3.5-0.8b:8", "qwen3.6-35b-a3b:1", "deepseek-v3:1:0:8"}) {
    Budget budget;
    const Result<Model> model = small_model(shape, pool, budget);
    ASSERT_TRUE(model) << model.error().text;
    const Result<std::unique_ptr<Engine>> engine = Engine::create(*model, *device, budget, {.context = 64});
    ASSERT_TRUE(engine) << engine.error().text;
    Session session(**engine);
    Request request;
    request.prompt = random_tokens(20, 1024, 0);
    request.max_tokens = 2;
    request.sampling.temperature = 0;
    request.logits_at = {3, 19};
    const Result<Answer> answer = session.run(std::move(request));
    ASSERT_TRUE(answer) << shape << ": " << answer.error().text;
    double squares = 0, differences = 0;
    for (size_t i = 0; i < 1024; ++i) {
      squares += std::pow(answer->logits[i], 2) / 1024;
      differences += std::pow(answer->logits[i] - answer->logits[1024 + i], 2) / 1024;
    }
    EXPECT_GT(squares, 0.3) << shape;
    EXPECT_LT(squares, 3) << shape;
    EXPECT_GT(differences, 0.1) << shape;
    EXPECT_GT(budget.lines().front().bytes, 0u);
  }
}

TEST(SyntheticModels, RouteAsTheyAreAskedTo) {
  ThreadPool pool(2);
  const auto device = make_cpu_device({.pool = &pool});
  const auto favourites = [&](const Routing& routing) {
    Budget budget;
    const Result<Model> model = small_model("qwen3.6-35b-a3b:1", pool, budget, routing);
    const Result<RoutingShares> shares = measure_routing(*model, *device, budget, Arithmetic::fast);
    EXPECT_EQ(shares->chosen.size(), 256u);
    EXPECT_EQ(shares->used, 8u);
    double sum = 0;
    for (const double chosen : shares->chosen) sum += chosen;
    EXPECT_NEAR(sum, 8, 1e-6);
    return shares->favourites();
  };
  const double alike = favourites({}), skewed = favourites({.exponent = 1.0});
  EXPECT_LT(alike, 0.35);   // 0.125 but for chance: 512 choices of 256 experts
  EXPECT_GT(skewed, 0.45);  // 0.62 by the law
}

TEST(MeteredDevice, TimesEveryOpOfAStepOnEveryDevice) {
  ThreadPool pool(1);
  const Result<Checkpoint> checkpoint = open_checkpoint(kMoe);
  const Result<Model> model = resolve(std::make_shared<const Checkpoint>(*checkpoint));
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(make_cpu_device({.pool = &pool}));
  devices.push_back(make_reference_device());
  for (const std::unique_ptr<Device>& device : devices) {
    Budget budget;
    Meter meter;
    MeteredDevice metered(*device, meter);
    const auto engine = Engine::create(*model, metered, budget, {.context = 256, .sequences = 2});
    ASSERT_TRUE(engine) << engine.error().text;
    BenchRunner runner(**engine, meter, 768);
    const auto steps = runner.timed_steps({TokenClass::decode, 3, 70, 1});
    ASSERT_TRUE(steps) << steps.error().text;
    ASSERT_EQ(steps->size(), 3u);
    const auto ops = static_cast<uint32_t>(meter.facts().program->ops.size());
    for (const MeteredStep& step : *steps) {
      EXPECT_EQ(step.work.sequences.size(), 1u);
      EXPECT_EQ(step.work.sequences[0].first_position, 71 + (&step - steps->data()));
      uint32_t next = 0;
      for (const OpTime& time : step.op_times) {
        EXPECT_EQ(time.first_op, next);
        next = time.end_op;
      }
      EXPECT_EQ(next, ops);
    }
    uint64_t calls = 0;
    for (const OpShare& share : op_shares(meter.facts(), *steps)) calls += share.calls;
    EXPECT_EQ(calls, 3 * steps->front().op_times.size());
    Result<ReadBandwidth> bandwidth = ReadBandwidth::open(pool, budget);
    ASSERT_TRUE(bandwidth);
    const BenchYardsticks yardsticks{.memory = [&] { return bandwidth->measure(); }};
    EXPECT_TRUE(runner.run({TokenClass::prompt, 5, 0, 2}, 1, yardsticks));
    EXPECT_TRUE(meter.steps().front().op_times.empty());
  }
}

// A greedy answer of the same model soon repeats itself, and with it its experts.
TEST(Bench, StreamedExpertsAreTimedWithRandomTokens) {
  ThreadPool pool(1);
  const auto cpu = make_cpu_device({.pool = &pool});
  const Result<Checkpoint> checkpoint = open_checkpoint(kMoe);
  const Result<Model> model = resolve(std::make_shared<const Checkpoint>(*checkpoint));
  Budget budget;
  Meter meter;
  meter.keep_uses = true;
  MeteredDevice device(*cpu, meter);
  EngineOptions options{.context = 128};
  options.experts.bytes = 200000;
  const auto engine = Engine::create(*model, device, budget, options);
  ASSERT_TRUE(engine) << engine.error().text;
  BenchRunner runner(**engine, meter, 768);
  const auto choices = [&] {
    const BenchYardsticks yardsticks{.memory = [] { return 0.0; },
                                     .disk = [&](uint64_t block) -> Result<double> {
                                       EXPECT_EQ(block, runner.disk_block());
                                       return 1e9;
                                     }};
    const Result<BenchResult> result = runner.run({TokenClass::decode, 64, 0, 1}, 1, yardsticks);
    EXPECT_TRUE(result);
    EXPECT_GT(result->disk_rate.median, 0);
    EXPECT_EQ(result->disk_bandwidth.median, 1e9);
    EXPECT_DOUBLE_EQ(result->disk_share.median, result->disk_rate.median / 1e9);
    const RoutingTrace trace = recorded_routing(meter);
    EXPECT_EQ(trace.tokens(), 64u);
    std::set<std::vector<uint32_t>> seen;
    for (size_t token = 0; token < trace.tokens(); ++token)
      seen.emplace(trace.at(token, 0).begin(), trace.at(token, 0).end());
    return seen.size();
  };
  EXPECT_GT(choices(), 12u);  // of 28 pairs
}

TEST(OpShares, TheSlowerOfBandwidthAndComputingIsTheLimit) {
  OpShare share{.seconds = 2, .cost = {.weight_bytes = 100, .flops = 300}};
  EXPECT_DOUBLE_EQ(share.limit_share(100, {.f32 = 1000, .integers = 3000}), 0.5);
  EXPECT_DOUBLE_EQ(share.limit_share(1000, {.f32 = 200, .integers = 3000}), 0.75);
  EXPECT_DOUBLE_EQ(share.limit_share(1000, {}), 0.05);
  share.blocks = true;
  EXPECT_DOUBLE_EQ(share.limit_share(1000, {.f32 = 200, .integers = 3000}), 0.05);
}

TEST(Bench, PrintsATableAndWhereTheTimeGoes) {
  const ProgramResult result = run_sluice(
      {"bench", kMoe, "--prompt", "65", "--answer", "3", "--batch", "1,2", "--rounds", "2", "--threads", "1", "--ops"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("model     " + kMoe + ", bf16: 0.00"));
  EXPECT_THAT(result.out, HasSubstr("\npeaks     f32 "));
  EXPECT_THAT(result.out, HasSubstr("\nnumerics  cpu/"));
  EXPECT_THAT(result.out, HasSubstr("\nready     after "));
  EXPECT_THAT(result.out, HasSubstr("\nrouting   the favourite eighth of the 8 experts gets "));
  EXPECT_THAT(result.out, HasSubstr("\ntest            depth  batch  tokens/s"));
  EXPECT_THAT(result.out, HasSubstr("\nprompt 65           0      2 "));
  EXPECT_THAT(result.out, HasSubstr("\ndecode 3            0      1 "));
  EXPECT_THAT(result.out, HasSubstr("\nops of decode 3, depth 0, batch 2\n"));
  EXPECT_THAT(result.out, HasSubstr("\nexperts           bf16 8 x 32 x 64, "));
}

TEST(Bench, TimesATowerOpByOp) {
  const std::string model = SLUICE_TEST_DATA "/qwen3_5_moe";
  const ProgramResult result =
      run_sluice({"bench", model, "--image", "96x64", "--rounds", "2", "--threads", "1", "--ops"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\npicture   96 x 64, "));
  EXPECT_THAT(result.out, HasSubstr(" tokens: prepared in "));
  EXPECT_THAT(result.out, HasSubstr("\nops of the picture\n"));
  EXPECT_THAT(result.out, HasSubstr("attention"));
  const auto refusal = [](const std::string& one, const std::string& more) {
    return run_sluice({"bench", SLUICE_TEST_DATA "/gemma4_moe", "--image", one, more}).err;
  };
  EXPECT_THAT(refusal("96", "--ops"),
              HasSubstr("bench: --image: found 96: want WIDTHxHEIGHT in pixels, each up to 8192"));
  EXPECT_THAT(refusal("96x96", "--json"), HasSubstr("bench: --image and --json: want one of them"));
  EXPECT_THAT(refusal("96x96", "--ops"), HasSubstr("has no vision tower: want a model that takes pictures"));
  EXPECT_THAT(refusal("96x96", "--sound=1"), HasSubstr("bench: --image and --sound: want one of them"));
}

TEST(Bench, TimesSequencesWithAdapters) {
  const ProgramResult result = run_sluice({"bench", kMoe, "--prompt", "8", "--answer", "2", "--batch", "3", "--rounds",
                                           "1", "--threads", "1", "--adapter-rank", "3", "--adapters", "2"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\ndecode 2"));
  EXPECT_EQ(run_sluice({"bench", kMoe, "--adapter-rank", "-1"}).status, 2);
}

TEST(Bench, TimesATrainingStepBesideItsForwardPass) {
  const ProgramResult result = run_sluice({"bench", kMoe, "--train", "16", "--adapter-rank", "2", "--rounds", "1",
                                           "--threads", "1", "--keep-layers", "3", "--ops"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\ntraining  16 tokens, rank 2, 3 layers kept: "));
  EXPECT_THAT(result.out, HasSubstr(" forward passes\n"));
  EXPECT_THAT(result.out, HasSubstr("\nlinear_transposed"));
  EXPECT_EQ(run_sluice({"bench", kMoe, "--train", "1"}).status, 2);
  EXPECT_THAT(run_sluice({"bench", kMoe, "--keep-layers", "3"}).err, HasSubstr("--keep-layers: want --train, too"));
  EXPECT_THAT(run_sluice({"bench", kMoe, "--train", "16", "--json"}).err,
              HasSubstr("bench: --train and --json: want one of them"));
}

// 0.3 s.
TEST(Bench, TimesARecordedTextWithAndWithoutDrafts) {
  const TemporaryFolder folder;
  const std::string text = folder.path("text"), empty = folder.path("empty");
  std::string words;
  for (int i = 0; i < 60; ++i) words += cat("word", i % 7, " number", i % 11, "\n");
  ASSERT_TRUE(write_file(text, words).ok());
  ASSERT_TRUE(write_file(empty, "").ok());
  const auto bench = [&](const std::string& files, const std::string& model) {
    return run_sluice({"bench", model, "--recorded", files, "--rounds", "1", "--threads", "1"});
  };
  const ProgramResult result = bench(cat(text, ",", text), "demo");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, testing::ContainsRegex("recorded  an answer of [0-9]+ tokens behind [0-9]+\n"
                                                 "without   .* tokens/s .*\nwith      .* tokens/s .*\n"
                                                 "ratio     .*\nguesses   [0-9]+, [0-9]+ of them right"));
  EXPECT_EQ(bench(text, "demo").status, 2);
  EXPECT_EQ(run_sluice({"bench", "demo", "--draft", "ngram"}).status, 2) << "nothing is drafted without a text";
  EXPECT_THAT(bench(cat(text, ",", empty), "demo").err, HasSubstr("empty: has 0 tokens: want at least 2"));
  EXPECT_THAT(bench(cat(text, ",", text, "x"), "demo").err, HasSubstr("textx"));
}

TEST(Bench, TimesASound) {
  const ProgramResult result =
      run_sluice({"bench", "demo", "--sound", "1", "--rounds", "1", "--threads", "1", "--ops"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\nsound     1 s, 25 tokens: prepared in "));
  EXPECT_THAT(result.out, HasSubstr("\nops of the sound\n"));
}

TEST(Bench, JsonIsAsDocumented) {
  const CommandSpec command = *find_command("bench");
  const ProgramResult result = run_sluice({"bench", kMoe, "--prompt", "4", "--answer", "2", "--depth", "64", "--rounds",
                                           "1", "--threads", "1", "--ops", "--json", "--device", "reference"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Result<Json> json = parse_json(result.out, "standard output");
  ASSERT_TRUE(json) << result.out;
  std::set<std::string> seen;
  expect_known_fields(command, *json, seen);
  expect_all_fields(command, seen);
}

TEST(Bench, WritesASyntheticModelThatOtherCommandsRead) {
  const TemporaryFolder folder;
  const std::string path = folder.path("made.gguf");
  const ProgramResult written = run_sluice({"bench", "--shape", "qwen3.5-0.8b:1", "--format", "q2_k", "--write", path});
  ASSERT_EQ(written.status, 0) << written.err;
  EXPECT_THAT(written.out, StartsWith(path + ": 16 tensors, "));
  const ProgramResult inspected = run_sluice({"inspect", path});
  EXPECT_THAT(inspected.out, HasSubstr("family          qwen35\n"));
  EXPECT_THAT(inspected.out, HasSubstr("layers          1\n"));
  const ProgramResult answered = run_sluice({"run", path, "--raw", "--max-tokens", "1", "--greedy", "ab"});
  EXPECT_EQ(answered.status, 0) << answered.err;
}

TEST(Bench, MistakesInArgumentsAreSentences) {
  const auto sentence = [](std::vector<std::string> words) {
    words.insert(words.begin(), "bench");
    const ProgramResult result = run_sluice(words);
    EXPECT_EQ(result.status, 2) << result.out;
    return result.err;
  };
  EXPECT_EQ(sentence({"--prompt", "12,x"}),
            "sluice: bench: --prompt: found x: want numbers from 0 to 16777216 with commas between them\n");
  EXPECT_EQ(sentence({"--batch", "0"}),
            "sluice: bench: --batch: found 0: want numbers from 1 to 4096 with commas between them\n");
  EXPECT_EQ(sentence({"--prompt", "0", "--answer", "0"}),
            "sluice: bench: --prompt 0 and --answer 0: want something to measure\n");
  EXPECT_EQ(sentence({"--write", "x.gguf"}),
            "sluice: bench: --write without --shape: want one, since it is of a synthetic model\n");
  EXPECT_EQ(sentence({"demo", "--shape", "gemma4-e2b"}), "sluice: bench: --shape and MODEL: want one of them\n");
  EXPECT_THAT(sentence({"--shape", "gpt-5"}), HasSubstr("shape gpt-5: no such shape: want one of gemma4-e2b, "));
  EXPECT_EQ(sentence({"--shape", "gemma4-e2b", "--routing", "fair"}),
            "sluice: routing fair: want uniform, or zipf:S with S from 0 to 4\n");
  const std::string recorded = cat(testing::TempDir(), ::getpid(), "_routing");
  ASSERT_TRUE(write_routing({.layers = 1, .experts = 4, .used = 2, .chosen = {0, 1, 0, 3}}, recorded).ok());
  EXPECT_EQ(sentence({"--shape", "qwen3.6-35b-a3b:1", "--routing", recorded.c_str()}),
            "sluice: routing: recorded of 4 experts: want the 256 of qwen3.6-35b-a3b:1\n");
  std::remove(recorded.c_str());
}

TEST(Bench, RecordedRoutingGivesSharesByRank) {
  const RoutingShares shares = shares_of({.layers = 2, .experts = 3, .used = 1, .chosen = {0, 2, 0, 2, 0, 1}});
  EXPECT_EQ(shares.tokens, 3u);
  EXPECT_NEAR(shares.chosen[0], (4.0 / 6 + 3.0 / 6) / 2, 1e-9);
  EXPECT_NEAR(shares.chosen[0] + shares.chosen[1] + shares.chosen[2], 1, 1e-9);
}

TEST(Bench, AModelBeyondTheMemoryIsRefusedBeforeItIsMade) {
  const ProgramResult result = run_sluice({"bench", "--shape", "deepseek-v3", "--memory", "1G"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("host"));
}

}  // namespace
}  // namespace sluice
