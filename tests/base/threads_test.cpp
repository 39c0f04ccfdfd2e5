#include "base/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

namespace sluice {
namespace {

TEST(ThreadPool, EveryIndexIsInExactlyOneShareInThreadOrder) {
  for (const uint32_t threads : {1u, 2u, 3u, 7u}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const size_t count : {1, 2, 6, 7, 8, 1000}) {
      std::vector<Share> shares(threads, Share{99, 0, 0});
      pool.parallel(count, 0, [&](const Share& share) { shares[share.thread] = share; });
      size_t next = 0;
      for (uint32_t thread = 0; thread < threads; ++thread) {
        EXPECT_EQ(shares[thread].thread, thread);
        EXPECT_EQ(shares[thread].first, next);
        EXPECT_LE(shares[thread].last - shares[thread].first, (count + threads - 1) / threads);
        next = shares[thread].last;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(ThreadPool, LittleWorkStaysWithTheCaller) {
  ThreadPool pool(4);
  const std::thread::id caller = std::this_thread::get_id();
  int calls = 0;
  pool.parallel(10, 10, [&](const Share& share) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(share.first, 0u);
    EXPECT_EQ(share.last, 10u);
    ++calls;
  });
  EXPECT_EQ(calls, 1);
}

TEST(ThreadPool, SharesAreComputedOnDifferentThreads) {
  ThreadPool pool(3);
  std::vector<std::thread::id> ids(3);
  pool.parallel(3, 0, [&](const Share& share) { ids[share.thread] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_NE(ids[1], ids[0]);
  EXPECT_NE(ids[2], ids[0]);
  EXPECT_NE(ids[2], ids[1]);
}

// Each loop reads what the one before wrote on other threads.
TEST(ThreadPool, ALoopSeesWhatTheLoopBeforeWrote) {
  ThreadPool pool(3);
  constexpr size_t kCount = 97;
  std::vector<uint64_t> now(kCount), next(kCount);
  std::iota(now.begin(), now.end(), 0);
  for (int round = 0; round < 2000; ++round) {
    pool.parallel(kCount, 0, [&](const Share& share) {
      for (size_t i = share.first; i < share.last; ++i) next[i] = now[(i + 1) % kCount] + 1;
    });
    std::swap(now, next);
  }
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(now[i], (i + 2000) % kCount + 2000);
}

TEST(ThreadPool, ThreadsThatFellAsleepWakeForTheNextLoop) {
  ThreadPool pool(3);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> calls{0};
    pool.parallel(3, 0, [&](const Share&) { calls.fetch_add(1); });
    EXPECT_EQ(calls.load(), 3);
  }
}

TEST(ThreadPool, TheCallerWaitsForASlowThread) {
  ThreadPool pool(2);
  bool done = false;
  pool.parallel(2, 0, [&](const Share& share) {
    if (share.thread == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    done = true;
  });
  EXPECT_TRUE(done);
}

TEST(ThreadPool, LoopsOfSeveralCallersRunOneAfterAnother) {
  ThreadPool pool(2);
  uint64_t total = 0;  // guarded by the pool: one loop at a time, in which one thread adds
  const auto call = [&] {
    for (int i = 0; i < 500; ++i)
      pool.parallel(2, 0, [&](const Share& share) {
        if (share.thread == 1) ++total;
      });
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_EQ(total, 1000u);
}

TEST(ThreadPool, APoolThatDidNothingEnds) {
  for (int i = 0; i < 20; ++i) ThreadPool pool(3);
}

TEST(Threads, ThereIsAProcessor) { EXPECT_GE(available_processors(), 1u); }

}  // namespace
}  // namespace sluice
