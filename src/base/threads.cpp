#include "base/threads.h"

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/shared_loops.h"
#include "base/signals_blocked.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace sluice {

// The threads of a pool besides the caller.
class ThreadPool::Team {
 public:
  explicit Team(uint32_t threads);
  ~Team() { stop(); }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  void run(size_t count, size_t grain, const Loop& loop) {
    const std::lock_guard<std::mutex> one_caller(callers_);
    loops_.run(count, grain, loop);
  }

 private:
  void stop();

  std::mutex callers_;
  SharedLoops loops_;
  std::vector<std::thread> workers_;
};

ThreadPool::Team::Team(uint32_t threads) : loops_(threads) {
  [[maybe_unused]] const SignalsBlocked blocked;
  workers_.reserve(threads - 1);
  try {
    for (uint32_t i = 1; i < threads; ++i) workers_.emplace_back([this, i] { loops_.work(i); });
  } catch (...) {  // the system allows no more threads; those that run must be joined
    stop();
    throw;
  }
}

void ThreadPool::Team::stop() {
  loops_.stop();
  for (std::thread& worker : workers_) worker.join();
}

ThreadPool::ThreadPool(uint32_t threads) : threads_(threads) {
  CHECK(threads >= 1);
  if (threads > 1) team_ = std::make_unique<Team>(threads);
}

ThreadPool::~ThreadPool() = default;

void ThreadPool::run(size_t count, size_t grain, const Loop& loop) { team_->run(count, grain, loop); }

uint32_t available_processors() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<uint32_t>(CPU_COUNT(&set));
#endif
  const uint32_t count = std::thread::hardware_concurrency();
  return count == 0 ? 1 : count;
}

bool a_thread_died() { return false; }

void wait_a_moment() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }
void yield_processor() { std::this_thread::yield(); }

}  // namespace sluice
