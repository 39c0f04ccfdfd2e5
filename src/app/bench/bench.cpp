// sluice bench: how fast a model reads prompts and answers here, and how near that is to what memory allows.
#include <algorithm>
#include <optional>
#include <utility>

#include "app/bench/bench_drafts.h"
#include "app/bench/bench_media.h"
#include "app/bench/bench_model.h"
#include "app/bench/bench_ops.h"
#include "app/bench/bench_report.h"
#include "app/bench/bench_routing.h"
#include "app/bench/bench_runs.h"
#include "app/bench/bench_training.h"
#include "app/cli/console.h"
#include "app/cli/interrupt.h"
#include "app/commands.h"
#include "app/open/open.h"
#include "app/plan/disk_bandwidth.h"
#include "app/plan/read_bandwidth.h"
#include "app/run/expert_report.h"
#include "app/run/run_report.h"
#include "app/train/kept_layers_option.h"
#include "base/text.h"
#include "checkpoint/file_type.h"

namespace sluice {
namespace {

constexpr uint32_t kMostTokens = 1u << 24, kMostBatch = 4096;

struct BenchRequest {
  std::vector<BenchTest> tests;
  uint32_t rounds = 3;
  bool ops = false;
  std::optional<MediaTest> media;
  std::optional<TrainingTest> training;
  std::optional<RecordedFiles> recorded;
  std::optional<SyntheticModel> synthetic;  // in place of a model file
};

// "512,4096": numbers from `least` to `most`.
Result<std::vector<uint32_t>> parse_list(const Arguments& arguments, const char* option, uint32_t least,
                                         uint32_t most) {
  std::vector<uint32_t> numbers;
  for (const std::string& part : split(arguments.text(option), ',')) {
    const auto number = parse_integer(part);
    if (!number || *number < least || *number > most)
      return error(ErrorKind::invalid, "bench: ", option, ": found ", printable(part), ": want numbers from ", least,
                   " to ", most, " with commas between them");
    numbers.push_back(static_cast<uint32_t>(*number));
  }
  return numbers;
}

// Every depth with every batch: first the prompts, then the answer.
Result<std::vector<BenchTest>> parse_tests(const Arguments& arguments) {
  TRY(const std::vector<uint32_t> prompts, parse_list(arguments, "--prompt", 0, kMostTokens));
  TRY(const std::vector<uint32_t> depths, parse_list(arguments, "--depth", 0, kMostTokens));
  TRY(const std::vector<uint32_t> batches, parse_list(arguments, "--batch", 1, kMostBatch));
  const auto answer = static_cast<uint32_t>(arguments.integer("--answer"));
  std::vector<BenchTest> tests;
  for (const uint32_t depth : depths)
    for (const uint32_t batch : batches) {
      for (const uint32_t prompt : prompts)
        if (prompt != 0) tests.push_back({TokenClass::prompt, prompt, depth, batch});
      if (answer != 0) tests.push_back({TokenClass::decode, answer, depth, batch});
    }
  if (tests.empty()) return error(ErrorKind::invalid, "bench: --prompt 0 and --answer 0: want something to measure");
  return tests;
}

Status parse_media(const Arguments& arguments, BenchRequest& request) {
  const bool image = arguments.given("--image");
  if (!image && !arguments.given("--sound")) return {};
  const char* const shown = image ? "--image" : "--sound";
  for (const char* name : {"--sound", "--shape", "--json"})
    if (arguments.given(name) && name != std::string_view(shown))
      return error(ErrorKind::invalid, "bench: ", shown, " and ", name, ": want one of them");
  if (image)
    TRY_ASSIGN(request.media, parse_image_test(arguments.text("--image")));
  else
    request.media = MediaTest{.seconds = static_cast<uint32_t>(arguments.integer("--sound"))};
  request.media->rounds = request.rounds;
  request.media->ops = request.ops;
  return {};
}

Status parse_training(const Arguments& arguments, BenchRequest& request) {
  if (!arguments.given("--train")) {
    if (arguments.given("--keep-layers")) return error(ErrorKind::invalid, "bench: --keep-layers: want --train, too");
    return {};
  }
  for (const char* name : {"--image", "--sound", "--json"})
    if (arguments.given(name)) return error(ErrorKind::invalid, "bench: --train and ", name, ": want one of them");
  request.training = TrainingTest{
      .tokens = static_cast<uint32_t>(arguments.integer("--train")), .rounds = request.rounds, .ops = request.ops};
  if (const int64_t rank = arguments.integer("--adapter-rank"); rank != 0)
    request.training->rank = static_cast<uint32_t>(rank);
  return {};
}

Status parse_recorded(const Arguments& arguments, BenchRequest& request) {
  if (!arguments.given("--recorded")) {
    for (const char* name : {"--tokenizer", "--draft", "--draft-model", "--draft-tokens", "--draft-right"})
      if (arguments.given(name)) return error(ErrorKind::invalid, "bench: ", name, ": want --recorded, too");
    return {};
  }
  for (const char* name : {"--image", "--sound", "--train", "--json", "--ops"})
    if (arguments.given(name)) return error(ErrorKind::invalid, "bench: --recorded and ", name, ": want one of them");
  const std::vector<std::string> files = split(arguments.text("--recorded"), ',');
  if (files.size() != 2)
    return error(ErrorKind::invalid, "bench: --recorded: found ", printable(arguments.text("--recorded")),
                 ": want a prompt's file and an answer's with a comma between them");
  request.recorded = RecordedFiles{.prompt = files[0], .answer = files[1], .tokenizer = arguments.text("--tokenizer")};
  if (request.recorded->tokenizer.empty() && arguments.given("--shape")) request.recorded->tokenizer = kDemoName;
  return {};
}

// An error is a mistake in the arguments.
Result<BenchRequest> parse_request(const Arguments& arguments) {
  BenchRequest request;
  TRY(request.tests, parse_tests(arguments));
  request.rounds = static_cast<uint32_t>(arguments.integer("--rounds"));
  request.ops = arguments.flag("--ops");
  TRY_STATUS(parse_media(arguments, request));
  TRY_STATUS(parse_training(arguments, request));
  TRY_STATUS(parse_recorded(arguments, request));
  if (!arguments.given("--shape")) {
    for (const char* name : {"--format", "--routing", "--write", "--write-mmproj"})
      if (arguments.given(name))
        return error(ErrorKind::invalid, "bench: ", name,
                     " without --shape: want one, since it is of a synthetic model");
    return request;
  }
  if (!arguments.positionals().empty()) return error(ErrorKind::invalid, "bench: --shape and MODEL: want one of them");
  TRY(request.synthetic, synthetic_model(arguments));
  return request;
}

EngineOptions engine_options(const BenchRequest& request, const Arguments& arguments) {
  EngineOptions options{.arithmetic = parse_arithmetic(arguments.text("--arithmetic")),
                        .repack = repack(arguments),
                        .experts = expert_options(arguments)};
  for (const BenchTest& test : request.tests) {
    options.context = std::max(options.context, test.depth + test.length + 2);
    options.sequences = std::max(options.sequences, test.batch);
  }
  return options;
}

// Adapters of --adapter-rank, as many different ones as --adapters says.
Result<std::vector<AdapterSum>> made_adapters(const Model& model, const Arguments& arguments) {
  std::vector<AdapterSum> sums;
  const auto rank = static_cast<uint32_t>(arguments.integer("--adapter-rank"));
  const int64_t count = rank == 0 ? 0 : arguments.integer("--adapters");
  sums.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    TRY(std::shared_ptr<const Adapter> adapter, Adapter::made(model, rank, static_cast<uint64_t>(i)));
    sums.push_back({{.adapter = std::move(adapter)}});
  }
  return sums;
}

uint64_t weight_bytes(const Model& model) {
  uint64_t bytes = 0;
  for (const BoundWeight& weight : model.weights().all()) {
    const WeightShape& shape = weight.tensor.shape;
    bytes += uint64_t{shape.experts} * shape.rows * row_bytes(weight.tensor.format, shape.columns);
  }
  return bytes;
}

BenchFacts facts_of(const Model& model, const Machine& machine, const Arguments& arguments) {
  return {.model = model.checkpoint().path(),
          .format = format_label(model.checkpoint()),
          .device = machine.device->info().description,
          .arithmetic = arguments.text("--arithmetic"),
          .numerics_id = {},
          .threads = machine.pool->threads(),
          .parameters = model.facts().parameters,
          .weight_bytes = weight_bytes(model),
          .peaks = peaks_of(*machine.device),
          .routing = {},
          .ready_seconds = 0};
}

Result<Model> model_of(const BenchRequest& request, const Arguments& arguments, Machine& machine) {
  if (request.synthetic) {
    // The weights of a synthetic model lie in memory; there is no file to read them from.
    machine.bounds.host.by = MemoryBound::By::share;
    machine.bounds.lease_rows = false;
    machine.budget.count_mapped(Domain::host, false);
    return place_synthetic(*request.synthetic, *machine.pool, machine.budget);
  }
  const std::string name = arguments.positionals().empty() ? kDemoName : arguments.positionals()[0];
  if (!request.media && !request.recorded) {
    TRY(const std::string path, model_path(name));
    return open_model(path);
  }
  TRY(ModelFiles files, model_files(name, arguments));
  if (!request.media) files.projector.clear();
  return open_model(files, arguments);
}

// The test for which a speed is forecast: the first one with the answer of a single sequence.
const BenchTest* foreseen_test(const std::vector<BenchTest>& tests) {
  const auto found = std::ranges::find_if(
      tests, [](const BenchTest& test) { return test.token_class == TokenClass::decode && test.batch == 1; });
  return found == tests.end() ? nullptr : &*found;
}

// A forecast is made if memory is bounded, and on a GPU, as for `run --stats`.
Result<std::optional<Forecast>> foresee_test(const BenchTest* test, const Model& model, Machine& machine,
                                             const EngineOptions& options) {
  const bool on_host = machine.device->info().memory == Domain::host;
  if (test == nullptr || options.experts.bytes != 0 || (on_host && !machine.bound().strict()))
    return std::optional<Forecast>();
  measure_reserve(machine);
  TRY(Foresight foresight,
      foresee(model, weight_files(model), machine, options, {.depth = test->depth + test->length / 2}));
  return std::optional<Forecast>(std::move(foresight.forecast));
}

// Of the device's memory, in bytes a second.
Result<double> memory_bandwidth(Machine& machine) {
  if (machine.device->info().memory != Domain::host) return copying_bandwidth(*machine.device);
  TRY(ReadBandwidth host, ReadBandwidth::open(*machine.pool, machine.budget, UINT64_MAX));
  return host.measure();
}

Status measure_media(const MediaTest& test, const Model& model, Machine& machine, Arithmetic arithmetic,
                     const BenchFacts& facts, Console& console) {
  Meter meter;
  MeteredDevice device(*machine.device, meter);
  TRY(MediaResult result, bench_media(model, device, meter, machine.budget, arithmetic, test));
  TRY(result.bandwidth, memory_bandwidth(machine));
  console.table(bench_text(facts) + media_text(facts, result));
  return {};
}

Status measure_training(const TrainingTest& test, const Model& model, Machine& machine, const Arguments& arguments,
                        const BenchFacts& facts, Console& console) {
  Meter meter;
  MeteredDevice device(*machine.device, meter);
  TRY(TrainingResult result, bench_training(model, device, meter, machine, arguments, test));
  TRY(result.bandwidth, memory_bandwidth(machine));
  console.table(bench_text(facts) + training_text(facts, result));
  return {};
}

Status measure_recorded(const RecordedFiles& files, uint32_t rounds, const Model& model, Machine& machine,
                        const Arguments& arguments, const BenchFacts& facts, Console& console) {
  TRY(const RecordedTest test, read_recorded(files, model, rounds));
  EngineOptions options{.arithmetic = parse_arithmetic(arguments.text("--arithmetic")), .repack = repack(arguments)};
  options.context = test.tokens() + 1;
  options.draft = draft_of(arguments);
  TRY_STATUS(settle_options(options, *machine.device, model));
  options.draft.right_share = static_cast<float>(arguments.number("--draft-right"));
  options.experts = expert_options(arguments);
  TRY(const std::unique_ptr<Engine> engine, open_engine(model, *machine.device, machine, options, console));
  TRY(const RecordedResult result, bench_recorded(*engine, test));
  console.table(bench_text(facts) + recorded_text(result));
  return {};
}

// Prints each line of the table as it is known.
Result<BenchReport> measure(const BenchRequest& request, const Arguments& arguments, Console& console) {
  const bool text = !arguments.flag("--json");
  TRY(Machine machine, open_machine(arguments));
  const uint64_t opened = nanoseconds();
  TRY(const Model model, model_of(request, arguments, machine));
  const double opening = seconds_since(opened);
  const Arithmetic arithmetic = parse_arithmetic(arguments.text("--arithmetic"));
  BenchReport report{.facts = facts_of(model, machine, arguments), .results = {}, .ops = {}};
  if (arithmetic == Arithmetic::exact) report.facts.peaks.integers = 0;  // exact arithmetic uses no integers
  if (request.media) {
    TRY_STATUS(measure_media(*request.media, model, machine, arithmetic, report.facts, console));
    return report;
  }
  if (request.training) {
    TRY_STATUS(measure_training(*request.training, model, machine, arguments, report.facts, console));
    return report;
  }
  const bool on_host = machine.device->info().memory == Domain::host;
  if (request.recorded) {
    TRY_STATUS(measure_recorded(*request.recorded, request.rounds, model, machine, arguments, report.facts, console));
    return report;
  }
  // A model that does not fit is not placed as a whole to trace it.
  if (machine.bound().by != MemoryBound::By::request) {
    Result<RoutingShares> routing = measure_routing(model, *machine.device, machine.budget, arithmetic);
    if (!routing && (on_host || routing.error().kind != ErrorKind::out_of_memory)) return routing.error();
    if (routing) report.facts.routing = *std::move(routing);
  }
  Meter meter;
  MeteredDevice device(*machine.device, meter);
  // Held beside the model, so that within a bound it is a small part.
  const uint64_t most = machine.bounds.host.strict() ? machine.budget.left(Domain::host) / 16 : UINT64_MAX;
  std::optional<ReadBandwidth> of_host;
  if (on_host) TRY_ASSIGN(of_host, ReadBandwidth::open(*machine.pool, machine.budget, most));
  const BenchYardsticks yardsticks{
      .memory = [&] { return of_host ? of_host->measure() : copying_bandwidth(*machine.device); },
      .disk = [&](uint64_t block) { return measure_disk(model.checkpoint().files(), block); }};
  EngineOptions options = engine_options(request, arguments);
  TRY_STATUS(settle_options(options, *machine.device, model));
  TRY(options.adapters, made_adapters(model, arguments));
  const BenchTest* const answer = foreseen_test(request.tests);
  TRY(const std::optional<Forecast> foreseen, foresee_test(answer, model, machine, options));
  const uint64_t placed = nanoseconds();
  TRY(const std::unique_ptr<Engine> engine, open_engine(model, device, machine, options, console));
  report.facts.ready_seconds = opening + seconds_since(placed);
  meter.set_expert_shares(report.facts.routing.chosen);
  report.facts.numerics_id = engine->numerics_id();
  if (text) console.table(bench_text(report.facts) + bench_head());
  BenchRunner runner(*engine, meter, model.facts().vocabulary, options.adapters);
  for (const BenchTest& test : request.tests) {
    TRY(const BenchResult result, runner.run(test, request.rounds, yardsticks));
    if (text) console.table(bench_line(result));
    report.results.push_back(result);
  }
  if (foreseen) {
    report.foreseen = foreseen->tokens_per_second;
    const auto seen = static_cast<size_t>(answer - request.tests.data());
    if (text) console.out(plan_line(*foreseen, report.results[seen].tokens_per_second.median));
  }
  if (const auto experts = engine->expert_stats(); experts && experts->reads != 0) {
    report.disk_block = runner.disk_block();
    if (text) console.table(expert_text(*experts) + disk_text(report));
  }
  for (size_t i = 0; i < request.tests.size() && request.ops; ++i) {
    TRY(const std::vector<MeteredStep> steps, runner.timed_steps(request.tests[i]));
    report.ops.push_back(op_shares(meter.facts(), steps));
    if (text) console.table(ops_text(report.facts, report.results[i], report.ops.back()));
  }
  TRY_STATUS(model.checkpoint().check_unchanged());
  return report;
}

Result<int> run(const Arguments& arguments, Console& console) {
  watch_interrupts();
  const Result<BenchRequest> request = parse_request(arguments);
  if (!request) {
    console.err(cat("sluice: ", request.error().text, "\n"));
    return kUsageExit;
  }
  if (arguments.given("--write-mmproj")) {
    const std::string path = arguments.text("--write-mmproj");
    TRY(const SyntheticModel towers, synthetic_towers(arguments));
    TRY_STATUS(write_synthetic_towers(towers, path, console));
    console.out(cat(path, ": ", towers.tensors().size(), " tensors, ", format_bytes(towers.bytes()), '\n'));
    if (!arguments.given("--write")) return 0;
  }
  if (arguments.given("--write")) {
    const std::string path = arguments.text("--write");
    TRY_STATUS(write_synthetic(*request->synthetic, path, console));
    console.out(cat(path, ": ", request->synthetic->tensors().size(), " tensors, ",
                    format_bytes(request->synthetic->bytes()), ", ", arguments.text("--format"), '\n'));
    return 0;
  }
  TRY(const BenchReport report, measure(*request, arguments, console));
  if (arguments.flag("--json")) console.json(bench_json(report));
  return 0;
}

std::vector<OptionSpec> test_options() {
  return {
      {.name = "--prompt",
       .argument = "N,...",
       .kind = OptionKind::text,
       .fallback = "512",
       .help = "tokens of the prompts to read; 0 reads none"},
      {.name = "--answer",
       .argument = "N",
       .kind = OptionKind::integer,
       .fallback = "128",
       .help = "tokens to decode, one after another; 0 decodes none",
       .most = kMostTokens},
      {.name = "--depth",
       .argument = "N,...",
       .kind = OptionKind::text,
       .fallback = "0",
       .help = "tokens of history before the measured ones"},
      {.name = "--batch", .argument = "N,...", .kind = OptionKind::text, .fallback = "1", .help = "sequences at once"},
      {.name = "--rounds",
       .argument = "N",
       .kind = OptionKind::integer,
       .fallback = "3",
       .help = "rounds of each measurement, after one that does not count",
       .least = 1,
       .most = 1000},
      {.name = "--image",
       .argument = "WxH",
       .kind = OptionKind::text,
       .help = "measures the vision tower with a picture of so many pixels instead of prompts and answers"},
      {.name = "--sound",
       .argument = "SECONDS",
       .kind = OptionKind::integer,
       .help = "the same of the audio tower with a sound of so many seconds",
       .least = 1,
       .most = 3600},
      {.name = "--train",
       .argument = "N",
       .kind = OptionKind::integer,
       .help =
           "measures a training step of so many tokens instead, beside its forward pass alone; the adapter has rank "
           "16 or --adapter-rank",
       .least = 2,
       .most = 65536},
      keep_layers_option(),
      {.name = "--recorded",
       .argument = "PROMPT,ANSWER",
       .kind = OptionKind::text,
       .help =
           "measures the text of the file ANSWER behind that of the file PROMPT instead, as if the model wrote it, in "
           "turns without and with the drafts of --draft"},
      {.name = "--draft-right",
       .argument = "SHARE",
       .kind = OptionKind::number,
       .fallback = "0",
       .help =
           "with --recorded and --draft mtp or both: so large a share of the head's guesses is made right, whatever "
           "it guesses; 0 leaves them",
       .most = 1},
      {.name = "--tokenizer",
       .argument = "MODEL",
       .kind = OptionKind::text,
       .help = "whose tokens the recorded texts are; with --shape the built-in demo's, if none is named"},
      {.name = "--ops",
       .help =
           "also show the time by op, format and shape; `of limit` compares with the time that the bytes need at that "
           "bandwidth or the flops at the peak; data in a cache can exceed it"},
      {.name = "--adapter-rank",
       .argument = "N",
       .kind = OptionKind::integer,
       .fallback = "0",
       .help = "gives every sequence a made-up adapter of this rank on all products; 0 for none",
       .most = 512},
      {.name = "--adapters",
       .argument = "N",
       .kind = OptionKind::integer,
       .fallback = "1",
       .help = "so many different ones, which the sequences of a batch take in turn",
       .least = 1,
       .most = 256},
      arithmetic_option(),
      repack_option("first"),
      {.name = "--json", .help = "print one JSON object"},
  };
}

}  // namespace

