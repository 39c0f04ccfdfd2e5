#include "base/threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/loop_trial.h"
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

// The pieces of one thread's share that nobody has taken yet, and the loop that they belong to: a thread that comes
// late must not take pieces of the next loop for those of its own. Bits 32 to 63: the loop's number; 16 to 31: pieces
// taken; 0 to 15: pieces in all.
struct alignas(64) Ticket {
  std::atomic<uint64_t> word{0};

  void offer(uint32_t loop, uint32_t pieces) { word.store(uint64_t{loop} << 32 | pieces, std::memory_order_release); }
  // The number of the next piece of this loop, or -1.
  int take(uint32_t loop) {
    uint64_t seen = word.load(std::memory_order_acquire);
    for (;;) {
      const auto taken = static_cast<uint32_t>(seen >> 16 & 0xffff), pieces = static_cast<uint32_t>(seen & 0xffff);
      if (seen >> 32 != loop || taken == pieces) return -1;
      if (word.compare_exchange_weak(seen, seen + (uint64_t{1} << 16), std::memory_order_acq_rel,
                                     std::memory_order_acquire))
        return static_cast<int>(taken);
    }
  }
};

struct Range {
  size_t first = 0, last = 0;
};

// Part `i` of `n` contiguous parts of [0, count), whose sizes differ by at most one.
Range part(size_t count, size_t i, size_t n) {
  const size_t base = count / n, extra = count % n;
  const size_t first = i * base + std::min(i, extra);
  return {first, first + base + (i < extra ? 1 : 0)};
}

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

}  // namespace

// The threads of a pool besides the caller, and the loop that they run.
class ThreadPool::Team {
 public:
  explicit Team(uint32_t threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  void run(size_t count, size_t grain, Loop loop);

 private:
  static constexpr size_t kPieces = 8;  // of a share, at most
  // Times what is worth waking a thread for: longer loops are always shared.
  static constexpr size_t kShort = 16;

  void work(uint32_t thread);
  void stop();
  void share(size_t count, size_t grain, Loop loop);
  void offer(size_t count, size_t grain, Loop loop);
  uint32_t take_part(uint32_t thread, uint32_t loop);
  uint32_t take_share(uint32_t thread, uint32_t owner, uint32_t loop);

  std::mutex callers_;
  Company company_;  // of callers
  LoopTrial trial_;  // of callers
  // Only who has taken a piece of a loop may read these: they stay until all pieces are done.
  Loop loop_;
  size_t count_ = 0, pieces_ = 0;  // indices; pieces of a share
  std::vector<Ticket> tickets_;    // by thread
  std::atomic<bool> stopping_{false};
  alignas(64) std::atomic<uint32_t> started_{0};  // loops so far
  alignas(64) std::atomic<uint32_t> left_{0};     // pieces of the current loop that are not done
  std::vector<std::thread> workers_;
};

ThreadPool::Team::Team(uint32_t threads) : tickets_(threads) {
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
  stopping_.store(true, std::memory_order_relaxed);
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Team::run(size_t count, size_t grain, Loop loop) {
  const std::lock_guard<std::mutex> one_caller(callers_);
  if (count == 1 || !company_.expected()) return loop.call(loop.body, {0, 0, count});
  const size_t work = grain == 0 ? kShort : count / grain;
  if (work >= kShort) return share(count, grain, loop);

  const bool tried = trial_.runs();
  const auto now = [&] { return tried ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point(); };
  const auto begin = now();
  if (trial_.shares())
    share(count, grain, loop);
  else
    loop.call(loop.body, {0, 0, count});
  trial_.note(static_cast<double>(work), now() - begin);
}

void ThreadPool::Team::share(size_t count, size_t grain, Loop loop) {
  offer(count, grain, loop);
  const uint32_t all = left_.load(std::memory_order_relaxed);
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  company_.note(take_part(0, started_.load(std::memory_order_relaxed)) < all);
  for (uint32_t left = left_.load(std::memory_order_acquire); left != 0;) left = wait_until_not(left_, left);
}

// Pieces are small enough to be shared out again, but not much smaller than what is worth waking a thread for.
void ThreadPool::Team::offer(size_t count, size_t grain, Loop loop) {
  const size_t share = std::max<size_t>(count / tickets_.size(), 1);
  loop_ = loop;
  count_ = count;
  pieces_ = std::clamp<size_t>(share / std::max<size_t>(grain, 1), 1, std::min(kPieces, share));
  const uint32_t number = started_.load(std::memory_order_relaxed) + 1;
  left_.store(static_cast<uint32_t>(std::min(count, tickets_.size()) * pieces_), std::memory_order_relaxed);
  for (size_t i = 0; i < tickets_.size(); ++i)
    tickets_[i].offer(number, i < count ? static_cast<uint32_t>(pieces_) : 0);
}

// Computes pieces until none is left to take, those of its own share first. Returns their number.
uint32_t ThreadPool::Team::take_part(uint32_t thread, uint32_t loop) {
  const auto threads = static_cast<uint32_t>(tickets_.size());
  uint32_t done = 0;
  for (uint32_t i = 0; i < threads; ++i) done += take_share(thread, (thread + i) % threads, loop);
  return done;
}

uint32_t ThreadPool::Team::take_share(uint32_t thread, uint32_t owner, uint32_t loop) {
  uint32_t done = 0;
  for (int piece = tickets_[owner].take(loop); piece >= 0; piece = tickets_[owner].take(loop), ++done) {
    const Range share = part(count_, owner, tickets_.size());
    const Range range = part(share.last - share.first, static_cast<size_t>(piece), pieces_);
    loop_.call(loop_.body, {thread, share.first + range.first, share.first + range.last});
  }
  if (done > 0 && left_.fetch_sub(done, std::memory_order_acq_rel) == done) left_.notify_one();
  return done;
}

void ThreadPool::Team::work(uint32_t thread) {
  for (uint32_t seen = 0;;) {
    seen = wait_until_not(started_, seen);
    if (stopping_.load(std::memory_order_relaxed)) return;
    take_part(thread, seen);
  }
}

ThreadPool::ThreadPool(uint32_t threads) : threads_(threads) {
  CHECK(threads >= 1);
  if (threads > 1) team_ = std::make_unique<Team>(threads);
}

ThreadPool::~ThreadPool() = default;

void ThreadPool::run(size_t count, size_t grain, Loop loop) { team_->run(count, grain, loop); }

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
