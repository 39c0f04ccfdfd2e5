// The read bandwidth of this machine's memory, with all threads of a pool.
#pragma once

#include <cstdint>

#include "base/budget.h"
#include "base/large_buffer.h"
#include "base/result.h"
#include "base/threads.h"

namespace sluice {

// The last cache of one socket or cluster, as far as the system says; 0: it does not.
uint64_t last_cache_bytes();

class ReadBandwidth {
 public:
  // Allocates a buffer that is larger than the caches, but at most `most` bytes, in large pages if the system has them,
  // as packed weights are. `pool` must outlive the object.
  static Result<ReadBandwidth> open(ThreadPool& pool, Budget& budget, uint64_t most = UINT64_MAX);
  uint64_t bytes() const { return words_ * sizeof(uint64_t); }
  // Bytes a second of the faster of two readings of the buffer: by the processor's own prefetching, and with prefetch
  // instructions. Intel's processors are faster with them, AMD's without.
  double measure();

 private:
  template <size_t kFetched>
  double measure();
  ReadBandwidth(ThreadPool& pool, Reservation reservation, LargeBuffer buffer, size_t words);
  uint64_t* words() const { return reinterpret_cast<uint64_t*>(buffer_.data()); }

  ThreadPool* pool_;
  Reservation reservation_;
  LargeBuffer buffer_;
  size_t words_;
};

}  // namespace sluice
