// Pools of a page's module: all have the threads that its host made (page_threads.h), and one caller.
#include "base/check.h"
#include "base/page_threads.h"
#include "base/shared_loops.h"
#include "base/threads.h"

namespace sluice {
namespace {

SharedLoops* page_loops = nullptr;  // of the module, once there are other threads than the engine's

}  // namespace

class ThreadPool::Team {};

ThreadPool::ThreadPool(uint32_t threads) : threads_(available_processors()) { CHECK(threads >= 1); }

ThreadPool::~ThreadPool() = default;

void ThreadPool::run(size_t count, size_t grain, const Loop& loop) { page_loops->run(count, grain, loop); }

uint32_t available_processors() { return page_loops == nullptr ? 1 : page_loops->threads(); }

void expect_page_threads(uint32_t threads) {
  CHECK(threads >= 1 && page_loops == nullptr);
  if (threads > 1) page_loops = std::make_unique<SharedLoops>(threads).release();  // for the module's life
}

void work_as_page_thread(uint32_t thread) {
  CHECK(thread >= 1 && thread < available_processors());
  page_loops->work(thread);
}

void fail_page_threads() { page_loops->fail(); }

bool a_thread_died() { return page_loops != nullptr && page_loops->failed(); }

// A page waits by returning to its event loop; devices of the module's own thread are done when start() returns.
void wait_a_moment() {}
void yield_processor() {}

}  // namespace sluice
