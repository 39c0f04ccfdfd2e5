#include "app/plan/read_bandwidth.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

namespace sluice {
namespace {

constexpr uint64_t kLeastBytes = 256 << 20;
constexpr uint64_t kMostBytes = uint64_t{2} << 30;
constexpr uint64_t kCaches = 4;  // so many times the last cache
constexpr size_t kAhead = 1024;  // bytes that are prefetched ahead

// With kFetched, each cache line is prefetched by an instruction before it is read.
template <size_t kFetched>
uint64_t sum(const uint64_t* words, size_t count) {
  constexpr size_t kLine = 64 / sizeof(uint64_t);
  uint64_t total = 0;
  size_t i = 0;
  for (; i + 4 * kLine <= count; i += 4 * kLine) {
    if constexpr (kFetched > 0)
      for (size_t line = 0; line < 4; ++line)
        __builtin_prefetch(words + i + line * kLine + kFetched / sizeof(uint64_t));
    total = std::accumulate(words + i, words + i + 4 * kLine, total);
  }
  return std::accumulate(words + i, words + count, total);
}

}  // namespace

uint64_t last_cache_bytes() {
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<uint64_t>(bytes) : 0;
}

ReadBandwidth::ReadBandwidth(ThreadPool& pool, Reservation reservation, LargeBuffer buffer, size_t words)
    : pool_(&pool), reservation_(std::move(reservation)), buffer_(std::move(buffer)), words_(words) {
  buffer_.prefer_huge_pages();
  pool.parallel(words, 0, [this](const Share& share) {
    std::iota(this->words() + share.first, this->words() + share.last, uint64_t{share.first});
  });
}

Result<ReadBandwidth> ReadBandwidth::open(ThreadPool& pool, Budget& budget, uint64_t most) {
  const uint64_t wanted = std::clamp(kCaches * last_cache_bytes(), kLeastBytes, kMostBytes);
  const uint64_t bytes = std::min(wanted, most / sizeof(uint64_t) * sizeof(uint64_t));
  TRY(Reservation reservation, budget.reserve(Domain::host, Purpose::staging, bytes));
  TRY(LargeBuffer buffer, LargeBuffer::take(bytes, "the memory's bandwidth"));
  return ReadBandwidth(pool, std::move(reservation), std::move(buffer), static_cast<size_t>(bytes / sizeof(uint64_t)));
}

double ReadBandwidth::measure() { return std::max(measure<0>(), measure<kAhead>()); }

template <size_t kFetched>
double ReadBandwidth::measure() {
  std::vector<uint64_t> sums(pool_->threads());
  const auto before = std::chrono::steady_clock::now();
  pool_->parallel(words_, 0, [&](const Share& share) {
    sums[share.thread] += sum<kFetched>(words() + share.first, share.last - share.first);
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
  const uint64_t all = std::accumulate(sums.begin(), sums.end(), uint64_t{0});
  CHECK(all == uint64_t{words_} * (words_ - 1) / 2);  // nobody may leave the reading out
  return static_cast<double>(words_ * sizeof(uint64_t)) / seconds;
}

}  // namespace sluice
