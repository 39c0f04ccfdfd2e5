// The reference device beside its ops: plans, placing, pages, where a number stops being finite.
#include <limits>

#include "reference_run.h"

namespace sluice {
namespace {

constexpr StepMaxima kOneRow{.counts = text_counts(1, 1), .sequences = 1};

struct Small {
  Recorder recorder;
  FloatWeights weights;
  Program program;
  std::unique_ptr<Device> device = make_reference_device();
  Small() {
    const Weight w = weights.add(recorder, "w", {.rows = 2, .columns = 64}, std::vector<float>(128, 1.0f));
    recorder.output(linear(recorder.input("x", {.width = 64}), w), "out");
    program = *recorder.finish();
  }
  PlanRequest request(Format format = Format::f32, WeightShape shape = {.rows = 2, .columns = 64}) const {
    return {.program = &program, .maxima = kOneRow, .weights = {{.shape = shape, .format = format}}};
  }
};

TEST(ReferenceDevice, SaysWhatItIs) {
  EXPECT_EQ(make_reference_device()->info().name, "reference");
  EXPECT_EQ(make_reference_device()->info().description, "scalar loops in f32, 1 thread");
  EXPECT_TRUE(make_reference_device()->info().classes_bit_equal);
  EXPECT_TRUE(make_reference_device()->info().missing.empty());
  EXPECT_EQ(make_reference_device_f64()->info().name, "reference-f64");
}

TEST(ReferenceDevice, RefusesWeightsThatDoNotFitThePlan) {
  const Small small;
  EXPECT_EQ(small.device->plan(small.request(Format::q8_k)).error().text,
            "weight w: found format q8_k: want one that is computed with");
  EXPECT_EQ(small.device->plan(small.request(Format::f32, {.rows = 3, .columns = 64})).error().text,
            "weight w: found [3, 64]: want [2, 64]");
}

TEST(ReferenceDevice, RefusesRowsThatAreNoWholeBlocks) {
  Recorder recorder;
  recorder.output(linear(recorder.input("x", {.width = 33}), recorder.weight("w", {.columns = 33})), "out");
  const Program program = *recorder.finish();
  const PlanRequest request{
      .program = &program, .maxima = kOneRow, .weights = {{.shape = {.columns = 33}, .format = Format::q8_0}}};
  EXPECT_EQ(make_reference_device()->plan(request).error().text,
            "weight w: found 33 columns of q8_0: want a multiple of 32");
}

TEST(ReferenceDevice, RefusesAWeightThatIsNotThereOrNotAsPlanned) {
  Small small;
  Budget budget;
  EXPECT_EQ(small.device->place(*small.device->plan(small.request()), FloatWeights(), budget).error().text,
            "weight w: found none: want one");
  EXPECT_EQ(small.device->place(*small.device->plan(small.request(Format::bf16)), small.weights, budget).error().text,
            "weight w: found f32 [2, 64]: want the planned bf16 [2, 64]");
}

TEST(ReferenceDevice, ReservesWhatThePlanSays) {
  Small small;
  auto plan = *small.device->plan(small.request());
  uint64_t planned = 0;
  for (const MemoryLine& line : plan->memory()) planned += line.bytes;
  EXPECT_GE(planned, (64u + 2) * 4);
  Budget budget;
  {
    const auto runner = small.device->place(std::move(plan), small.weights, budget);
    ASSERT_TRUE(runner.ok());
    EXPECT_EQ(budget.used(Domain::host), planned);
  }
  EXPECT_EQ(budget.used(Domain::host), 0u);
}

TEST(ReferenceDevice, FailsWhenTheBudgetDoes) {
  Small small;
  Budget budget;
  budget.set_limit(Domain::host, 10);
  const auto runner = small.device->place(*small.device->plan(small.request()), small.weights, budget);
  ASSERT_FALSE(runner.ok());
  EXPECT_EQ(runner.error().kind, ErrorKind::out_of_memory);
}

TEST(ReferenceDevice, RefusesMorePagesThanBytesCanBeCounted) {
  Recorder recorder;
  const Value x = recorder.input("x", {.width = 1 << 24});
  append(recorder.paged_state("kv", 1, 1 << 24, 1 << 24, 0), x, x);
  const Program program = *recorder.finish();
  PlanRequest request{.program = &program, .maxima = kOneRow, .pages = {0xffffffff}};
  request.maxima.pages_per_sequence = {1};
  EXPECT_EQ(make_reference_device()->plan(request).error().text,
            "state: found pages beyond 64 bits of bytes: want fewer");
}

TEST(ReferenceDevice, APageHoldsKeysAndValuesOfEveryStateOfItsGroup) {
  Recorder recorder;
  recorder.paged_state("a", 2, 3, 5, 0);
  recorder.paged_state("b", 1, 7, 7, 0);
  recorder.paged_state("c", 1, 1, 1, 64);
  const Program program = *recorder.finish();
  PlanRequest request{.program = &program, .maxima = kOneRow, .pages = {3, 2}};
  request.maxima.pages_per_sequence = {1, 1};
  const auto plan = *make_reference_device()->plan(request);
  EXPECT_EQ(plan->page_bytes(0), 64u * 4 * (2 * 3 + 2 * 5 + 7 + 7));
  EXPECT_EQ(plan->page_bytes(1), 64u * 4 * 2);
  const MemoryLine state = plan->memory()[0];
  EXPECT_EQ(state.purpose, Purpose::state);
  EXPECT_EQ(state.bytes, 3 * plan->page_bytes(0) + 2 * plan->page_bytes(1));
}

TEST(ReferenceDevice, FindsTheOpTheLayerAndTheRow) {
  ReferenceRun run;
  const Value x = run.input("x", 2);
  run.recorder.begin_layer(4);
  const Value large = scale(x, 1e30f);
  run.recorder.begin_layer(5);
  run.recorder.output(mul(large, large), "out");
  run.begin(3);
  run.set(0, {1e-30f, 1e-30f, 1e-30f, 1e-30f, 1e-30f, 1e30f});
  run.output();
  EXPECT_FALSE(run.completion.non_finite.has_value()) << "only looked for when asked";
  run.output(0, {.find_non_finite = true});
  ASSERT_TRUE(run.completion.non_finite.has_value());
  EXPECT_EQ(run.completion.non_finite->op, 0u);
  EXPECT_EQ(run.completion.non_finite->layer, 4);
  EXPECT_EQ(run.completion.non_finite->row, 2u);
  EXPECT_EQ(run.completion.non_finite->what, "scale");
}

TEST(ReferenceDevice, ARowOfAWantedValueIsSaidByItsRowInTheStep) {
  ReferenceRun run;
  const Value x = run.input("x", 1);
  run.recorder.output(scale(gather(x, run.integers("wanted", 1, Symbol::wanted)), 1e30f), "out");
  run.begin(3);
  run.set(0, {1, 1, 1e30f});
  run.set_integers(1, {2});
  run.output(0, {.find_non_finite = true});
  ASSERT_TRUE(run.completion.non_finite.has_value());
  EXPECT_EQ(run.completion.non_finite->op, 1u);
  EXPECT_EQ(run.completion.non_finite->row, 2u);
}

TEST(ReferenceDevice, TicketsFinishInOrder) {
  ReferenceRun run;
  run.recorder.output(scale(run.input("x", 1), 2.0f), "out");
  run.begin(1);
  const Ticket first = run.runner->start(*run.step, {});
  const Ticket second = run.runner->start(*run.step, {});
  EXPECT_EQ(run.runner->poll()->ticket, first);
  EXPECT_EQ(run.runner->poll()->ticket, second);
  EXPECT_FALSE(run.runner->poll().has_value());
}

}  // namespace
}  // namespace sluice
