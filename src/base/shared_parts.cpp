#include "base/shared_parts.h"

#include <atomic>

#include "base/check.h"
#include "base/threads.h"
#include "base/wait_word.h"

namespace sluice {

struct SharedParts::State {
  size_t count = 0;
  std::atomic<size_t> taken{0}, ended{0};
  WaitWord all_ended;
};

SharedParts::SharedParts() : state_(std::make_unique<State>()) {}

SharedParts::~SharedParts() = default;

void SharedParts::offer(size_t count) {
  state_->count = count;
  state_->taken.store(0, std::memory_order_relaxed);
  state_->ended.store(0, std::memory_order_relaxed);
}

bool SharedParts::next(size_t& part) {
  // Looks first: without that each piece of a loop would change the line that all threads read.
  if (state_->taken.load(std::memory_order_relaxed) >= state_->count) return false;
  part = state_->taken.fetch_add(1, std::memory_order_relaxed);
  return part < state_->count;
}

void SharedParts::end() {
  if (state_->ended.fetch_add(1, std::memory_order_release) + 1 == state_->count) state_->all_ended.wake_all();
}

void SharedParts::wait() {
  const auto ended = [this] { return state_->ended.load(std::memory_order_acquire) == state_->count; };
  state_->all_ended.wait_until([&] { return ended() || a_thread_died(); });
  CHECK(ended());
}

}  // namespace sluice
