// A library with the names of Dawn's C interface that says which release it is, and has no instance.
#include <cstddef>
#include <cstdint>

// NOLINTBEGIN(bugprone-macro-parentheses): names of functions
#define NOTHING(name) \
  extern "C" void* name() { return nullptr; }
// NOLINTEND(bugprone-macro-parentheses)
#include "stub_names.h"

constexpr uint32_t kSuccess = 1;

#ifdef FIRST_RELEASE
struct Capabilities {
  void* next;
  uint32_t timed_wait_enable;
  size_t timed_wait_most;
};
extern "C" uint32_t wgpuGetInstanceCapabilities(Capabilities* to) {
  to->timed_wait_most = MOST_FUTURES;
  return kSuccess;
}
#else
struct Limits {
  void* next;
  size_t timed_wait_most;
};
extern "C" uint32_t wgpuGetInstanceLimits(Limits* to) {
  to->timed_wait_most = MOST_FUTURES;
  return kSuccess;
}
#endif
