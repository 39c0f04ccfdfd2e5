// Forecasts from measurements, which are made up here.
#include "app/plan/forecast.h"

#include <gtest/gtest.h>

#include "app/run/run_report.h"
#include "base/json.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

constexpr uint64_t kSlotBytes = 2'000'000, kReadBytes = 1'000'000, kDense = 100;
constexpr uint32_t kLayers = 3, kExperts = 8, kUsed = 2;

// Tokens that choose two experts each, no expert a second time before all were chosen: nothing is found in two slots.
RoutingTrace in_turns() {
  RoutingTrace trace{.layers = kLayers, .experts = kExperts, .used = kUsed};
  for (uint32_t token = 0; token < 64; ++token)
    for (uint32_t layer = 0; layer < kLayers; ++layer)
      for (uint32_t i = 0; i < kUsed; ++i) trace.chosen.push_back((kUsed * token + i) % kExperts);
  return trace;
}

class GpuForecast : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(write_routing(in_turns(), path_)); }

  // Of a GPU whose memory has room for so many experts of all 24.
  MemoryPlan plan_of(uint32_t slots) const {
    MemoryPlan plan;
    plan.domain = Domain::device();
    plan.lines = {{Domain::device(), Purpose::weights, kDense}, {Domain::host, Purpose::staging, 12345}};
    plan.experts = {.layers = kLayers,
                    .experts = kExperts,
                    .used = kUsed,
                    .bytes = uint64_t{kLayers} * kExperts * kSlotBytes,
                    .slot_bytes = kSlotBytes,
                    .read_bytes = kReadBytes};
    plan.limit = kDense + slots * kSlotBytes;
    return plan;
  }
  Forecast foresee(uint32_t slots, const Measured& measured) const {
    Program program;
    const CostFacts facts{.program = &program};
    return *forecast(plan_of(slots), facts, measured, {.routing = path_});
  }
  static Measured measured() {
    return {.bandwidths = {.memory = 1e12},
            .step_times = StepTimes{
                .step_seconds = 0.01, .dispatches = 7, .reads = true, .first_seconds = 0.002, .next_seconds = 0.0005}};
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.path("routing");
};

TEST_F(GpuForecast, IsTheMeasuredStepIfAllExpertsFit) {
  const Forecast foreseen = foresee(kLayers * kExperts, measured());
  EXPECT_EQ(foreseen.hit_rate, 1);
  EXPECT_EQ(foreseen.disk_bytes, 0);
  EXPECT_DOUBLE_EQ(foreseen.tokens_per_second, 100);
  EXPECT_EQ(plan_line(foreseen, 90), "plan    100.0 tokens/s foreseen, 0.90 times that seen\n");
}

// Both experts of each of three layers are lacking.
TEST_F(GpuForecast, AddsTheTimeThatLayersWaitForExperts) {
  const Forecast foreseen = foresee(kUsed, measured());
  EXPECT_EQ(foreseen.hit_rate, 0);
  EXPECT_DOUBLE_EQ(foreseen.disk_bytes, kLayers * kUsed * kReadBytes);
  EXPECT_NEAR(1 / foreseen.tokens_per_second, 0.01 + kLayers * (0.002 + 0.0005), 1e-12);
}

// A hit rate h of each expert alone: a layer lacks one at least with 1 - h^2, and 2 (1 - h) on average.
TEST_F(GpuForecast, LiesBetweenForSomeSlots) {
  const Forecast some = foresee(22, measured());
  EXPECT_GT(some.hit_rate, 0);
  EXPECT_LT(some.hit_rate, 1);
  const double any = 1 - some.hit_rate * some.hit_rate, missed = 2 * (1 - some.hit_rate);
  EXPECT_NEAR(1 / some.tokens_per_second, 0.01 + kLayers * (any * 0.002 + (missed - any) * 0.0005), 1e-12);
  EXPECT_LT(some.tokens_per_second, 100);
}

TEST_F(GpuForecast, IsNoneWithoutItsMeasurements) {
  Measured unread = measured();
  unread.step_times->reads = false;
  EXPECT_EQ(foresee(kUsed, unread).tokens_per_second, 0);
  EXPECT_EQ(foresee(kLayers * kExperts, unread).tokens_per_second, 100);
  Measured unplayed = measured();
  unplayed.step_times.reset();
  EXPECT_EQ(foresee(kUsed, unplayed).tokens_per_second, 0);
  EXPECT_EQ(plan_line(foresee(kUsed, unplayed), 90), "");
}

TEST(DeviceMemory, IsMostOfTheMemoryThatTheGpuReports) {
  EXPECT_EQ(default_device_memory({.memory = Domain::device(), .memory_bytes = 10'000}), 9'000u);
  EXPECT_EQ(default_device_memory({.memory = Domain::device(), .memory_bytes = 10'000, .shares_memory = true}), 7'500u);
  EXPECT_EQ(default_device_memory({.memory = Domain::device()}), 0u);
}

// The demo is smaller than most processors' last cache: a range from memory's speed to the cache's.
TEST(CpuForecast, AModelInTheCacheHasARange) {
  const Json plan = *parse_json(run_sluice({"plan", "demo", "--json"}).out, "plan");
  const double least = plan.find("tokens_per_second")->as_number();
  const double most = plan.find("cached_tokens_per_second")->as_number();
  EXPECT_GT(least, 0);
  EXPECT_TRUE(most == 0 || most > least) << most;
}

}  // namespace
}  // namespace sluice
