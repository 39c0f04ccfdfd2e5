#include "base/task_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>

namespace sluice {
namespace {

TEST(TaskQueue, RunsEveryTaskOnceAndReportsIt) {
  for (const uint32_t threads : {1u, 3u}) {
    std::vector<int> done(100);
    TaskQueue tasks(threads);
    EXPECT_FALSE(tasks.busy());
    for (uint64_t id = 0; id < done.size(); ++id) tasks.begin(id, [&done, id] { ++done[id]; });
    EXPECT_TRUE(tasks.busy());
    std::vector<uint64_t> ended;
    while (tasks.busy()) tasks.take_ended(ended, true);
    std::ranges::sort(ended);
    std::vector<uint64_t> all(done.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(ended, all);
    EXPECT_EQ(std::ranges::count(done, 1), 100);
    tasks.take_ended(ended, true);
    EXPECT_EQ(ended.size(), 100u) << "with nothing under way there is nothing to wait for";
  }
}

TEST(TaskQueue, DestructionWaitsForTasks) {
  std::atomic<int> done = 0;
  {
    TaskQueue tasks(2);
    for (int i = 0; i < 50; ++i) tasks.begin(0, [&] { ++done; });
  }
  EXPECT_EQ(done, 50);
}

}  // namespace
}  // namespace sluice
