#include "app/verify/verify_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace sluice {
namespace {

using testing::ElementsAre;

Bars bars(double intermediate, JudgedNames names) {
  Bars made;
  made.intermediate = intermediate;
  made.judged_names = names;
  made.experts_tie = 1e-5;
  return made;
}

TracedValue floats(const char* name, size_t rows, std::vector<float> values) {
  return {name, rows, values.size() / rows, std::move(values), {}};
}
TracedValue integers(const char* name, size_t rows, std::vector<int32_t> values) {
  return {name, rows, values.size() / rows, {}, std::move(values)};
}

std::vector<std::string> names_of(const std::vector<Difference>& differences) {
  std::vector<std::string> names;
  for (const Difference& difference : differences) names.push_back(difference.name);
  return names;
}

TEST(CompareTraces, TheFirstDifferenceIsTheFirstComputed) {
  const Trace ours = {floats("hidden.0", 1, {1}), floats("layer.0.q", 1, {1.1f}), floats("hidden.1", 1, {1.2f})};
  const Trace judge = {floats("hidden.1", 1, {1}), floats("hidden.0", 1, {1}), floats("layer.0.q", 1, {1})};
  const TraceErrors errors = compare_traces(ours, judge, bars(1e-2, JudgedNames::all));
  EXPECT_EQ(errors.compared, 3u);
  EXPECT_THAT(names_of(errors.over), ElementsAre("layer.0.q", "hidden.1"));
  EXPECT_NEAR(errors.over[0].error, 0.1, 1e-6);
}

TEST(CompareTraces, WhatTheProgramDoesNotHaveIsNotCompared) {
  const Trace ours = {floats("hidden.0", 1, {1}), floats("layer.0.q", 1, {1, 2})};
  const Trace judge = {floats("hidden.0", 1, {1}), floats("layer.0.q", 2, {1, 2}), floats("layer.0.k", 1, {1})};
  const TraceErrors errors = compare_traces(ours, judge, bars(1e-2, JudgedNames::all));
  EXPECT_EQ(errors.compared, 1u);
  EXPECT_THAT(errors.not_compared, ElementsAre("layer.0.q", "layer.0.k"));
  EXPECT_TRUE(errors.over.empty());
}

TEST(CompareTraces, AValueThatIsNotANumberDiffers) {
  const Trace ours = {floats("hidden.0", 1, {std::numeric_limits<float>::quiet_NaN()})};
  const TraceErrors errors = compare_traces(ours, {floats("hidden.0", 1, {1})}, bars(1e-2, JudgedNames::all));
  EXPECT_THAT(names_of(errors.judged), ElementsAre("hidden.0"));
}

TEST(CompareTraces, OnlyTheFirstLayerIsJudgedWhereTheBarsSaySo) {
  const Trace judge = {floats("hidden.0", 1, {1}),  floats("layer.0.q", 1, {1}),  floats("hidden.1", 1, {1}),
                       floats("layer.1.q", 1, {1}), floats("layer.10.q", 1, {1}), floats("hidden.2", 1, {1})};
  Trace ours = judge;
  for (TracedValue& value : ours) value.floats[0] = 2;
  const TraceErrors errors = compare_traces(ours, judge, bars(1e-2, JudgedNames::first_layer));
  EXPECT_EQ(errors.over.size(), 6u);
  EXPECT_THAT(names_of(errors.judged), ElementsAre("layer.0.q", "hidden.1"));
  EXPECT_TRUE(compare_traces(ours, judge, bars(1e-2, JudgedNames::none)).judged.empty());
}

TEST(CompareTraces, TokensWithOtherExpertsAreLeftOut) {
  const Trace judge = {floats("layer.0.router_logits", 2, {3, 2, 1, 3, 2, 1}),
                       integers("layer.0.topk_index", 2, {0, 1, 0, 1}), floats("hidden.1", 2, {1, 1})};
  Trace ours = judge;
  ours[1].integers = {1, 0, 0, 2};  // the first token's are the same set
  ours[2].floats = {1, 9};
  const TraceErrors errors = compare_traces(ours, judge, bars(1e-2, JudgedNames::all));
  EXPECT_TRUE(errors.over.empty());
  EXPECT_EQ(errors.tokens_with_other_experts, 1u);
  EXPECT_EQ(errors.experts_misses, 1u);
}

TEST(CompareTraces, OtherExpertsAreForgivenInATie) {
  const Trace judge = {floats("layer.0.router_logits", 1, {3, 1, 1.000001f}),
                       integers("layer.0.topk_index", 1, {0, 2})};
  Trace ours = judge;
  ours[1].integers = {0, 1};
  const TraceErrors errors = compare_traces(ours, judge, bars(1e-2, JudgedNames::all));
  EXPECT_EQ(errors.tokens_with_other_experts, 1u);
  EXPECT_EQ(errors.experts_misses, 0u);
}

TEST(CompareTraces, ExpertWeightsAreComparedExpertByExpert) {
  const Trace judge = {integers("layer.0.topk_index", 1, {4, 2}), floats("layer.0.topk_weights", 1, {0.7f, 0.3f})};
  const Trace ours = {integers("layer.0.topk_index", 1, {2, 4}), floats("layer.0.topk_weights", 1, {0.3f, 0.7f})};
  EXPECT_TRUE(compare_traces(ours, judge, bars(1e-6, JudgedNames::all)).over.empty());
}

}  // namespace
}  // namespace sluice
