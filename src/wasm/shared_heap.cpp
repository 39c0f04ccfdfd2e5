// The heap of the module with threads. Debian's C library for wasm32 was built for one thread, so its allocator is
// called by one thread at a time: the linker sends every call of malloc() here (--wrap).
#include <atomic>
#include <cstddef>

namespace {

std::atomic<bool> taken{false};

// Held for the few hundred instructions of a call. Pieces of loops seldom allocate, so nobody sleeps for it.
class HeapLock {
 public:
  HeapLock() {
    while (taken.exchange(true, std::memory_order_acquire)) continue;
  }
  ~HeapLock() { taken.store(false, std::memory_order_release); }
  HeapLock(const HeapLock&) = delete;
  HeapLock& operator=(const HeapLock&) = delete;
};

}  // namespace

extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
void* __real_malloc(size_t bytes);
void __real_free(void* at);
void* __real_calloc(size_t count, size_t bytes);
void* __real_realloc(void* at, size_t bytes);
void* __real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void** at, size_t alignment, size_t bytes);

void* __wrap_malloc(size_t bytes) {
  const HeapLock lock;
  return __real_malloc(bytes);
}
void __wrap_free(void* at) {
  const HeapLock lock;
  __real_free(at);
}
void* __wrap_calloc(size_t count, size_t bytes) {
  const HeapLock lock;
  return __real_calloc(count, bytes);
}
void* __wrap_realloc(void* at, size_t bytes) {
  const HeapLock lock;
  return __real_realloc(at, bytes);
}
void* __wrap_aligned_alloc(size_t alignment, size_t bytes) {
  const HeapLock lock;
  return __real_aligned_alloc(alignment, bytes);
}
int __wrap_posix_memalign(void** at, size_t alignment, size_t bytes) {
  const HeapLock lock;
  return __real_posix_memalign(at, alignment, bytes);
}
// NOLINTEND(bugprone-reserved-identifier)
}
