// A fixed pool of threads for loops that are divided among all threads.
//
// The caller is one of the threads, so a pool of one starts no thread. In a page every pool has the threads that the
// page gave the module (page_threads.h), one or more.
//
// Each thread has one contiguous share of a loop, which depends on the count alone, and takes it in a few pieces. A
// thread that is done takes pieces of the others. So a thread that the system has put aside, or not yet woken, holds up
// only the piece that it is at, and the caller alone can finish a loop. Chance decides which thread takes a piece:
// results must not depend on it.
//
// Between loops the threads spin for some microseconds, because the next loop of a decode step usually follows at once;
// then they sleep. Where other programs hold the processors, threads that are woken come too late; the caller then
// wakes them only now and then. Short loops may be faster without the other threads: that is tried (loop_trial.h).
//
// A pool belongs to the process. Loops of several callers run one after another. A body must not start a loop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

namespace sluice {

// A piece of a loop over [0, count): the indices [first, last), at least one.
struct Share {
  uint32_t thread = 0;  // that computes it; it computes one piece at a time
  size_t first = 0;
  size_t last = 0;
};

class ThreadPool {
 public:
  // What is called for each piece: a copy of a small body, or the address of a larger one.
  struct Loop {
    static constexpr size_t kBytes = 32;
    alignas(8) std::array<std::byte, kBytes> body{};
    void (*call)(const void* body, const Share& share) = nullptr;
  };

  // `threads` includes the caller and is at least 1. Throws std::system_error, as std::thread does, when the system
  // allows no more threads.
  explicit ThreadPool(uint32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t threads() const { return threads_; }

  // Calls body(Share) for pieces that make up [0, count), and returns when all are done. `grain` indices are just worth
  // waking the other threads for: with at most so many the caller takes the whole range. 0: a single one is worth more.
  template <class Body>
  void parallel(size_t count, size_t grain, const Body& body) {
    if (count == 0) return;
    if (threads_ == 1 || count <= grain) return body(Share{0, 0, count});
    run(count, grain, loop_of(body));
  }

 private:
  class Team;

  template <class Body>
  static Loop loop_of(const Body& body) {
    Loop loop;
    if constexpr (sizeof(Body) <= Loop::kBytes && std::is_trivially_copyable_v<Body>) {
      std::memcpy(loop.body.data(), &body, sizeof(Body));
      loop.call = [](const void* copy, const Share& share) { (*static_cast<const Body*>(copy))(share); };
    } else {
      struct Address {
        const Body* body;
      };
      const Address address{&body};
      std::memcpy(loop.body.data(), &address, sizeof(Address));
      loop.call = [](const void* at, const Share& share) { (*static_cast<const Address*>(at)->body)(share); };
    }
    return loop;
  }
  void run(size_t count, size_t grain, const Loop& loop);

  uint32_t threads_;
  std::unique_ptr<Team> team_;  // none in a pool of one
};

// The number of processors that this process may run on; in a page the number of its threads.
uint32_t available_processors();

// Whether a thread of the pools ended before its time, so that what it had taken never ends: a page's thread may trap.
// In a process such a thread ends all.
bool a_thread_died();

// Sleeps for some 50 microseconds, while a device works on its own.
void wait_a_moment();
// Lets other ready threads run, for a shorter time than wait_a_moment().
void yield_processor();

}  // namespace sluice
