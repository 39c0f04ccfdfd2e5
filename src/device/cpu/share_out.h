// Loops that wake other threads only when the work is worth it.
#pragma once

#include <algorithm>

#include "base/threads.h"

namespace sluice::cpu {

// Calls body(Share) for pieces of [0, count); `cost` of one index in element operations.
template <class Body>
void share_out(ThreadPool& pool, uint64_t count, uint64_t cost, const Body& body) {
  constexpr uint64_t kWorthWaking = 16384;  // some microseconds
  pool.parallel(count, std::max<uint64_t>(1, kWorthWaking / (cost + 1)), body);
}

}  // namespace sluice::cpu
