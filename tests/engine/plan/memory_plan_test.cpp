// The predicted memory of a model, before it is loaded.
#include "engine/plan/memory_plan.h"

#include <algorithm>

#include "tests/engine/real_engine.h"

namespace sluice {
namespace {

Result<MemoryPlan> plan_with(const Model& model, uint64_t limit, Repack repack, const std::string& device = "cpu",
                             DraftKind draft = DraftKind::none, uint32_t chunk = kUsualPromptRows) {
  RealDevice machine(device, 2);
  Budget budget;
  budget.set_limit(Domain::host, limit);
  budget.count_mapped(Domain::host, true);
  EngineOptions options;
  options.context = 256;
  options.repack = repack;
  options.draft.kind = draft;
  options.prompt_chunk = chunk;
  return plan_memory(model, weight_files(model), *machine.device, budget, limit, options);
}

// Packed weights once took what slots and staging need: some bounds above the floor were refused.
TEST(MemoryPlan, EveryLimitFromTheFloorOnWorks) {
  const Model& model = real_model("qwen3_5_moe q8_0");
  const uint64_t floor = plan_with(model, 0, Repack::behind)->floor;
  EXPECT_GT(plan_with(model, floor - 1, Repack::behind)->needed(), floor - 1);
  bool packs = false, streams = false;
  for (uint64_t limit = floor; limit < 2 * floor; limit += floor / 64) {
    const Result<MemoryPlan> plan = plan_with(model, limit, Repack::behind);
    ASSERT_TRUE(plan) << plan.error().text;
    EXPECT_LE(plan->needed(), limit);
    packs |= plan->repack == Repack::behind;
    streams |= plan->streams();
  }
  EXPECT_TRUE(packs);
  EXPECT_TRUE(streams);
}

// Qwen's delta nets keep a state, of which each guess takes a copy more.
TEST(MemoryPlan, AutomaticDraftsGiveWayToAllElse) {
  const Model& model = real_model("qwen3_5_moe q8_0");
  const auto plan_within = [&](uint64_t limit, DraftKind draft) {
    return *plan_with(model, limit, Repack::behind, "cpu", draft);
  };
  const MemoryPlan all = plan_within(UINT64_MAX, DraftKind::automatic);
  EXPECT_EQ(all.draft, DraftKind::automatic);
  const uint64_t none = plan_within(UINT64_MAX, DraftKind::none).needed();
  EXPECT_GT(all.needed(), none);
  for (const uint64_t limit : {all.floor, (all.floor + none) / 2, none, all.needed() - 1}) {
    const MemoryPlan plan = plan_within(limit, DraftKind::automatic), plain = plan_within(limit, DraftKind::none);
    EXPECT_EQ(plan.draft, DraftKind::none) << limit;
    EXPECT_EQ(plan.needed(), plain.needed()) << limit;
    EXPECT_EQ(plan.streams(), plain.streams()) << limit;
    EXPECT_EQ(plan.repack, plain.repack) << limit;
    EXPECT_EQ(plan.context, plain.context) << limit;
  }
}

TEST(MemoryPlan, NeedsAllExpertsOnADeviceWithoutSlots) {
  const Model& model = real_model("gemma4_moe q8_0");
  const Result<MemoryPlan> plan = plan_with(model, 0, Repack::never, "reference");
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_FALSE(plan->streams());
  EXPECT_EQ(plan->needed(), plan->recommended());
  EXPECT_FALSE(check_floor(*plan));
}

TEST(MemoryPlan, LongChunksGiveWayBeforeExpertsAreStreamed) {
  const Model& model = real_model("gemma4_moe q8_0");
  const auto plan_of = [&](uint64_t limit, uint32_t chunk) {
    return *plan_with(model, limit, Repack::never, "cpu", DraftKind::none, chunk);
  };
  const uint64_t usual = plan_of(UINT64_MAX, kUsualPromptRows).recommended();
  const MemoryPlan all = plan_of(UINT64_MAX, 4096), tight = plan_of(usual, 4096);
  const MemoryPlan less = plan_of(all.floor + all.experts.bytes / 2, 4096);
  EXPECT_EQ(all.prompt_chunk, 4096u);
  EXPECT_GT(all.recommended(), usual);
  EXPECT_EQ(tight.prompt_chunk, kUsualPromptRows);
  EXPECT_FALSE(tight.streams());
  EXPECT_LE(less.prompt_chunk, kUsualPromptRows);
  EXPECT_TRUE(less.streams());
}

TEST(MemoryPlan, ADevicesChunkIsNoLongerThanSnapshotsOfSlotsAllow) {
  const DeviceInfo device{.prompt_rows = 4096};
  EXPECT_EQ(suited_chunk(device, *real_model("gemma4_moe").record_text()), 4096u);
  EXPECT_EQ(suited_chunk(device, *real_model("qwen3_5_moe").record_text()), 512u);
  EXPECT_EQ(suited_chunk(DeviceInfo(), *real_model("gemma4_moe").record_text()), 512u);
}

// Room for more experts is worth more than for a third snapshot.
TEST(MemoryPlan, KeepsFewSnapshotsIfExpertsAreStreamed) {
  const Model& model = real_model("gemma4_moe q8_0");
  const auto state = [&](uint64_t limit, bool streams) {
    const MemoryPlan plan = *plan_with(model, limit, Repack::never);
    EXPECT_EQ(plan.streams(), streams);
    return std::ranges::find(plan.lines, Purpose::state, &MemoryLine::purpose)->bytes;
  };
  const MemoryPlan whole = *plan_with(model, UINT64_MAX, Repack::never);
  EXPECT_LT(state(whole.floor + whole.experts.bytes / 2, true), state(UINT64_MAX, false));
}

}  // namespace
}  // namespace sluice
