#include "base/loop_trial.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using std::chrono::microseconds;

// Runs a trial in which a unit of work takes this long in each way.
void run_trial(LoopTrial& trial, microseconds shared, microseconds alone) {
  for (int i = 0; trial.runs(); ++i) {
    const int work = 1 + i % 7;
    trial.note(work, work * (trial.shares() ? shared : alone));
  }
}

TEST(LoopTrial, BeginsWithAllThreads) { EXPECT_TRUE(LoopTrial().shares()); }

TEST(LoopTrial, KeepsTheFasterWay) {
  LoopTrial pays, costs;
  run_trial(pays, microseconds(3), microseconds(4));
  run_trial(costs, microseconds(4), microseconds(3));
  EXPECT_TRUE(pays.shares());
  EXPECT_FALSE(costs.shares());
}

TEST(LoopTrial, TriesAgain) {
  LoopTrial trial;
  run_trial(trial, microseconds(4), microseconds(3));
  for (uint32_t i = 0; i < LoopTrial::kKept; ++i) {
    EXPECT_FALSE(trial.runs());
    EXPECT_FALSE(trial.shares());
    trial.note(1, {});
  }
  EXPECT_TRUE(trial.runs());
  run_trial(trial, microseconds(3), microseconds(4));
  EXPECT_TRUE(trial.shares());
}

TEST(LoopTrial, OneLoopDoesNotOutweighAllOthers) {
  LoopTrial trial;
  for (int i = 0; trial.runs(); ++i)
    trial.note(1, i == 130 ? std::chrono::seconds(1) : microseconds(trial.shares() ? 3 : 5));
  EXPECT_TRUE(trial.shares());
}

}  // namespace
}  // namespace sluice
