// A page has no threads: pools have one, the caller's.
#include "base/check.h"
#include "base/threads.h"

namespace sluice {

class ThreadPool::Team {};

ThreadPool::ThreadPool(uint32_t threads) : threads_(1) { CHECK(threads >= 1); }

ThreadPool::~ThreadPool() = default;

void ThreadPool::run(size_t, size_t, Loop) { CHECK(false); }  // parallel() calls the body itself

uint32_t available_processors() { return 1; }

// A page waits by returning to its event loop; devices of the module's own thread are done when start() returns.
void wait_a_moment() {}
void yield_processor() {}

}  // namespace sluice
