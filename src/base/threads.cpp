#include "base/threads.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/signals_blocked.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace sluice {
namespace {

// About 20 microseconds: longer than the gap between two loops of a step, far shorter than a person's pause.
constexpr int kSpins = 1000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns the first value of `word` that is not `old`.
uint32_t wait_until_not(const std::atomic<uint32_t>& word, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    const uint32_t value = word.load(std::memory_order_acquire);
    if (value != old) return value;
    relax();
  }
  word.wait(old, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
}

}  // namespace

// The threads of a pool besides the caller, and the loop that they run.
class ThreadPool::Team {
 public:
  explicit Team(uint32_t threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  void run(size_t count, Loop loop);

 private:
  void work(uint32_t thread);
  void stop();
  Share share(uint32_t thread) const;

  std::mutex callers_;
  // Written before started_ is increased. Workers read it until they decrease running_.
  Loop loop_;
  size_t count_ = 0;
  bool stopping_ = false;
  alignas(64) std::atomic<uint32_t> started_{0};  // loops so far
  alignas(64) std::atomic<uint32_t> running_{0};  // workers that have not finished the current loop
  std::vector<std::thread> workers_;
};

ThreadPool::Team::Team(uint32_t threads) {
  [[maybe_unused]] const SignalsBlocked blocked;
  workers_.reserve(threads - 1);
  try {
    for (uint32_t i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (...) {  // the system allows no more threads; those that run must be joined
    stop();
    throw;
  }
}

ThreadPool::Team::~Team() { stop(); }

void ThreadPool::Team::stop() {
  stopping_ = true;
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

Share ThreadPool::Team::share(uint32_t thread) const {
  const size_t n = workers_.size() + 1, base = count_ / n, extra = count_ % n;
  const size_t first = thread * base + (thread < extra ? thread : extra);
  return {thread, first, first + base + (thread < extra ? 1 : 0)};
}

void ThreadPool::Team::run(size_t count, Loop loop) {
  const std::lock_guard<std::mutex> one_caller(callers_);
  loop_ = loop;
  count_ = count;
  running_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  loop.call(loop.body, share(0));
  for (uint32_t left = running_.load(std::memory_order_acquire); left != 0;) left = wait_until_not(running_, left);
}

void ThreadPool::Team::work(uint32_t thread) {
  for (uint32_t seen = 0;;) {
    // The caller waits for every worker, so that no loop is ever missed.
    seen = wait_until_not(started_, seen);
    if (stopping_) return;
    loop_.call(loop_.body, share(thread));
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

ThreadPool::ThreadPool(uint32_t threads) : threads_(threads) {
  CHECK(threads >= 1);
  if (threads > 1) team_ = std::make_unique<Team>(threads);
}

ThreadPool::~ThreadPool() = default;

void ThreadPool::run(size_t count, Loop loop) { team_->run(count, loop); }

uint32_t available_processors() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<uint32_t>(CPU_COUNT(&set));
#endif
  const uint32_t count = std::thread::hardware_concurrency();
  return count == 0 ? 1 : count;
}

void wait_a_moment() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }
void yield_processor() { std::this_thread::yield(); }

}  // namespace sluice
