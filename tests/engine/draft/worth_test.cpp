#include "engine/draft/worth.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

// Steps whose time is that of the first row and a share of it for each row more.
double seconds(uint32_t rows, double share) { return 0.02 * (1 + share * (rows - 1)); }

TEST(DraftWorth, GuessesNothingBeforeAStepWasTimed) {
  DraftWorth worth;
  EXPECT_EQ(worth.best(16, 8), 0u);
  worth.took(1, 1, 0.02);
  EXPECT_EQ(worth.best(16, 8), 8u) << "a long match is worth trying";
  EXPECT_EQ(worth.best(0, 0), 0u);
}

TEST(DraftWorth, LearnsChancesFromWhatWasSampled) {
  DraftWorth worth;
  worth.took(1, 1, 0.02);
  const double before = worth.chance(2);
  for (int i = 0; i < 50; ++i) worth.learn(2, false);
  EXPECT_LT(worth.chance(2), before / 4);
  EXPECT_EQ(worth.best(2, 8), 0u);
  for (int i = 0; i < 200; ++i) worth.learn(2, true);
  EXPECT_GT(worth.chance(2), 0.9);
  EXPECT_GT(worth.best(2, 8), 0u);
  EXPECT_EQ(worth.chance(20), worth.chance(16)) << "other matches are another matter";
}

TEST(DraftWorth, GuessesLessWhereRowsCostMore) {
  uint32_t last = 9;
  for (const double share : {0.02, 0.2, 0.4, 1.0}) {
    DraftWorth worth;
    for (uint32_t rows = 1; rows <= 9; ++rows) worth.took(1, rows, seconds(rows, share));
    for (int i = 0; i < 200; ++i)
      for (uint32_t match = 2; match < 17; ++match) worth.learn(match, i % 10 < 7);
    const uint32_t best = worth.best(2, 8);
    EXPECT_LE(best, last) << share;
    last = best;
  }
  EXPECT_EQ(last, 0u) << "a row that costs as much as a step gains nothing";
}

// A step that was slow for another reason does not end guessing for good.
TEST(DraftWorth, ForgetsATimeThatIsOld) {
  DraftWorth worth;
  worth.took(1, 1, 0.02);
  for (uint32_t rows = 2; rows <= 9; ++rows) worth.took(1, rows, 2.0);
  EXPECT_EQ(worth.best(16, 8), 0u);
  for (int i = 0; i < 300; ++i) worth.took(1, 1, 0.02);
  EXPECT_EQ(worth.best(16, 8), 8u);
}

TEST(DraftWorth, GoesOnAfterAFirstStepThatWasSlow) {
  DraftWorth worth;
  worth.took(1, 1, 0.02);
  worth.took(1, 5, 1.0);
  EXPECT_GT(worth.best(16, 4), 0u);
  for (int i = 0; i < 10; ++i) worth.took(1, 5, 1.0);
  EXPECT_EQ(worth.best(16, 4), 0u) << "all such steps are slow";
}

TEST(DraftWorth, CountsTheRowsOfAllAnswers) {
  DraftWorth worth;
  for (uint32_t rows = 1; rows <= 40; ++rows) worth.took(1, rows, seconds(rows, rows < 10 ? 0.01 : 0.5));
  EXPECT_EQ(worth.best(16, 8), 8u);
  worth.took(4, 4, seconds(4, 0.01));
  EXPECT_LT(worth.best(16, 8), 3u) << "four answers of nine rows are in the slow part";
}

}  // namespace
}  // namespace sluice
