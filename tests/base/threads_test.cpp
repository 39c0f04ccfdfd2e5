#include "base/threads.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

namespace sluice {
namespace {

TEST(ThreadPool, EveryIndexIsInExactlyOnePiece) {
  for (const uint32_t threads : {1u, 2u, 3u, 7u}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const size_t count : {0, 1, 2, 6, 7, 8, 57, 1000})
      for (const size_t grain : {0, 1, 3, 40}) {
        std::vector<std::atomic<int>> seen(count);
        pool.parallel(count, grain, [&](const Share& share) {
          EXPECT_LT(share.thread, threads);
          EXPECT_LT(share.first, share.last);
          for (size_t i = share.first; i < share.last; ++i) seen[i].fetch_add(1);
        });
        for (size_t i = 0; i < count; ++i) EXPECT_EQ(seen[i].load(), 1) << i;
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

// Waits until `count` threads or pieces have come so far.
void wait_for(const std::atomic<int>& come, int count) {
  while (come.load() < count) std::this_thread::yield();
}

TEST(ThreadPool, PiecesAreComputedOnDifferentThreads) {
  ThreadPool pool(3);
  std::vector<std::thread::id> ids(3);
  std::atomic<int> come{0};
  pool.parallel(3, 0, [&](const Share& share) {
    ids[share.thread] = std::this_thread::get_id();
    come.fetch_add(1);
    wait_for(come, 3);  // so that no thread takes two
  });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_NE(ids[1], ids[0]);
  EXPECT_NE(ids[2], ids[0]);
  EXPECT_NE(ids[2], ids[1]);
}

// The other thread is at its first piece until all others are done, its own among them.
TEST(ThreadPool, AThreadThatIsHeldUpHoldsUpOnePiece) {
  ThreadPool pool(2);
  constexpr int kPieces = 16;
  std::atomic<int> held{0}, done{0};
  pool.parallel(kPieces, 0, [&](const Share& share) {
    ASSERT_EQ(share.last - share.first, 1u);
    if (share.thread == 1) {
      held.store(1);
      wait_for(done, kPieces - 1);
    } else {
      wait_for(held, 1);
    }
    done.fetch_add(1);
  });
  EXPECT_EQ(done.load(), kPieces);
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

// Threads get a copy of a small body, and the address of one that is larger than a loop's room for it. A millisecond.
TEST(ThreadPool, BodiesOfAnySizeAreCalled) {
  struct Large {
    std::array<size_t, ThreadPool::Loop::kBytes> added;
    std::vector<size_t>* out;

    void operator()(const Share& share) const {
      for (size_t i = share.first; i < share.last; ++i) (*out)[i] = i + added.back();
    }
  };
  ThreadPool pool(3);
  std::vector<size_t> small(50), large(50);
  for (size_t round = 0; round < 100; ++round) {
    pool.parallel(small.size(), 0, [&small, round](const Share& share) {
      for (size_t i = share.first; i < share.last; ++i) small[i] = i + round;
    });
    Large body{.added = {}, .out = &large};
    body.added.back() = round;
    pool.parallel(large.size(), 0, body);
    for (size_t i = 0; i < small.size(); ++i) ASSERT_EQ(small[i], i + round);
    EXPECT_EQ(large, small);
  }
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
  std::atomic<int> begun{0};
  pool.parallel(2, 0, [&](const Share& share) {
    if (share.thread == 0) return wait_for(begun, 1);
    begun.store(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    done = true;
  });
  EXPECT_TRUE(done);
}

TEST(ThreadPool, LoopsOfSeveralCallersRunOneAfterAnother) {
  ThreadPool pool(2);
  uint64_t total = 0;  // guarded by the pool: one loop at a time, in which one piece adds
  const auto call = [&] {
    for (int i = 0; i < 500; ++i)
      pool.parallel(2, 0, [&](const Share& share) {
        if (share.first == 0) ++total;
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
