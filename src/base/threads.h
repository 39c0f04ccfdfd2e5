// A fixed team of threads for loops whose shares are known beforehand.
//
// The caller is one of the team: a pool of one starts no thread. A loop is cut into one contiguous share a thread, so
// which thread computes what depends on the count alone. Between loops the others spin for some microseconds, because
// the next loop of a decode step usually follows at once, and then sleep.
// A pool belongs to the process; loops of several callers run one after another. A body must not start a loop itself.
// In a page (threads_wasi.cpp) there are no threads: every pool is a pool of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sluice {

// What one thread does of a loop over [0, count): the indices [first, last), which may be none.
struct Share {
  uint32_t thread = 0;
  size_t first = 0;
  size_t last = 0;
};

class ThreadPool {
 public:
  // At least 1, the caller among them. Throws what std::thread does when the system gives no more: std::system_error.
  explicit ThreadPool(uint32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t threads() const { return threads_; }

  // Calls body(Share) once on every thread and returns when all are done; on the caller alone, with the whole range,
  // when there are at most `grain` indices: too little work to wake anybody for.
  template <class Body>
  void parallel(size_t count, size_t grain, const Body& body) {
    if (threads_ == 1 || count <= grain) return body(Share{0, 0, count});
    run(count, {&body, [](const void* object, const Share& share) { (*static_cast<const Body*>(object))(share); }});
  }

 private:
  struct Loop {
    const void* body = nullptr;
    void (*call)(const void* body, const Share& share) = nullptr;
  };
  class Team;

  void run(size_t count, Loop loop);

  uint32_t threads_;
  std::unique_ptr<Team> team_;  // none in a pool of one
};

// Processors this process may run on.
uint32_t available_processors();

// Lets go of the processor for some 50 microseconds, while a device works by itself.
void wait_a_moment();
// Lets other threads run that are ready, for less than that.
void yield_processor();

}  // namespace sluice
