#include "train/kept_layers.h"

#include <gtest/gtest.h>

#include "tests/unwrap.h"

namespace sluice {
namespace {

// 100 bytes of the device and 10 more for each layer; 1,000 of the host.
Result<std::vector<MemoryLine>> lines(uint32_t kept) {
  if (kept > 9) return error(ErrorKind::out_of_memory, "more than a buffer holds");
  return std::vector<MemoryLine>{{Domain::device(), Purpose::weights, 100},
                                 {Domain::device(), Purpose::activations, 10 * uint64_t{kept}},
                                 {Domain::host, Purpose::staging, 1000}};
}

uint32_t kept(uint32_t layers, uint64_t limit, KeptMemory most) {
  Budget budget;
  budget.set_limit(Domain::device(), limit);
  return unwrap(most_kept_layers(layers, budget, most, lines));
}

TEST(KeptLayers, AreThoseForWhichThereIsRoom) {
  EXPECT_EQ(kept(8, 1000, KeptMemory::to_limit), 8u);
  EXPECT_EQ(kept(8, 179, KeptMemory::to_limit), 7u);
  EXPECT_EQ(kept(8, 109, KeptMemory::to_limit), 0u);
  EXPECT_EQ(kept(8, 50, KeptMemory::to_limit), 0u);  // the training itself is refused later
  EXPECT_EQ(kept(0, 1000, KeptMemory::to_limit), 0u);
}

TEST(KeptLayers, TakeHalfAsMuchMemoryAgain) {
  EXPECT_EQ(kept(8, 1000, KeptMemory::by_half), 5u);
  EXPECT_EQ(kept(4, 1000, KeptMemory::by_half), 4u);
  EXPECT_EQ(kept(8, 139, KeptMemory::by_half), 3u);
}

TEST(KeptLayers, FitIntoWhatADeviceCanHold) { EXPECT_EQ(kept(20, 1000, KeptMemory::to_limit), 9u); }

TEST(KeptLayers, FailAsTheLeastTrainingDoes) {
  const auto fails = [](uint32_t) { return Result<std::vector<MemoryLine>>(Error{ErrorKind::unsupported, "no"}); };
  EXPECT_EQ(most_kept_layers(3, Budget(), KeptMemory::by_half, fails).error().text, "no");
}

}  // namespace
}  // namespace sluice
