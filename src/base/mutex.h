// A mutex, and a lock that holds it for a scope. The page's module has no std::mutex; one thread takes locks there.
#pragma once

#if !defined(__wasi__)
#include <mutex>
#endif

namespace sluice {

#if defined(__wasi__)
class Mutex {
 public:
  void lock() {}
  void unlock() {}
};
#else
using Mutex = std::mutex;
#endif

class MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace sluice
