#include "tests/faults/faults.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace sluice::faults {
namespace {

std::atomic<Kind> planned{Kind::none};
std::atomic<uint64_t> countdown{0};
std::atomic<uint64_t> calls{0};
std::atomic<bool> struck{false};

// Whether this call, one that `kind` may strike, is to fail.
bool strikes(Kind kind) {
  if (planned.load(std::memory_order_relaxed) != kind) return false;
  calls.fetch_add(1);
  if (countdown.fetch_sub(1) != 0) return false;
  struck = true;
  return true;
}

bool fails(int error_number) {
  if (!strikes(Kind::read_error)) return false;
  errno = error_number;
  return true;
}

// The function of that name which this program's own hides.
template <class Function>
Function* hidden(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (bytes >= kLarge && strikes(Kind::allocation)) throw std::bad_alloc();
  const std::size_t whole = (bytes / alignment + 1) * alignment;
  void* const memory =
      alignment <= alignof(std::max_align_t) ? std::malloc(whole) : std::aligned_alloc(alignment, whole);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

Outcome strike(Kind kind, uint64_t nth, const std::function<void()>& work) {
  countdown = nth;
  calls = 0;
  struck = false;
  planned = kind;
  struct Calm {
    ~Calm() { planned = Kind::none; }
  } calm;
  work();
  return {calls, struck};
}

}  // namespace sluice::faults

using sluice::faults::fails;
using sluice::faults::hidden;
using sluice::faults::Kind;
using sluice::faults::strikes;

// ---- memory

void* operator new(std::size_t bytes) { return sluice::faults::allocate(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return sluice::faults::allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return sluice::faults::allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return sluice::faults::allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

// ---- files, in the signatures of the system's headers

extern "C" {

int open(const char* path, int flags, ...) {
  static auto* const real = hidden<int(const char*, int, ...)>("open");
  std::va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return fails(EMFILE) ? -1 : real(path, flags, mode);
}

int fstat(int descriptor, struct stat* facts) noexcept {
  static auto* const real = hidden<int(int, struct stat*)>("fstat");
  return fails(EIO) ? -1 : real(descriptor, facts);
}

int stat(const char* path, struct stat* facts) noexcept {
  static auto* const real = hidden<int(const char*, struct stat*)>("stat");
  return fails(EACCES) ? -1 : real(path, facts);
}

void* mmap(void* at, size_t bytes, int protection, int flags, int descriptor, off_t offset) noexcept {
  static auto* const real = hidden<void*(void*, size_t, int, int, int, off_t)>("mmap");
  return descriptor >= 0 && fails(ENOMEM) ? MAP_FAILED : real(at, bytes, protection, flags, descriptor, offset);
}

ssize_t pread(int descriptor, void* into, size_t bytes, off_t offset) {
  static auto* const real = hidden<ssize_t(int, void*, size_t, off_t)>("pread");
  if (fails(EIO)) return -1;
  if (strikes(Kind::read_nothing)) return 0;
  return real(descriptor, into, bytes > 1 && strikes(Kind::read_less) ? bytes / 2 : bytes, offset);
}

DIR* opendir(const char* path) {
  static auto* const real = hidden<DIR*(const char*)>("opendir");
  return fails(EACCES) ? nullptr : real(path);
}

struct dirent* readdir(DIR* folder) {
  static auto* const real = hidden<struct dirent*(DIR*)>("readdir");
  return fails(EIO) ? nullptr : real(folder);
}
}
