// The read bandwidth of this machine's memory, with all threads of a pool.
#pragma once

#include <cstdint>
#include <memory>

#include "base/budget.h"
#include "base/result.h"
#include "base/threads.h"

namespace sluice {

// The last cache of one socket or cluster, as far as the system says; 0: it does not.
uint64_t last_cache_bytes();

class ReadBandwidth {
 public:
  // Allocates a buffer that is larger than the caches, but at most `most` bytes. `pool` must outlive the object.
  static Result<ReadBandwidth> open(ThreadPool& pool, Budget& budget, uint64_t most = UINT64_MAX);
  uint64_t bytes() const { return words_ * sizeof(uint64_t); }
  // Bytes a second of one reading of the buffer.
  double measure();

 private:
  ReadBandwidth(ThreadPool& pool, Reservation reservation, size_t words);

  ThreadPool* pool_;
  Reservation reservation_;
  size_t words_;
  std::unique_ptr<uint64_t[]> buffer_;
};

}  // namespace sluice
