// The one-answer rule on the CPU: whole programs give the same bits on any number of threads, fused or op by op, and a
// device says what it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "device/cpu/cpu.h"
#include "graph/cases.h"
#include "tests/device/changed_requests.h"
#include "tests/device/parity_compare.h"
#include "tests/device/parity_player.h"

namespace sluice {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<StepOutputs> play(const OpCase& one, Device& device, Arithmetic arithmetic, bool looking = false) {
  const CaseWeights weights(one);
  CasePlayer player(one, weights, device, arithmetic);
  std::vector<StepOutputs> outputs;
  for (const CaseStep& step : one.steps) {
    outputs.emplace_back();
    if (looking)
      player.play_looking(step, &outputs.back());
    else
      outputs.back() = player.play(step, TokenClass::decode);
  }
  return outputs;
}

// The CPU folds the matrices of latents into queries and results; the same keys and values, expanded and cached, give
// the same answers up to rounding.
TEST(CpuLatents, FoldedAndUnfoldedAttentionAgree) {
  ThreadPool pool(2);
  const auto device = make_cpu_device({.pool = &pool});
  uint32_t compared = 0;
  for (const OpCase& one : cases_of("attention")) {
    // Those that also give what the same keys and values give when they are cached themselves.
    if (one.name.find("latents") == std::string::npos || one.program.outputs.size() < 2) continue;
    if (one.name.find("adapters") != std::string::npos) continue;  // whose keys and values are others
    for (const StepOutputs& step : play(one, *device, Arithmetic::exact)) {
      const std::span<const float> folded(reinterpret_cast<const float*>(step[0].data()), step[0].size());
      const std::span<const float> unfolded(reinterpret_cast<const float*>(step[1].data()), step[1].size());
      const uint64_t columns = one.program.values[one.program.outputs[0].value].type.columns();
      EXPECT_EQ(difference(folded, unfolded, columns, 2e-5f), "") << one.name;
      compared += folded.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(compared, 20u);
}

// One row through a matrix that is worth several threads.
OpCase linear_case(Format format) {
  CaseBuilder c(cat("a linear in ", format_name(format)));
  c.output(linear(c.input(512), c.weight({.rows = 500, .columns = 512}, format)));
  c.row_steps({1});
  return c.done();
}

// A whole layer.
OpCase layer_case(Format format, uint32_t rows) {
  constexpr uint32_t kHidden = 128, kHeads = 4, kWidth = 32, kInner = 160;
  CaseBuilder c(cat("a layer in ", format_name(format), ", ", rows, " rows"));
  Recorder& r = c.recorder();
  const Value x = c.input(kHidden);
  r.begin_block(BlockKind::qkv);
  const Value q = linear(x, c.weight({.rows = kHidden, .columns = kHidden}, format));
  const Value k = linear(x, c.weight({.rows = kWidth, .columns = kHidden}, format));
  const Value v = linear(x, c.weight({.rows = kWidth, .columns = kHidden}, format));
  r.end_block();
  const State state = append(r.paged_state("kv", 1, kWidth, kWidth, 0), k, v);
  const Value a = attention(rms_norm(heads(q, kHeads), 1e-6f), state, {.scale = 0.125f});
  const Weight gate = c.weight({.rows = kInner, .columns = kHidden}, format);
  const Weight up = c.weight({.rows = kInner, .columns = kHidden}, format);
  const Weight down = c.weight({.rows = kHidden, .columns = kInner}, format);
  c.output(add(x, gated_mlp(flatten(a), gate, up, down, ActivationKind::gelu_tanh)));
  c.row_steps({rows});
  return c.done();
}

OpCase experts_case(Format format, uint32_t rows) {
  CaseBuilder c(cat("experts in ", format_name(format), ", ", rows, " rows"));
  const Value x = c.input(96);
  const Weight gate = c.weight({.experts = 8, .rows = 64, .columns = 96}, format);
  const Weight up = c.weight({.experts = 8, .rows = 64, .columns = 96}, format);
  const Weight down = c.weight({.experts = 8, .rows = 96, .columns = 64}, format);
  const Routed routed = route(c.input(8), {.k = 3});
  c.output(experts(x, routed, gate, up, down, ActivationKind::silu));
  c.row_steps({rows});
  return c.done();
}

OpCase latents_case(Format format, uint32_t rows) {
  CaseBuilder c(cat("latents in ", format_name(format), ", ", rows, " rows"));
  const Expansion weights{.key = c.weight({.experts = 8, .rows = 32, .columns = 64}, format).id,
                          .value = c.weight({.experts = 8, .rows = 24, .columns = 64}, format).id};
  const Value q = c.input(48, 8);
  const Value latent = c.input(64), shared = c.input(16);
  const State state = append(c.recorder().paged_state("kv", 1, 16, 64, 0), shared, latent);
  c.output(attention(q, state, {.scale = 0.125f, .expand = weights}));
  c.row_steps({rows});
  return c.done();
}

// Few rows over histories of several parts, which threads share out, a window of one and a half of them too.
OpCase deep_case() {
  CaseBuilder c("deep histories");
  const Value q = c.input(32, 6), k = c.input(32, 2), v = c.input(48, 2);
  Recorder& r = c.recorder();
  c.output(attention(q, append(r.paged_state("all", 2, 32, 48, 0), k, v), {.scale = 0.25f}));
  c.output(attention(q, append(r.paged_state("windowed", 2, 32, 48, 400), k, v), {.scale = 0.25f, .window = 400}));
  c.step({{.sequence = 0, .rows = 1100}, {.sequence = 1, .rows = 300}});
  c.step({{.sequence = 0, .position = 1100, .rows = 1}});
  c.step({{.sequence = 1, .position = 300, .rows = 1}, {.sequence = 0, .position = 1101, .rows = 2}});
  c.step({{.sequence = 0, .position = 1103, .rows = 10}});
  return c.done();
}

TEST(CpuDeep, AnyNumberOfThreadsGivesTheSameBits) {
  ThreadPool one_thread(1);
  const auto alone = make_cpu_device({.pool = &one_thread});
  const OpCase deep = deep_case();
  for (const uint32_t threads : {2u, 3u, 5u, 16u}) {
    ThreadPool pool(threads);
    const auto device = make_cpu_device({.pool = &pool});
    for (const Arithmetic arithmetic : {Arithmetic::exact, Arithmetic::fast})
      EXPECT_EQ(play(deep, *device, arithmetic), play(deep, *alone, arithmetic)) << threads;
  }
}

class CpuBits : public testing::TestWithParam<Format> {
 protected:
  static std::vector<OpCase> cases() {
    return {linear_case(GetParam()),      layer_case(GetParam(), 1),    layer_case(GetParam(), 40),
            experts_case(GetParam(), 1),  experts_case(GetParam(), 40), latents_case(GetParam(), 1),
            latents_case(GetParam(), 140)};
  }
};
INSTANTIATE_TEST_SUITE_P(Formats, CpuBits,
                         testing::Values(Format::f32, Format::f16, Format::bf16, Format::q8_0, Format::q4_0),
                         [](const auto& one) { return std::string(format_name(one.param)); });

TEST_P(CpuBits, AnyNumberOfThreadsGivesTheSameBits) {
  ThreadPool one_thread(1);
  const auto alone = make_cpu_device({.pool = &one_thread});
  for (const uint32_t threads : {2u, 3u, 5u}) {
    ThreadPool pool(threads);
    const auto device = make_cpu_device({.pool = &pool});
    for (const OpCase& one : cases())
      for (const Arithmetic arithmetic : {Arithmetic::exact, Arithmetic::fast})
        EXPECT_EQ(play(one, *device, arithmetic), play(one, *alone, arithmetic)) << one.name << ", " << threads;
  }
}

TEST_P(CpuBits, BlocksGiveTheBitsOfTheirOps) {
  ThreadPool pool(2);
  const auto device = make_cpu_device({.pool = &pool});
  for (OpCase one : cases())
    for (const Arithmetic arithmetic : {Arithmetic::exact, Arithmetic::fast}) {
      const std::vector<StepOutputs> fused = play(one, *device, arithmetic);
      OpCase plain = one;
      plain.program.blocks.clear();
      EXPECT_EQ(play(plain, *device, arithmetic), fused) << one.name;
    }
}

TEST_P(CpuBits, PackedWeightsGiveTheBitsOfStoredOnes) {
  ThreadPool pool(2);
  const auto device = make_cpu_device({.pool = &pool});
  for (const Repack repack : {Repack::first, Repack::behind}) {
    ChangedRequests packing(make_cpu_device({.pool = &pool}),
                            [repack](PlanRequest& request) { request.repack = repack; });
    for (const OpCase& one : cases())
      EXPECT_EQ(play(one, packing, Arithmetic::fast), play(one, *device, Arithmetic::fast)) << one.name;
  }
}

TEST(CpuDevice, SaysWhatItRunsOn) {
  ThreadPool one(1), two(2);
  const DeviceInfo info = make_cpu_device({.pool = &two, .limit = SimdLevel::scalar})->info();
  EXPECT_EQ(info.name, "cpu");
  EXPECT_THAT(info.description, EndsWith(", scalar, 2 threads"));
  EXPECT_TRUE(info.classes_bit_equal);
  EXPECT_THAT(make_cpu_device({.pool = &one})->info().description, EndsWith(", 1 thread"));
}

TEST(CpuDevice, InstructionSetsHaveNames) {
  for (int i = 0; i < kSimdLevels; ++i) {
    const auto level = static_cast<SimdLevel>(i);
    EXPECT_EQ(*parse_simd_level(simd_name(level)), level);
  }
  EXPECT_EQ(
      parse_simd_level("sse").error().text,
      "instruction set: found sse: want one of scalar, avx2, avxvnni, avx512, avx512vnni, avx512bf16, amx, simd128, "
      "neon, neon_i8mm");
}

PlanRequest request_for(const OpCase& one, Arithmetic arithmetic) {
  PlanRequest request{.program = &one.program,
                      .arithmetic = arithmetic,
                      .maxima = {.counts = text_counts(40, 1), .sequences = 1, .pages_per_sequence = {1}},
                      .pages = {3}};
  for (size_t i = 0; i < one.weights.size(); ++i)
    request.weights.push_back({one.program.weights[i].shape, one.weights[i].format});
  return request;
}

uint64_t bytes_of(const Plan& plan, Purpose purpose) {
  for (const MemoryLine& line : plan.memory())
    if (line.purpose == purpose) return line.bytes;
  return 0;
}

TEST(CpuPlan, NamesItsNumericsAndItsMemory) {
  ThreadPool pool(1);
  const auto device = make_cpu_device({.pool = &pool, .limit = SimdLevel::scalar});
  const OpCase one = layer_case(Format::bf16, 40);
  const auto exact = *device->plan(request_for(one, Arithmetic::exact));
  const auto fast = *device->plan(request_for(one, Arithmetic::fast));
  EXPECT_EQ(exact->numerics_id(), "cpu/scalar/exact/f32kv/v3");
  EXPECT_EQ(fast->numerics_id(), "cpu/scalar/fast/f16kv/v4");
  EXPECT_EQ(exact->page_bytes(0), 2u * 64 * 32 * 4);
  EXPECT_EQ(fast->page_bytes(0), 2u * 64 * 32 * 2);
  EXPECT_EQ(bytes_of(*exact, Purpose::state), 3 * exact->page_bytes(0));

  Budget budget;
  const uint64_t all = bytes_of(*fast, Purpose::state) + bytes_of(*fast, Purpose::activations);
  const auto runner = device->place(*device->plan(request_for(one, Arithmetic::fast)), CaseWeights(one), budget);
  ASSERT_TRUE(runner.ok());
  EXPECT_EQ(budget.used(Domain::host), all);
}

TEST(CpuPlan, RefusesFormatsItCannotComputeWith) {
  ThreadPool pool(1);
  const auto device = make_cpu_device({.pool = &pool});
  const OpCase one = layer_case(Format::bf16, 1);
  PlanRequest request = request_for(one, Arithmetic::fast);
  request.weights[0].format = Format::i32;
  EXPECT_EQ(device->plan(request).error().text,
            cat("weight ", one.program.weights[0].name, ": found format i32: want one that the CPU computes with"));
  request = request_for(one, Arithmetic::fast);
  request.weights[0].shape.rows = 5;
  EXPECT_EQ(device->plan(request).error().text,
            cat("weight ", one.program.weights[0].name, ": found [5, 128]: want [128, 128]"));
  request = request_for(one, Arithmetic::fast);
  request.pages = {~0u};
  Budget budget;
  budget.set_limit(Domain::host, 1 << 20);
  const auto runner = device->place(*device->plan(request), CaseWeights(one), budget);
  EXPECT_EQ(runner.error().kind, ErrorKind::out_of_memory);
}

TEST(CpuPlan, WeightsMustBeTheOnesPlannedFor) {
  ThreadPool pool(1);
  const auto device = make_cpu_device({.pool = &pool});
  const OpCase planned = layer_case(Format::bf16, 1), other = layer_case(Format::f16, 1);
  Budget budget;
  const auto runner = device->place(*device->plan(request_for(planned, Arithmetic::fast)), CaseWeights(other), budget);
  EXPECT_THAT(runner.error().text, HasSubstr(": found f16 [128, 128]: want the planned bf16 [128, 128]"));
}

// A traced plan keeps the insides of blocks too.
TEST(CpuRunner, ATracedPlanGivesTheValuesInsideABlock) {
  CaseBuilder c("named gate");
  Recorder& r = c.recorder();
  const Value x = c.input(64);
  const Weight w = c.weight({.rows = 64, .columns = 64}, Format::f32);
  r.begin_block(BlockKind::gated_mlp);
  const Value gate = linear(x, w), up = linear(x, w);
  const Value gated = gated_activation(gate, up, ActivationKind::silu);
  const Value down = linear(gated, w);
  r.end_block();
  r.name(gate, "gate");
  c.output(down);
  c.row_steps({2});
  const OpCase one = c.done();

  ThreadPool pool(1);
  const auto device = make_cpu_device({.pool = &pool});
  PlanRequest request = request_for(one, Arithmetic::exact);
  request.maxima = {.counts = text_counts(2, 1)};
  request.pages = {};
  request.traced = true;
  Budget budget;
  const auto runner = *device->place(*device->plan(request), CaseWeights(one), budget);
  StepBuffer step(one.program, request.maxima);
  step.reset(TokenClass::decode, text_counts(2, 0), 1, 0);
  for (float& element : step.input_f32(0)) element = 1.0f;
  std::vector<float> found(128), again(128);
  const std::vector<ReadRequest> reads = {{gate.id, std::as_writable_bytes(std::span(found))}};
  runner->start(step, reads, {});
  for (float& element : again) element = 0;
  const std::vector<ReadRequest> second = {{gate.id, std::as_writable_bytes(std::span(again))}};
  runner->start(step, second, {.find_non_finite = true});
  EXPECT_EQ(found, again);
  EXPECT_NE(found[0], 0.0f);
  EXPECT_EQ(found[0], found[64]);
  EXPECT_EQ(runner->poll()->ticket, 1u);
  EXPECT_EQ(runner->poll()->ticket, 2u);
  EXPECT_FALSE(runner->poll().has_value());
}

}  // namespace
}  // namespace sluice
