// The expert store over memory that only counts calls.
#include "engine/experts/expert_store.h"

#include <cstdlib>
#include <set>

#include "engine/plan/layout.h"
#include "tests/engine/experts/scripted_reads.h"
#include "tests/engine/real_engine.h"

namespace sluice {
namespace {

class CountedSlots final : public ExpertMemory {
 public:
  CountedSlots(uint32_t slots, uint64_t slot_bytes)
      : slot_bytes_(slot_bytes),
        bytes_(static_cast<std::byte*>(std::aligned_alloc(kSlotAlignment, slots * slot_bytes)), std::free) {}

  std::span<std::byte> slot_memory(uint32_t slot) override {
    return {bytes_.get() + slot * slot_bytes_, static_cast<size_t>(slot_bytes_)};
  }
  Ticket fill(uint32_t, ExpertId expert, std::span<const std::byte* const>) override {
    filled.insert(expert);
    return 1;
  }
  void release(uint32_t) override { ++released; }

  std::set<ExpertId> filled;
  uint32_t released = 0;

 private:
  uint64_t slot_bytes_;
  std::unique_ptr<std::byte, void (*)(void*)> bytes_;
};

// Of four experts that the next layer's router names, three slots are left: the first three stay for it. To read the
// fourth in the place of one of them would bring as much as it takes.
TEST(ExpertStore, AnAwaitedExpertDoesNotEvictAnAwaitedOne) {
  const Model& model = real_model("qwen3_5_moe");
  const ExpertPlaces places =
      unwrap(ExpertPlaces::find(unwrap(model.record_text()), model.weights(), weight_files(model)));
  constexpr uint32_t kSlots = 4;
  CountedSlots slots(kSlots, places.slot_bytes());
  ReadScript script{.depth = 32};
  ExpertStore store(places, kSlots, slots, std::nullopt, make_scripted_reads(places.paths(), script),
                    make_replacement(ReplacementKind::next_use, {places.layers(), places.experts()}));
  store.begin_step();
  Completion stopped{.stopped = true};
  stopped.missing = {{places.op(0), 5}};
  stopped.used = {{.op = places.op(0), .experts = {5}}};
  stopped.guessed = ExpertUse{.op = places.op(1), .experts = {0, 1, 2, 3}};
  store.note(stopped);
  for (int turn = 0; turn < 10; ++turn) (void)unwrap(store.advance(false));
  EXPECT_FALSE(store.reading());
  EXPECT_EQ(slots.filled.size(), kSlots);
  EXPECT_TRUE(slots.filled.contains({places.op(0), 5}));
  EXPECT_EQ(slots.released, 0u);
  EXPECT_EQ(store.stats().ahead, 3u);
}

}  // namespace
}  // namespace sluice
