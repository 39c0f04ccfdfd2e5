#include "base/shared_loops.h"

#include <algorithm>

#include "base/check.h"

namespace sluice {
namespace {

struct Range {
  size_t first = 0, last = 0;
};

// Part `i` of `n` contiguous parts of [0, count), whose sizes differ by at most one.
Range part(size_t count, size_t i, size_t n) {
  const size_t base = count / n, extra = count % n;
  const size_t first = i * base + std::min(i, extra);
  return {first, first + base + (i < extra ? 1 : 0)};
}

}  // namespace

int SharedLoops::Ticket::take(uint32_t loop) {
  uint64_t seen = word.load(std::memory_order_acquire);
  for (;;) {
    const auto taken = static_cast<uint32_t>(seen >> 16 & 0xffff), pieces = static_cast<uint32_t>(seen & 0xffff);
    if (seen >> 32 != loop || taken == pieces) return -1;
    if (word.compare_exchange_weak(seen, seen + (uint64_t{1} << 16), std::memory_order_acq_rel,
                                   std::memory_order_acquire))
      return static_cast<int>(taken);
  }
}

void SharedLoops::run(size_t count, size_t grain, ThreadPool::Loop loop) {
  if (count == 1 || !company_.expected()) return loop.call(loop.body, {0, 0, count});
  const size_t work = grain == 0 ? kShort : count / grain;
  if (work >= kShort) return share(count, grain, loop);

  const bool tried = trial_.runs();
  const auto now = [&] { return tried ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point(); };
  const auto begin = now();
  if (trial_.shares())
    share(count, grain, loop);
  else
    loop.call(loop.body, {0, 0, count});
  trial_.note(static_cast<double>(work), now() - begin);
}

void SharedLoops::share(size_t count, size_t grain, ThreadPool::Loop loop) {
  offer(count, grain, loop);
  const uint32_t all = left_.value();
  const uint32_t number = started_.add(1);
  started_.wake_all();
  company_.note(take_part(0, number) < all);
  for (uint32_t left = left_.value(); left != 0;) left = left_.wait_until_not(left);
  CHECK(!failed_.load());
}

// Pieces are small enough to be shared out again, but not much smaller than what is worth waking a thread for.
void SharedLoops::offer(size_t count, size_t grain, ThreadPool::Loop loop) {
  const size_t share = std::max<size_t>(count / tickets_.size(), 1);
  loop_ = loop;
  count_ = count;
  pieces_ = std::clamp<size_t>(share / std::max<size_t>(grain, 1), 1, std::min(kPieces, share));
  const uint32_t number = started_.value() + 1;
  left_.set(static_cast<uint32_t>(std::min(count, tickets_.size()) * pieces_));
  for (size_t i = 0; i < tickets_.size(); ++i)
    tickets_[i].offer(number, i < count ? static_cast<uint32_t>(pieces_) : 0);
}

// Computes pieces until none is left to take, those of its own share first. Returns their number.
uint32_t SharedLoops::take_part(uint32_t thread, uint32_t loop) {
  uint32_t done = 0;
  for (uint32_t i = 0; i < threads(); ++i) done += take_share(thread, (thread + i) % threads(), loop);
  return done;
}

uint32_t SharedLoops::take_share(uint32_t thread, uint32_t owner, uint32_t loop) {
  uint32_t done = 0;
  for (int piece = tickets_[owner].take(loop); piece >= 0; piece = tickets_[owner].take(loop), ++done) {
    const Range share = part(count_, owner, tickets_.size());
    const Range range = part(share.last - share.first, static_cast<size_t>(piece), pieces_);
    loop_.call(loop_.body, {thread, share.first + range.first, share.first + range.last});
  }
  if (done > 0 && left_.subtract(done) == 0) left_.wake_all();
  return done;
}

void SharedLoops::work(uint32_t thread) {
  for (uint32_t seen = 0;;) {
    seen = started_.wait_until_not(seen);
    if (stopping_.load(std::memory_order_relaxed)) return;
    take_part(thread, seen);
  }
}

void SharedLoops::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  started_.add(1);
  started_.wake_all();
}

void SharedLoops::fail() {
  failed_.store(true);
  left_.set(0);
  left_.wake_all();
}

}  // namespace sluice
