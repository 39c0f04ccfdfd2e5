#include "base/shared_parts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "base/threads.h"

namespace sluice {
namespace {

TEST(SharedParts, EachIsTakenOnceAndAllHaveEndedAfterWait) {
  for (const uint32_t threads : {1u, 2u, 5u}) {
    ThreadPool pool(threads);
    SharedParts parts;
    for (const size_t count : {0, 1, 7, 300}) {
      // Plain numbers: wait() must make what other threads wrote visible.
      std::vector<int> taken(count);
      std::atomic<int> incomplete{0};
      parts.offer(count);
      pool.parallel(20, 0, [&](const Share&) {
        parts.take([&](size_t part) { ++taken[part]; });
        parts.wait();
        if (taken != std::vector<int>(count, 1)) ++incomplete;
      });
      EXPECT_EQ(incomplete, 0);
    }
  }
}

}  // namespace
}  // namespace sluice
