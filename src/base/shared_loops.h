// Who takes which piece of a pool's loops. The threads themselves are their owner's: threads.cpp, threads_wasi.cpp.
//
// threads.h says how loops are shared. Each thread waits at a cache line of its own. That line holds all that the
// thread needs to begin. A second line counts the pieces that the thread has computed. A decode step's loop takes
// microseconds, and each cache line that moves between processors adds up to half of one.
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
  explicit SharedLoops(uint32_t threads) : offers_(threads), done_(threads) {}

  uint32_t threads() const { return static_cast<uint32_t>(offers_.size()); }

  // By one caller at a time.
  void run(size_t count, size_t grain, const ThreadPool::Loop& loop);

  // By each of the other threads: takes pieces of all loops until stop().
  void work(uint32_t thread);
  void stop();
  // A thread died at a piece: the caller's run() fails a CHECK instead of waiting for it.
  void fail();
  bool failed() const { return failed_.load(); }

 private:
  static constexpr size_t kPieces = 8;  // of a share, at most
  // Times what is worth waking a thread for: longer loops are always shared.
  static constexpr size_t kShort = 16;

  struct Range {
    size_t first = 0, last = 0;
  };
  struct Piece {
    uint32_t index = 0, of = 0;  // of = 0: none is left to take
  };

  // One thread's share of a loop.
  struct alignas(64) Offer {
    // Its pieces that nobody has taken yet, and the loop that they belong to: a thread that comes late must not take
    // pieces of the next loop for those of its own. Bits 32 to 63: the loop's number; 16 to 31: pieces taken; 0 to 15:
    // pieces in all.
    std::atomic<uint64_t> word{0};
    // Only who has taken a piece of the loop may read these: they stay until all pieces are done.
    Range share;
    ThreadPool::Loop loop;

    uint32_t number() const { return static_cast<uint32_t>(word.load(std::memory_order_acquire) >> 32); }
    void set(uint32_t number, uint32_t pieces) {
      word.store(uint64_t{number} << 32 | pieces, std::memory_order_release);
    }
    // Takes the next piece of this loop.
    Piece take(uint32_t number);
  };
  static_assert(sizeof(Offer) == 64);

  // Pieces that a thread has computed so far, of any loop; written by that thread alone.
  struct alignas(64) Done {
    std::atomic<uint32_t> pieces{0};
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

  static Range part(size_t count, size_t i, size_t n);
  void share(size_t count, size_t grain, const ThreadPool::Loop& loop);
  uint32_t offer(size_t count, size_t grain, const ThreadPool::Loop& loop);
  uint32_t take_part(uint32_t thread, uint32_t number);
  uint32_t take_share(uint32_t thread, uint32_t owner, uint32_t number);
  bool others_are_done() const;

  // Of callers.
  Company company_;
  LoopTrial trial_;
  uint32_t number_ = 0;    // loops so far
  uint32_t expected_ = 0;  // pieces that other threads have taken so far

  alignas(64) std::vector<Offer> offers_;  // by thread
  std::vector<Done> done_;                 // by thread; not that of callers
  std::atomic<bool> stopping_{false}, failed_{false};
  alignas(64) WaitWord offered_;  // for threads without an offer
  alignas(64) WaitWord ended_;    // for callers
};

}  // namespace sluice
