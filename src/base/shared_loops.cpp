#include "base/shared_loops.h"

#include <algorithm>

#include "base/check.h"

namespace sluice {

// Part `i` of `n` contiguous parts of [0, count), whose sizes differ by at most one.
SharedLoops::Range SharedLoops::part(size_t count, size_t i, size_t n) {
  const size_t base = count / n, extra = count % n;
  const size_t first = i * base + std::min(i, extra);
  return {first, first + base + (i < extra ? 1 : 0)};
}

SharedLoops::Piece SharedLoops::Offer::take(uint32_t number) {
  uint64_t seen = word.load(std::memory_order_acquire);
  for (;;) {
    const auto taken = static_cast<uint32_t>(seen >> 16 & 0xffff), pieces = static_cast<uint32_t>(seen & 0xffff);
    if (seen >> 32 != number || taken == pieces) return {};
    if (word.compare_exchange_weak(seen, seen + (uint64_t{1} << 16), std::memory_order_acq_rel,
                                   std::memory_order_acquire))
      return {taken, pieces};
  }
}

void SharedLoops::run(size_t count, size_t grain, const ThreadPool::Loop& loop) {
  if (count == 1 || !company_.expected()) return loop.call(loop.body.data(), {0, 0, count});
  const size_t work = grain == 0 ? kShort : count / grain;
  if (work >= kShort) return share(count, grain, loop);

  const bool tried = trial_.runs();
  const auto now = [&] { return tried ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point(); };
  const auto begin = now();
  if (trial_.shares())
    share(count, grain, loop);
  else
    loop.call(loop.body.data(), {0, 0, count});
  trial_.note(static_cast<double>(work), now() - begin);
}

void SharedLoops::share(size_t count, size_t grain, const ThreadPool::Loop& loop) {
  const uint32_t all = offer(count, grain, loop);
  offered_.wake_all();
  const uint32_t own = take_part(0, number_);
  company_.note(own < all);
  expected_ += all - own;
  ended_.wait_until([&] { return others_are_done(); });
  CHECK(!failed_.load());
}

// Pieces are small enough to be shared out again, but not much smaller than what is worth waking a thread for. Returns
// their number.
uint32_t SharedLoops::offer(size_t count, size_t grain, const ThreadPool::Loop& loop) {
  const size_t share = std::max<size_t>(count / threads(), 1);
  const auto pieces =
      static_cast<uint32_t>(std::clamp<size_t>(share / std::max<size_t>(grain, 1), 1, std::min(kPieces, share)));
  ++number_;
  for (uint32_t i = 0; i < threads(); ++i) {
    offers_[i].share = part(count, i, threads());
    offers_[i].loop = loop;
    offers_[i].set(number_, i < count ? pieces : 0);
  }
  return static_cast<uint32_t>(std::min<size_t>(count, threads())) * pieces;
}

// Computes pieces until none is left to take, those of its own share first. Returns their number.
uint32_t SharedLoops::take_part(uint32_t thread, uint32_t number) {
  uint32_t done = 0;
  for (uint32_t i = 0; i < threads(); ++i) done += take_share(thread, (thread + i) % threads(), number);
  return done;
}

uint32_t SharedLoops::take_share(uint32_t thread, uint32_t owner, uint32_t number) {
  Offer& offer = offers_[owner];
  uint32_t done = 0;
  for (Piece piece = offer.take(number); piece.of != 0; piece = offer.take(number), ++done) {
    const Range range = part(offer.share.last - offer.share.first, piece.index, piece.of);
    offer.loop.call(offer.loop.body.data(), {thread, offer.share.first + range.first, offer.share.first + range.last});
  }
  if (done > 0 && thread != 0) {
    std::atomic<uint32_t>& all = done_[thread].pieces;
    all.store(all.load(std::memory_order_relaxed) + done, std::memory_order_release);
    ended_.wake_all();
  }
  return done;
}

bool SharedLoops::others_are_done() const {
  uint32_t done = 0;
  for (uint32_t i = 1; i < threads(); ++i) done += done_[i].pieces.load(std::memory_order_acquire);
  return done == expected_ || failed_.load(std::memory_order_relaxed);
}

void SharedLoops::work(uint32_t thread) {
  for (uint32_t seen = 0;;) {
    offered_.wait_until([&] { return offers_[thread].number() != seen; });
    if (stopping_.load(std::memory_order_relaxed)) return;
    seen = offers_[thread].number();
    take_part(thread, seen);
  }
}

void SharedLoops::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  ++number_;
  for (Offer& offer : offers_) offer.set(number_, 0);
  offered_.wake_all();
}

void SharedLoops::fail() {
  failed_.store(true);
  ended_.wake_all();
}

}  // namespace sluice
