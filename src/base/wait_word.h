// A word that threads wait on until it changes: they spin for some microseconds, then sleep.
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
  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  // These wake nobody.
  void set(uint32_t value) { value_.store(value); }
  uint32_t add(uint32_t by) { return value_.fetch_add(by) + by; }
  uint32_t subtract(uint32_t by) { return value_.fetch_sub(by) - by; }

  // Returns the first value that is not `old`.
  uint32_t wait_until_not(uint32_t old) {
    for (int i = 0; i < kSpins; ++i) {
      const uint32_t now = value();
      if (now != old) return now;
      relax();
    }
    sleep_until_not(old);
    return value();
  }

#if defined(__wasi__)
  // Asking the browser costs more than the loops that nobody sleeps in, so sleepers are counted.
  void wake_all() {
    if (sleepers_.load() > 0) __builtin_wasm_memory_atomic_notify(word(), ~uint32_t{0});
  }
#else
  void wake_all() { value_.notify_all(); }
#endif

 private:
#if defined(__wasi__)
  // Some 60 microseconds: browsers take long to wake a thread. There is no instruction that tells the processor of a
  // loop that spins.
  static constexpr int kSpins = 200'000;
  static void relax() {}

  int* word() { return reinterpret_cast<int*>(&value_); }
  void sleep_until_not(uint32_t old) {
    constexpr int64_t kForever = -1;
    sleepers_.fetch_add(1);
    while (value() == old) __builtin_wasm_memory_atomic_wait32(word(), static_cast<int>(old), kForever);
    sleepers_.fetch_sub(1);
  }

  std::atomic<uint32_t> sleepers_{0};
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
  void sleep_until_not(uint32_t old) { value_.wait(old, std::memory_order_acquire); }
#endif

  std::atomic<uint32_t> value_{0};
};

}  // namespace sluice
