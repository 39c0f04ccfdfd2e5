// Loops that wake other threads only when the work is worth it.
#pragma once

#include <cstdint>

#include "base/threads.h"

namespace sluice::cpu {

// Calls body(Share) for pieces of [0, count); `cost` of one index in element operations.
template <class Body>
void share_out(ThreadPool& pool, uint64_t count, uint64_t cost, const Body& body) {
  constexpr uint64_t kWorthWaking = 16384;  // some microseconds
  pool.parallel(count, kWorthWaking / (cost + 1), body);
}

}  // namespace sluice::cpu
