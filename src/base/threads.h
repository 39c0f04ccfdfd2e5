// A fixed pool of threads for loops that are divided among all threads in advance.
//
// The caller is one of the threads, so a pool of one starts no thread. Each thread gets one contiguous share of a loop;
// which share depends on the count alone. Between loops the threads spin for some microseconds, because the next loop
// of a decode step usually follows at once; then they sleep.
// A pool belongs to the process. Loops of several callers run one after another. A body must not start a loop.
// A page has no threads (threads_wasi.cpp), so every pool there is a pool of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sluice {

// One thread's part of a loop over [0, count): the indices [first, last), possibly none.
struct Share {
  uint32_t thread = 0;
  size_t first = 0;
  size_t last = 0;
};

class ThreadPool {
 public:
  // `threads` includes the caller and is at least 1. Throws std::system_error, as std::thread does, when the system
  // allows no more threads.
  explicit ThreadPool(uint32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t threads() const { return threads_; }

  // Calls body(Share) once on every thread and returns when all are done. With at most `grain` indices the caller takes
  // the whole range, because waking the other threads would cost more.
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

// The number of processors that this process may run on.
uint32_t available_processors();

// Sleeps for some 50 microseconds, while a device works on its own.
void wait_a_moment();
// Lets other ready threads run, for a shorter time than wait_a_moment().
void yield_processor();

}  // namespace sluice
