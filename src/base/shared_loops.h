// Who takes which piece of a pool's loops. The threads themselves are their owner's: threads.cpp, threads_wasi.cpp.
//
// threads.h says how loops are shared.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/loop_trial.h"
#include "base/threads.h"
#include "base/wait_word.h"

namespace sluice {

class SharedLoops {
 public:
  // `threads`: with the caller, which is thread 0; at least 2.
  explicit SharedLoops(uint32_t threads) : tickets_(threads) {}

  uint32_t threads() const { return static_cast<uint32_t>(tickets_.size()); }

  // By one caller at a time.
  void run(size_t count, size_t grain, ThreadPool::Loop loop);

  // By each of the other threads: takes pieces of all loops until stop().
  void work(uint32_t thread);
  void stop();
  // A thread died at a piece: the caller's run() fails a CHECK instead of waiting for it.
  void fail();

 private:
  static constexpr size_t kPieces = 8;  // of a share, at most
  // Times what is worth waking a thread for: longer loops are always shared.
  static constexpr size_t kShort = 16;

  // The pieces of one thread's share that nobody has taken yet, and the loop that they belong to: a thread that comes
  // late must not take pieces of the next loop for those of its own. Bits 32 to 63: the loop's number; 16 to 31: pieces
  // taken; 0 to 15: pieces in all.
  struct alignas(64) Ticket {
    std::atomic<uint64_t> word{0};

    void offer(uint32_t loop, uint32_t pieces) { word.store(uint64_t{loop} << 32 | pieces, std::memory_order_release); }
    // The number of the next piece of this loop, or -1.
    int take(uint32_t loop);
  };

  // Whether the other threads come in time. After kLonely loops without them, loops are the caller's alone for kAlone.
  class Company {
   public:
    bool expected() { return loops_alone_ < kLonely || Clock::now() >= alone_until_; }
    void note(bool came) {
      loops_alone_ = came ? 0 : loops_alone_ + 1;
      if (loops_alone_ >= kLonely) alone_until_ = Clock::now() + kAlone;
    }

   private:
    using Clock = std::chrono::steady_clock;
    static constexpr uint32_t kLonely = 16;
    static constexpr std::chrono::microseconds kAlone{500};

    uint32_t loops_alone_ = 0;
    Clock::time_point alone_until_;
  };

  void share(size_t count, size_t grain, ThreadPool::Loop loop);
  void offer(size_t count, size_t grain, ThreadPool::Loop loop);
  uint32_t take_part(uint32_t thread, uint32_t loop);
  uint32_t take_share(uint32_t thread, uint32_t owner, uint32_t loop);

  Company company_;  // of callers
  LoopTrial trial_;  // of callers
  // Only who has taken a piece of a loop may read these: they stay until all pieces are done.
  ThreadPool::Loop loop_;
  size_t count_ = 0, pieces_ = 0;  // indices; pieces of a share
  std::vector<Ticket> tickets_;    // by thread
  std::atomic<bool> stopping_{false}, failed_{false};
  alignas(64) WaitWord started_;  // loops so far
  alignas(64) WaitWord left_;     // pieces of the current loop that are not done
};

}  // namespace sluice
