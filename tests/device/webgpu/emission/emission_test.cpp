// What the device makes of programs - kernel texts, bindings, dispatches - on a host that checks and plays nothing: all
// ops, blocks, formats and families on adapters of many kinds. The rules are in recording_host.cpp and kernel_text.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>

#include "adapters.h"
#include "device/placing.h"
#include "device/webgpu/plan.h"
#include "device/webgpu/webgpu.h"
#include "engine/plan/memory_plan.h"
#include "graph/cases.h"
#include "kernel_text.h"
#include "model/mix.h"
#include "model/synthetic.h"
#include "recording_host.h"
#include "tests/device/parity_player.h"
#include "tests/engine/real_engine.h"
#include "tests/small_models.h"

namespace sluice::webgpu {
namespace {

constexpr Arithmetic kArithmetics[] = {Arithmetic::exact, Arithmetic::fast};

// A device whose host records.
struct RecordedDevice {
  explicit RecordedDevice(const Adapter& adapter, bool waits = true) {
    auto factory = std::make_unique<RecordingFactory>(adapter, waits);
    record = factory->record();
    device = make_webgpu_device(std::move(factory));
  }
  std::shared_ptr<Record> record;
  std::unique_ptr<Device> device;
};

class EmissionOn : public testing::TestWithParam<NamedAdapter> {};

void play(const OpCase& one, const CaseWeights& weights, Device& device) {
  for (const Arithmetic arithmetic : kArithmetics) {
    CasePlayer player(one, weights, device, arithmetic);
    for (const TokenClass token_class : kTokenClasses)
      for (const CaseStep& step : one.steps) player.play(step, token_class);
    CasePlayer(one, weights, device, arithmetic, {.traced = true}).play(one.steps.front(), TokenClass::prompt);
  }
  StepOutputs outputs;
  CasePlayer(one, weights, device, Arithmetic::exact).play_looking(one.steps.front(), &outputs);
}

TEST_P(EmissionOn, EveryCaseOfEveryOpAndBlockKeepsTheRules) {
  RecordedDevice recorded(GetParam().adapter);
  for (const std::string_view subject : case_subjects())
    for (const OpCase& one : cases_of(subject)) {
      SCOPED_TRACE(one.name);
      const std::vector<std::string> missing = recorded.device->info().missing;
      const auto is_missing = [&](const Op& op) { return !lacking_of(missing, op).empty(); };
      if (std::ranges::none_of(one.program.ops, is_missing)) play(one, CaseWeights(one), *recorded.device);
    }
  EXPECT_GT(recorded.record->pipelines.size(), 100u);
  EXPECT_GT(recorded.record->dispatches.size(), 1000u);
}

// Rows of an odd count, a decoded row and products in the format, as experts and as a plain matrix.
OpCase case_of(Format format) {
  const uint32_t columns = std::max(format_info(format).block_elements, 64u);
  CaseBuilder c(std::string("products of ") + format_name(format));
  const Value x = c.input(columns);
  const WeightShape inward{.experts = 2, .rows = 256, .columns = columns};
  const WeightShape outward{.experts = 2, .rows = columns, .columns = 256};
  const Routed routed = route(linear(x, c.weight({.rows = 2, .columns = columns})), {.k = 2});
  const Value sum = experts(x, routed, c.weight(inward, format), c.weight(inward, format), c.weight(outward, format),
                            ActivationKind::silu);
  c.output(add(sum, linear(x, c.weight({.rows = columns, .columns = columns}, format))));
  c.row_steps({1, 37});
  return c.done();
}

TEST_P(EmissionOn, EveryFormatKeepsTheRules) {
  RecordedDevice recorded(GetParam().adapter);
  std::vector<Format> formats = block_formats();
  formats.insert(formats.end(), {Format::f32, Format::f16, Format::bf16});
  for (const Format format : formats) {
    static std::map<Format, std::pair<OpCase, CaseWeights>> cases;  // encoded once for all adapters
    auto known = cases.find(format);
    if (known == cases.end())
      known = cases.emplace(format, std::pair(case_of(format), CaseWeights(case_of(format)))).first;
    SCOPED_TRACE(known->second.first.name);
    play(known->second.first, known->second.second, *recorded.device);
  }
}

// A prompt of several chunks and an answer, beside another; experts resident and streamed.
void answer_two(RealEngine& engine) {
  std::vector<RequestId> ids;
  for (uint32_t i = 0; i < 2; ++i) {
    Request request;
    for (int32_t token = 0; token < 150; ++token) request.prompt.push_back(token % 97 + 1);
    request.max_tokens = 3;
    request.logits_at = {7};
    ids.push_back(engine.submit(request));
  }
  engine.run();
  for (const RequestId id : ids) {
    const Progress progress = engine.collect(id);
    EXPECT_EQ(progress.finish, Finish::length) << (progress.failure ? progress.failure->text : "");
  }
}

std::shared_ptr<Record> record_of(const std::string& model, const Adapter& adapter, EngineOptions options) {
  auto factory = std::make_unique<RecordingFactory>(adapter);
  const std::shared_ptr<Record> record = factory->record();
  const RealDevice::Open open = [&](ThreadPool&) -> std::unique_ptr<Device> {
    return make_webgpu_device(std::move(factory));
  };
  RealEngine engine(real_model(model), open, std::move(options));
  answer_two(engine);
  return record;
}

EngineOptions options_of(Arithmetic arithmetic) {
  EngineOptions options;
  options.arithmetic = arithmetic;
  options.sequences = 2;
  options.prompt_chunk = 64;
  return options;
}

// Every small model, and those in bf16 with their weights in 8 bits, too.
std::vector<std::string> models() {
  std::vector<std::string> all;
  for (const SmallModel& one : small_models())
    if (one.weights_here) all.push_back(one.name);
  for (const char* name : small_models_here()) all.push_back(cat(name, " q8_0"));
  return all;
}

TEST_P(EmissionOn, EveryFamilyKeepsTheRules) {
  for (const std::string& model : models())
    for (const Arithmetic arithmetic : kArithmetics) {
      SCOPED_TRACE(cat(model, arithmetic == Arithmetic::exact ? ", exact" : ", fast"));
      EXPECT_GT(record_of(model, GetParam().adapter, options_of(arithmetic))->dispatches.size(), 0u);
    }
}

// Slots for three experts: a step is played in stretches.
TEST_P(EmissionOn, StreamedExpertsKeepTheRules) {
  for (const char* model : {"gemma4_moe q8_0", "qwen3_5_moe", "deepseek_v3"}) {
    SCOPED_TRACE(model);
    const Model& opened = real_model(model);
    const RecordedDevice planning(GetParam().adapter);
    EngineOptions options = options_of(Arithmetic::fast);
    const Budget budget;
    const Result<MemoryPlan> plan =
        plan_memory(opened, weight_files(opened), *planning.device, budget, UINT64_MAX, options);
    ASSERT_TRUE(plan) << plan.error().text;
    options.experts.bytes = 3 * plan->experts.slot_bytes;
    EXPECT_GT(record_of(model, GetParam().adapter, options)->dispatches.size(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Adapters, EmissionOn, testing::ValuesIn(test_adapters()),
                         [](const auto& one) { return one.param.name; });

// Pipelines are made once, also of the disk's cache: nothing in a text may differ from run to run.
TEST(Emission, TheSameModelGivesTheSameTextsAndDispatches) {
  for (const std::string& model : models()) {
    const auto once = record_of(model, default_adapter(), options_of(Arithmetic::fast));
    const auto again = record_of(model, default_adapter(), options_of(Arithmetic::fast));
    ASSERT_EQ(once->pipelines.size(), again->pipelines.size()) << model;
    for (size_t i = 0; i < once->pipelines.size(); ++i)
      EXPECT_EQ(once->pipelines[i].wgsl, again->pipelines[i].wgsl) << model;
    EXPECT_TRUE(once->dispatches == again->dispatches) << model;
  }
}

// Memory for the tensors of a model, of which only the small ones are filled: what is planned reads no matrix.
class MostlyEmpty {
 public:
  explicit MostlyEmpty(uint64_t bytes)
      : bytes_(bytes),
        at_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    CHECK(at_ != MAP_FAILED);
  }
  MostlyEmpty(const MostlyEmpty&) = delete;
  MostlyEmpty& operator=(const MostlyEmpty&) = delete;
  ~MostlyEmpty() { munmap(at_, bytes_); }
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(at_), bytes_}; }

 private:
  uint64_t bytes_;
  void* at_;
};

Model model_of(const std::string& shape_name) {
  const Result<ShapeConfig> shape = find_shape(shape_name);
  CHECK(shape);
  const Result<SyntheticModel> made = SyntheticModel::make(*shape, *find_mix("q4_k_m"), {});
  CHECK(made);
  const auto memory = std::make_shared<const MostlyEmpty>(made->memory_bytes());
  const auto checkpoint = std::make_shared<const Checkpoint>(made->checkpoint(memory->bytes(), memory));
  for (size_t i = 0; i < made->tensors().size(); ++i)
    if (const uint64_t bytes = made->tensors()[i].bytes; bytes <= 64 << 10)
      made->fill(i, 0, memory->bytes().subspan(checkpoint->tensors()[i].offset, bytes));
  const Result<Model> model = resolve(checkpoint);
  CHECK(model);
  return *model;
}

class RealShapes : public testing::TestWithParam<const char*> {};

// Planned, not placed: widths, vocabularies and counts of experts that a small model does not reach. Matrices are cut
// where a binding is too small for them.
TEST_P(RealShapes, KeepTheRulesOnEveryAdapter) {
  const Model model = model_of(GetParam());
  const Result<TextModel> text = text_model(model);
  ASSERT_TRUE(text) << text.error().text;
  for (const NamedAdapter& one : test_adapters()) {
    for (const Arithmetic arithmetic : kArithmetics) {
      SCOPED_TRACE(one.name);
      const RecordedDevice recorded(one.adapter);
      EngineOptions options = options_of(arithmetic);
      // Activations and caches are one binding each.
      const bool has_room = one.adapter.binding_bytes >= uint64_t{1} << 30;
      options.context = has_room ? 4096 : 1024;
      options.prompt_chunk = has_room ? 512 : 64;
      options.sequences = has_room ? 4 : 1;
      const Budget budget;
      const Result<PlannedText> planned = plan_text(*text, *recorded.device, budget, options, {});
      if (!planned && !has_room) {  // as some caches do not
        EXPECT_EQ(planned.error().kind, ErrorKind::out_of_memory) << planned.error().text;
        continue;
      }
      ASSERT_TRUE(planned) << planned.error().text;
      const auto& plan = static_cast<const WebGpuPlan&>(*planned->plan);
      for (const TokenClass token_class : kTokenClasses) {
        const Dispatches& dispatches = plan.dispatches(token_class);
        for (const PipelineText& kernel : dispatches.texts)
          EXPECT_THAT(faults_of(kernel, one.adapter), testing::IsEmpty()) << kernel.name;
        // Matrix units multiply the rows of prompts alone, and round only in fast arithmetic.
        const bool in_matrices = std::ranges::any_of(
            dispatches.texts, [](const PipelineText& kernel) { return kernel.name == "matrix_tiles"; });
        EXPECT_EQ(in_matrices,
                  one.adapter.matrices && arithmetic == Arithmetic::fast && token_class == TokenClass::prompt);
        for (const Dispatch& dispatch : dispatches.list) {
          const StepMaxima& most = planned->layout.maxima;
          const uint64_t rows = most.counts.rows_of(dispatch.extent);
          const uint64_t count = dispatch.grid.of_sequences ? most.sequences : rows;
          const FoldedGrid grid = fold(dispatch.grid.workgroups(count, options.context - 1), one.adapter.workgroups);
          EXPECT_LE(grid.x, one.adapter.workgroups) << dispatches.texts[dispatch.text].name;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, RealShapes,
                         testing::Values("gemma4-e2b:5", "gemma4-26b-a4b:6", "gemma4-31b:6", "qwen3.5-0.8b:4",
                                         "qwen3.6-27b:4", "qwen3.5-397b-a17b:4", "deepseek-v3:4:1:32"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::ranges::replace_if(name, [](char c) { return c == '-' || c == ':' || c == '.'; }, '_');
                           return name;
                         });

struct DecodeDispatches {
  const char* model;
  uint32_t token;          // all of a step of one row
  const char* layer;       // the kernels of the second layer, in order
  const char* last_layer;  // of another kind, or narrowed to wanted rows
};

// The kernels that a step of one row plays, by layer, in order.
std::map<int32_t, std::string> kernels_of_token(const WebGpuPlan& plan) {
  std::map<int32_t, std::string> kernels;
  const Dispatches& decode = plan.dispatches(TokenClass::decode);
  for (const Dispatch& dispatch : decode.list) {
    if (!dispatch.grid.is_of_one_row()) continue;
    std::string& names = kernels[plan.program().layers[dispatch.op]];
    names += cat(names.empty() ? "" : " ", decode.texts[dispatch.text].name);
  }
  return kernels;
}

size_t prompt_dispatches(const WebGpuPlan& plan, int32_t layer) {
  return std::ranges::count_if(plan.dispatches(TokenClass::prompt).list,
                               [&](const Dispatch& dispatch) { return plan.program().layers[dispatch.op] == layer; });
}

// A plan's request for a program of a model whose weights lie as they are.
PlanRequest request_of(const Program& program, const Model& model) {
  PlanRequest request{.program = &program, .maxima = {.counts = text_counts(64, 4), .sequences = 2}};
  request.maxima.pages_per_sequence.assign(program.groups.size(), 4);
  request.pages.assign(program.groups.size(), 8);
  for (const WeightDecl& weight : program.weights) {
    const Result<TensorSource> source = model.weights().find(weight.name);
    request.weights.push_back({weight.shape, source.ok() ? source->format : Format::f16});
  }
  return request;
}

// Not even where a product's rows are so long that not every workgroup can compute the first factor's sums: E2B's down
// products.
TEST(Emission, AdaptersOfLongRowsAreNoDispatchMoreOfAToken) {
  const Model model = model_of("gemma4-e2b:5");
  const Result<Program> plain = model.record_text({});
  const Result<Program> program = model.record_text({.adapters = {.slots = 4, .rank = 16}});
  ASSERT_TRUE(plain.ok() && program.ok());
  const auto kernels_of = [&](const Program& of) {
    const PlanRequest request = request_of(of, model);
    const Result<std::unique_ptr<WebGpuPlan>> plan = WebGpuPlan::make({}, request, default_adapter());
    CHECK(plan);
    return kernels_of_token(**plan);
  };
  EXPECT_EQ(kernels_of(*program)[1], kernels_of(*plain)[1]);
}

// The products' own kernels add adapters to a step of one row, and to prompts by matrix units.
TEST(Emission, AdaptersAreNoDispatchMoreOfATokenNorOfPromptsByMatrixUnits) {
  const Model& model = real_model("gemma4_dense");
  const Result<Program> plain = model.record_text({});
  const Result<Program> program = model.record_text({.adapters = {.slots = 4, .rank = 16}});
  ASSERT_TRUE(plain.ok() && program.ok());
  const PlanRequest request = request_of(*program, model), request_without = request_of(*plain, model);
  const Result<std::unique_ptr<WebGpuPlan>> plan = WebGpuPlan::make({}, request, default_adapter());
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_EQ(kernels_of_token(**plan)[1], "heads attention_part attention_merge linear gated_linear linear linear");
  for (const NamedAdapter& one : test_adapters()) {
    SCOPED_TRACE(one.name);
    const Result<std::unique_ptr<WebGpuPlan>> other = WebGpuPlan::make({}, request, one.adapter);
    ASSERT_TRUE(other) << other.error().text;
    for (const TokenClass token_class : kTokenClasses)
      for (const PipelineText& kernel : (*other)->dispatches(token_class).texts)
        EXPECT_THAT(faults_of(kernel, one.adapter), testing::IsEmpty()) << kernel.name;
    if (!one.adapter.matrices) continue;
    const Result<std::unique_ptr<WebGpuPlan>> without = WebGpuPlan::make({}, request_without, one.adapter);
    ASSERT_TRUE(without) << without.error().text;
    EXPECT_EQ(prompt_dispatches(**other, 0), prompt_dispatches(**without, 0));
  }
}

// A tower is placed in the middle of an answer, where a page may not wait: its weights are uploaded while its first
// step is polled, some at a time, and no kernel runs before the last of them.
TEST(Emission, AStepInAPageUploadsItsWeightsFirst) {
  constexpr uint32_t kSide = 3584;
  constexpr uint64_t kBytes = uint64_t{kSide} * kSide * 4, kAtOnce = uint64_t{32} << 20;
  CaseBuilder c("a large product");
  c.output(linear(c.input(kSide), c.weight({.rows = kSide, .columns = kSide})));
  c.row_steps({1, 2});
  const OpCase one = c.done();
  RecordedDevice recorded(default_adapter(), /*waits=*/false);
  const CaseWeights weights(one);
  CasePlayer player(one, weights, *recorded.device, Arithmetic::exact);
  const Record& record = *recorded.record;
  EXPECT_LT(record.uploaded, kAtOnce);
  player.play(one.steps[0], TokenClass::prompt);
  ASSERT_EQ(record.read_behind.size(), 3u);  // two pieces, then the step
  EXPECT_LT(record.read_behind[0], kBytes);
  EXPECT_GE(record.read_behind[0], kAtOnce);
  EXPECT_GE(record.played_behind, kBytes);
  player.play(one.steps[1], TokenClass::prompt);
  EXPECT_EQ(record.read_behind.size(), 4u);
}

// Fusing keeps these low (docs/webgpu.md): a kernel more in every layer is some percent of a small model's token.
TEST(Emission, ATokenNeedsNoMoreDispatchesThanBefore) {
  constexpr DecodeDispatches kWanted[] = {
      // Queries' norm and turn are attention's own; norms and sums are the next product's. A vision tower adds none:
      // the
      // host puts its rows into the embedding.
      {"gemma4_dense", 48, "heads attention_part attention_merge linear gated_linear linear linear",
       "heads attention_part attention_merge linear gated_linear linear rows gather"},
      // Both branches begin with norms of one row, and their sum is the next product's.
      {"gemma4_moe", 66,
       "heads attention_part attention_merge linear linear rows route experts_inward experts_outward gated_linear "
       "linear linear",
       "heads attention_part attention_merge linear linear rows route experts_inward experts_outward gated_linear "
       "linear rows gather"},
      {"qwen3_5_moe", 50,
       "short_conv delta_rule rms_norm linear linear route experts_inward experts_outward gated_linear linear linear",
       "heads attention_part attention_merge slice linear linear route experts_inward experts_outward gated_linear "
       "linear rows"},
      {"deepseek_v3", 69,
       "linear rope heads rows rope append head_product attention head_product linear linear route experts_inward "
       "experts_outward gated_linear linear linear",
       "linear rope heads rows rope append gather gather head_product attention head_product linear linear route "
       "experts_inward experts_outward gated_linear linear linear"}};
  for (const DecodeDispatches& want : kWanted) {
    SCOPED_TRACE(want.model);
    const RecordedDevice recorded(default_adapter());
    const Result<TextModel> text = text_model(real_model(want.model));
    ASSERT_TRUE(text) << text.error().text;
    const Budget budget;
    const Result<PlannedText> planned = plan_text(*text, *recorded.device, budget, options_of(Arithmetic::fast), {});
    ASSERT_TRUE(planned) << planned.error().text;
    const auto& plan = static_cast<const WebGpuPlan&>(*planned->plan);
    std::map<int32_t, std::string> kernels = kernels_of_token(plan);
    const auto is_played = [](const Dispatch& dispatch) { return dispatch.grid.is_of_one_row(); };
    EXPECT_EQ(std::ranges::count_if(plan.dispatches(TokenClass::decode).list, is_played), want.token);
    EXPECT_EQ(kernels[1], want.layer);
    EXPECT_EQ(kernels.rbegin()->second, want.last_layer);
  }
}

}  // namespace
}  // namespace sluice::webgpu
