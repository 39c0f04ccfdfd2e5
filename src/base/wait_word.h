// Where threads wait until a condition holds: they spin for some microseconds, then sleep.
//
// The condition reads atomics. A thread that makes it true stores them, and then calls wake_all(), which costs little
// while nobody sleeps. No wake is lost: sleepers and wakers change the same word, so either the waker sees the sleeper,
// or the sleeper sees the stores.
//
// The page's module has std::atomic but not its wait(), because its C++ library was built without threads; there the
// instructions of WebAssembly's threads take its place. They trap where the memory is not shared, so a module of one
// thread must not wait.
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice {

class WaitWord {
 public:
  template <class Condition>
  void wait_until(const Condition& holds) {
    for (int i = 0; i < kSpins; ++i) {
      if (holds()) return;
      relax();
    }
    uint32_t seen = word_.fetch_add(kSleeper) + kSleeper;
    for (; !holds(); seen = word_.load()) sleep_until_not(seen);
    word_.fetch_sub(kSleeper);
  }

  void wake_all() {
    if (word_.fetch_add(kChange) % kChange != 0) notify_all();
  }

 private:
  // The word counts changes, and in its low bits the threads that sleep.
  static constexpr uint32_t kSleeper = 1, kChange = 1 << 16;

#if defined(__wasi__)
  // Some 60 microseconds: browsers take long to wake a thread. There is no instruction that tells the processor of a
  // loop that spins.
  static constexpr int kSpins = 200'000;
  static void relax() {}

  int* address() { return reinterpret_cast<int*>(&word_); }
  void sleep_until_not(uint32_t seen) {
    // Not forever: no thread of a page that has failed can wake the others.
    constexpr int64_t kNanoseconds = 250'000'000;
    __builtin_wasm_memory_atomic_wait32(address(), static_cast<int>(seen), kNanoseconds);
  }
  void notify_all() { __builtin_wasm_memory_atomic_notify(address(), ~uint32_t{0}); }
#else
  // About 20 microseconds: longer than the gap between two loops of a step, far shorter than a person's pause.
  static constexpr int kSpins = 1000;
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  void sleep_until_not(uint32_t seen) { word_.wait(seen); }
  void notify_all() { word_.notify_all(); }
#endif

  std::atomic<uint32_t> word_{0};
};

}  // namespace sluice
