#include "engine/experts/replacement.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/text.h"
#include "engine/experts/drawn_routing.h"
#include "engine/experts/replay.h"

namespace sluice {
namespace {

double hit_rate(const RoutingTrace& trace, ReplacementKind kind, uint32_t slots, size_t uncounted) {
  const auto replacement = make_replacement(kind, {.layers = trace.layers, .experts = trace.experts});
  return replay(trace, slots, *replacement, uncounted).hit_rate();
}

TEST(Replacement, NextUseBeatsLruByTwoPointsOnSteadyAndDriftingTexts) {
  for (const double exponent : {0.6, 0.8, 1.0, 1.2}) {
    for (const uint32_t topics : {1u, 8u}) {
      for (const uint64_t seed : {11u, 12u}) {
        const RoutingTrace trace = draw_routing({.layers = 8,
                                                 .experts = 96,
                                                 .used = 6,
                                                 .tokens = 768,
                                                 .exponent = exponent,
                                                 .topics = topics,
                                                 .topic_tokens = 64,
                                                 .seed = seed});
        const uint32_t all = trace.layers * trace.experts;
        for (const uint32_t slots : {all / 10, all / 4, all * 2 / 5}) {
          const double lru = hit_rate(trace, ReplacementKind::lru, slots, 256);
          const double ours = hit_rate(trace, ReplacementKind::next_use, slots, 256);
          const double best = replay_best(trace, slots, 256).hit_rate();
          const std::string where = cat("zipf ", exponent, ", ", topics, " topics, seed ", seed, ", ", slots, " slots");
          EXPECT_GE(ours, lru + 0.02) << where;
          EXPECT_GT(best, ours) << where;
        }
      }
    }
  }
}

// Once every expert has been used, a layer's own experts need not be read again where all find room.
TEST(Replacement, NothingIsReadTwiceIfAllExpertsFit) {
  const RoutingTrace trace = draw_routing({.layers = 3, .experts = 8, .used = 2, .tokens = 100, .seed = 3});
  for (const ReplacementKind kind : kReplacements) {
    const auto replacement = make_replacement(kind, {.layers = 3, .experts = 8});
    const Replay replayed = replay(trace, 24, *replacement, 0);
    EXPECT_EQ(replayed.uses - replayed.hits, 24u) << replacement_name(kind);
  }
}

// Two slots, one layer, one expert a token: 0 1 2 0 1 2 ... LRU finds nothing, the best is to keep one of them.
TEST(Replacement, TheBoundKeepsTheExpertsUsedSoonest) {
  RoutingTrace trace{.layers = 1, .experts = 3, .used = 1, .chosen = {}};
  for (uint32_t i = 0; i < 30; ++i) trace.chosen.push_back(i % 3);
  EXPECT_EQ(hit_rate(trace, ReplacementKind::lru, 2, 0), 0);
  EXPECT_EQ(replay_best(trace, 2, 0).hits, 14u);  // every other one after the first two
}

TEST(Replacement, LfuForgets) {
  const auto lfu = make_replacement(ReplacementKind::lfu, {.layers = 1, .experts = 2});
  const std::array<uint32_t, 1> first = {0}, second = {1};
  for (int i = 0; i < 100; ++i) lfu->use(0, first);
  EXPECT_GT(lfu->worth(0, 0), lfu->worth(0, 1));
  for (int i = 0; i < 100; ++i) lfu->use(0, second);
  EXPECT_LT(lfu->worth(0, 0), lfu->worth(0, 1));
}

// Of two layers' experts that are used alike, the one whose layer comes later goes first.
TEST(Replacement, NextUseKnowsTheTurnOfLayers) {
  const auto ours = make_replacement(ReplacementKind::next_use, {.layers = 4, .experts = 2});
  const std::array<uint32_t, 1> first = {0};
  for (int token = 0; token < 50; ++token)
    for (uint32_t layer = 0; layer < 4; ++layer) ours->use(layer, first);
  ours->use(0, first);
  EXPECT_GT(ours->worth(1, 0), ours->worth(2, 0));
  EXPECT_GT(ours->worth(2, 0), ours->worth(3, 0));
  EXPECT_GT(ours->worth(3, 0), ours->worth(1, 1));
}

// It once would have passed for the next one: its experts were used a moment ago.
TEST(Replacement, TheLayerJustServedComesLast) {
  const auto ours = make_replacement(ReplacementKind::next_use, {.layers = 4, .experts = 2});
  const std::array<uint32_t, 1> first = {0};
  for (int token = 0; token < 50; ++token)
    for (uint32_t layer = 0; layer < 4; ++layer) ours->use(layer, first);
  for (uint32_t layer = 0; layer < 4; ++layer) {
    ours->use(layer, first);
    for (uint32_t other = 0; other < 4; ++other) {
      if (other == layer) continue;
      EXPECT_GT(ours->worth(other, 0), ours->worth(layer, 0)) << other << " before " << layer;
    }
  }
}

// Counts grow with the turns and are scaled down now and then; what is worth more stays so.
TEST(Replacement, LongTextsDoNotOverflow) {
  const auto ours = make_replacement(ReplacementKind::next_use, {.layers = 1, .experts = 3});
  const std::array<uint32_t, 2> both = {0, 1};
  const std::array<uint32_t, 1> first = {0};
  for (int i = 0; i < 20000; ++i) i % 2 == 0 ? ours->use(0, both) : ours->use(0, first);
  EXPECT_GT(ours->worth(0, 0), ours->worth(0, 1));
  EXPECT_GT(ours->worth(0, 1), ours->worth(0, 2));
}

}  // namespace
}  // namespace sluice