CommandSpec bench_command() {
  return {
      .name = "bench",
      .summary = "Measures speed, and its share of this machine's memory bandwidth",
      .text =
          "Computes prompts and decodes answers of random tokens. Prints tokens a second (the median of several "
          "rounds, the slowest and the fastest), the bytes of weights and cache that a token needs, and their "
          "share of this machine's read bandwidth. The bandwidth is measured with as many threads right before "
          "each round; on a GPU it is that of copying in its own memory, reads and writes together. Answers take "
          "the likeliest tokens, which soon repeat themselves; where experts are read as they are chosen, answers "
          "take random tokens. With --shape the model is made up in memory: sizes, formats and routing are those "
          "of the real one, its words are nonsense.",
      .positionals = {model_positional(/*required=*/false)},
      .options = join_options({test_options(),
                               draft_options(),
                               synthetic_options(),
                               device_options(),
                               {expert_memory_option(), mmproj_option()}}),
      .examples = {{"sluice bench model.gguf", "a prompt of 512 tokens and an answer of 128"},
                   {"sluice bench model.gguf --prompt 512,4096 --depth 0,16384 --batch 1,4",
                    "every depth with every batch"},
                   {"sluice bench --shape gemma4-e2b --ops", "Gemma 4 E2B's sizes without its file, op by op"},
                   {"sluice bench --shape qwen3.6-35b-a3b:8 --write part.gguf", "its first 8 layers as a file"},
                   {"sluice bench model.gguf --image 896x896 --ops", "its vision tower, op by op"},
                   {"sluice bench model.gguf --train 512 --ops", "a training step, op by op"},
                   {"sluice bench model.gguf --recorded old.c,new.c", "what drafts give where a file is edited"}},
      .json = bench_fields(),
      .run = run,
  };
}

}  // namespace sluice
