// Caches of f32, f16 and bf16: what a rounding of their elements does to attention and no more, and what is refused.
#include <gtest/gtest.h>

#include "device/cpu/cpu.h"
#include "device/cpu/simd_level.h"
#include "device/reference/reference.h"
#include "graph/cases.h"
#include "tests/device/changed_requests.h"
#include "tests/device/parity_compare.h"
#include "tests/device/parity_player.h"

namespace sluice {
namespace {

// The CPU with another cache than its arithmetic would take.
ChangedRequests with_cache(ThreadPool& pool, SimdLevel level, Format cache) {
  return {make_cpu_device({.pool = &pool, .limit = level}), [cache](PlanRequest& request) { request.cache = cache; }};
}

std::vector<StepOutputs> play(const OpCase& one, Device& device, Arithmetic arithmetic) {
  const CaseWeights weights(one);
  CasePlayer player(one, weights, device, arithmetic);
  player.poison();
  std::vector<StepOutputs> outputs;
  outputs.reserve(one.steps.size());
  for (const CaseStep& step : one.steps) outputs.push_back(player.play(step, TokenClass::prompt));
  return outputs;
}

std::span<const float> as_floats(const std::vector<uint32_t>& words) {
  return {reinterpret_cast<const float*>(words.data()), words.size()};
}

class CpuCache : public testing::TestWithParam<SimdLevel> {
 protected:
  static uint32_t far_from(const std::vector<StepOutputs>& found, const std::vector<StepOutputs>& expected,
                           const OpCase& one, float tolerance) {
    uint32_t far = 0;
    for (size_t step = 0; step < expected.size(); ++step)
      for (size_t i = 0; i < expected[step].size(); ++i) {
        const uint64_t columns = one.program.values[one.program.outputs[i].value].type.columns();
        const bool near =
            difference(as_floats(found[step][i]), as_floats(expected[step][i]), columns, tolerance).empty();
        far += near ? 0 : 1;
      }
    return far;
  }
  ThreadPool pool_{1};
};
INSTANTIATE_TEST_SUITE_P(Levels, CpuCache, testing::ValuesIn(simd_levels()),
                         [](const auto& one) { return std::string(simd_name(one.param)); });

// A bf16 element is off by 2^-9, an f16 one by 2^-12; the bar of attention is made for f16.
TEST_P(CpuCache, AnswersAreOffByTheRoundingOfElements) {
  const float f16_bar = Attention::kDoc.tolerance.fast + Append::kDoc.tolerance.fast, bf16_bar = 8 * f16_bar;
  ChangedRequests f16 = with_cache(pool_, GetParam(), Format::f16);
  ChangedRequests bf16 = with_cache(pool_, GetParam(), Format::bf16);
  const std::unique_ptr<Device> oracle = make_reference_device_f64();
  uint32_t beyond_f16 = 0;
  for (const OpCase& one : cases_of("attention")) {
    SCOPED_TRACE(one.name);
    const std::vector<StepOutputs> expected = play(one, *oracle, Arithmetic::exact);
    EXPECT_EQ(far_from(play(one, f16, Arithmetic::fast), expected, one, f16_bar), 0u);
    const std::vector<StepOutputs> coarse = play(one, bf16, Arithmetic::fast);
    EXPECT_EQ(far_from(coarse, expected, one, bf16_bar), 0u);
    beyond_f16 += far_from(coarse, expected, one, 2e-3f);
  }
  EXPECT_GT(beyond_f16, 0u) << "bf16 was as near as f16";
}

// Queries, softmax and sums are f32 in both arithmetics.
TEST_P(CpuCache, InF32MakesFastAttentionExact) {
  ChangedRequests f32 = with_cache(pool_, GetParam(), Format::f32);
  for (const OpCase& one : cases_of("attention")) {
    if (!one.weights.empty()) continue;
    EXPECT_EQ(play(one, f32, Arithmetic::fast), play(one, f32, Arithmetic::exact)) << one.name;
  }
}

PlanRequest request_for(const OpCase& one, Arithmetic arithmetic, Format cache) {
  PlanRequest request{.program = &one.program,
                      .arithmetic = arithmetic,
                      .maxima = {.counts = text_counts(1, 1), .sequences = 1, .pages_per_sequence = {1}},
                      .pages = std::vector<uint32_t>(one.program.groups.size(), 1),
                      .cache = cache};
  for (size_t i = 0; i < one.weights.size(); ++i)
    request.weights.push_back({one.program.weights[i].shape, one.weights[i].format});
  return request;
}

TEST_P(CpuCache, IsPartOfTheNumericsIdAndOfAPagesSize) {
  const auto device = make_cpu_device({.pool = &pool_, .limit = GetParam()});
  const OpCase one = cases_of("append")[0];
  const auto plan = [&](Format cache) { return *device->plan(request_for(one, Arithmetic::fast, cache)); };
  EXPECT_EQ(plan(Format::bf16)->numerics_id(), cat("cpu/", simd_name(GetParam()), "/fast/bf16kv/v4"));
  EXPECT_EQ(plan(Format::f32)->page_bytes(0), 2 * plan(Format::bf16)->page_bytes(0));
  EXPECT_EQ(plan(Format::f16)->page_bytes(0), plan(Format::bf16)->page_bytes(0));
}

TEST_P(CpuCache, RefusesFormatsThatNoCacheHas) {
  const auto device = make_cpu_device({.pool = &pool_, .limit = GetParam()});
  const OpCase one = cases_of("append")[0];
  const auto said = [&](const Device& by, Arithmetic arithmetic, Format cache) {
    return by.plan(request_for(one, arithmetic, cache)).error().text;
  };
  EXPECT_EQ(said(*device, Arithmetic::fast, Format::q8_0), "cache: found elements of q8_0: want f32, f16 or bf16");
  EXPECT_EQ(said(*device, Arithmetic::exact, Format::bf16),
            "cache: found elements of bf16 in exact arithmetic: want f32");
  EXPECT_EQ(said(*make_reference_device(), Arithmetic::exact, Format::f16),
            "cache: found elements of f16: want f32 on the reference device");
}

}  // namespace
}  // namespace sluice
