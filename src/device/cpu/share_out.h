// Loops that wake other threads only when the work is worth it.
#pragma once

#include <cstdint>

#include "base/threads.h"

namespace sluice::cpu {

// Element operations that are worth waking threads for: some microseconds.
inline constexpr uint64_t kWorthWaking = 16384;

// Calls body(Share) for pieces of [0, count); `cost` of one index in element operations.
template <class Body>
void share_out(ThreadPool& pool, uint64_t count, uint64_t cost, const Body& body) {
  pool.parallel(count, kWorthWaking / (cost + 1), body);
}

}  // namespace sluice::cpu
