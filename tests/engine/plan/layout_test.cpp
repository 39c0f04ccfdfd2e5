#include "engine/plan/layout.h"

#include <gtest/gtest.h>

#include "tests/engine/fake_device.h"

namespace sluice {
namespace {

EngineOptions options(uint32_t sequences, uint32_t chunk) {
  EngineOptions options;
  options.sequences = sequences;
  options.prompt_chunk = chunk;
  return options;
}

TEST(Layout, HoldsAContextForEachSequenceAndAWindowForEach) {
  const Layout layout = make_layout(fake::model(), options(4, 512), {1000, 4000, 0});
  EXPECT_EQ(layout.maxima.counts[Symbol::rows], 512u);
  EXPECT_EQ(layout.maxima.counts[Symbol::wanted], 20u);
  EXPECT_EQ(layout.maxima.pages_per_sequence, (std::vector<uint32_t>{16, 12}));  // 96 positions seen, 512 new ones
  EXPECT_EQ(layout.pages[0], 63u) << "4000 positions";
  EXPECT_EQ(layout.pages[1], 4u * 4 + 8) << "a window for each, a chunk for all";
}

TEST(Layout, SnapshotsHaveRoomOfTheirOwnBehindWindows) {
  const Layout without = make_layout(fake::model(), options(1, 64), {1000, 1000, 0});
  const Layout with = make_layout(fake::model(), options(1, 64), {1000, 1000, 4});
  EXPECT_EQ(with.pages[0], without.pages[0]);
  EXPECT_EQ(with.pages[1], without.pages[1] + 16);
}

TEST(Layout, ManyDecodeRowsNeedNoLargerChunk) {
  EXPECT_EQ(make_layout(fake::model(), options(300, 64), {64, 19200, 0}).maxima.counts[Symbol::rows], 300u);
}

TEST(Layout, ASmallContextNeedsNoWholeWindow) {
  const Layout layout = make_layout(fake::model(), options(1, 512), {64, 64, 0});
  EXPECT_EQ(layout.maxima.pages_per_sequence, (std::vector<uint32_t>{1, 1}));
  EXPECT_GE(layout.pages[1], 1u);
}

// A slot's page takes as much as any other.
TEST(Layout, GivesUpAutomaticDraftsInSlotsBeforeSnapshots) {
  fake::Script script;
  script.slots = true;
  const std::unique_ptr<Device> device = fake::make_device(script);
  const TextModel model = fake::model(1024, true);
  EngineOptions automatic = options(2, 64);
  automatic.draft = {.kind = DraftKind::automatic, .tokens = 8};
  const auto placed_within = [&](uint64_t pages) {
    Budget budget;
    budget.set_limit(Domain::host, pages * fake::kPageBytes);
    const Layout layout = place_text(model, *device, budget, automatic)->layout;
    return cat(layout.context, ", ", layout.pages[2], " slots, ", layout.drafts, " guesses");
  };
  EXPECT_EQ(placed_within(32 + 41 + 22), "1024, 22 slots, 4 guesses");
  EXPECT_EQ(placed_within(32 + 41 + 21), "1024, 14 slots, 0 guesses");
}

TEST(Layout, HalvesALongChunkUntilThereIsRoom) {
  fake::Script script;
  const std::unique_ptr<Device> device = fake::make_device(script);
  const TextModel model = fake::model(8192);
  const auto wanted = [](uint32_t chunk) {
    EngineOptions wanted = options(1, chunk);
    wanted.context = 8192;
    return wanted;
  };
  const auto chunk_in_room_of = [&](uint32_t chunk) {
    const Layout smallest = make_layout(model, wanted(chunk), {8192, 8192, 0});
    Budget budget;
    budget.set_limit(Domain::host, (uint64_t{smallest.pages[0]} + smallest.pages[1]) * fake::kPageBytes);
    const Result<PlacedText> placed = place_text(model, *device, budget, wanted(4096), {});
    return placed ? placed->layout.prompt_chunk : 0;
  };
  EXPECT_EQ(chunk_in_room_of(4096), 4096u);
  EXPECT_EQ(chunk_in_room_of(1024), 1024u);
  EXPECT_EQ(chunk_in_room_of(512), 512u);
  EXPECT_EQ(chunk_in_room_of(256), 0u) << "no room";
}

TEST(Layout, AProgramWithoutItsPortsIsRefused) {
  TextModel model = fake::model();
  model.program.outputs.pop_back();
  EXPECT_EQ(find_ports(model.program).error().text,
            "text program: has no value sample: want tokens, wanted, logits, sample");
}

// By hand: a page of either group takes 512 bytes.
TEST(Layout, GivesUpSnapshotsThenSequencesThenContext) {
  fake::Script script;
  const std::unique_ptr<Device> device = fake::make_device(script);
  const TextModel model = fake::model(1024);
  const auto placed_within = [&](uint64_t pages) {
    Budget budget;
    budget.set_limit(Domain::host, pages * fake::kPageBytes);
    Result<PlacedText> placed = place_text(model, *device, budget, options(2, 64));
    return placed ? cat(placed->layout.context, ": ", placed->layout.pages[0], " and ", placed->layout.pages[1])
                  : placed.error().text;
  };
  EXPECT_EQ(placed_within(1000), "1024: 32 and 41");
  EXPECT_EQ(placed_within(60), "1024: 32 and 25");
  EXPECT_EQ(placed_within(50), "1024: 32 and 9");
  EXPECT_EQ(placed_within(30), "1024: 16 and 9");
  EXPECT_EQ(placed_within(20), "512: 8 and 9");
  EXPECT_EQ(placed_within(13), "256: 4 and 9");
  EXPECT_EQ(placed_within(12), "host memory: 6.1 kB left of 6.1 kB (nothing held): want 6.7 kB for state");
}

}  // namespace
}  // namespace sluice
