#include "base/task_queue.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/signals_blocked.h"

namespace sluice {

class TaskQueue::Team {
 public:
  explicit Team(uint32_t threads) {
    const SignalsBlocked blocked;
    threads_.reserve(threads);
    for (uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Team() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    has_work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  void begin(uint64_t id, std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.emplace_back(id, std::move(task));
    }
    has_work_.notify_one();
  }
  void take_ended(std::vector<uint64_t>& ended, bool wait) {
    std::unique_lock lock(mutex_);
    if (wait) has_end_.wait(lock, [&] { return !ended_.empty(); });
    ended.insert(ended.end(), ended_.begin(), ended_.end());
    ended_.clear();
  }

 private:
  void work() {
    for (std::unique_lock lock(mutex_);;) {
      has_work_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const auto [id, task] = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      task();
      lock.lock();
      ended_.push_back(id);
      has_end_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable has_work_, has_end_;
  std::deque<std::pair<uint64_t, std::function<void()>>> waiting_;
  std::vector<uint64_t> ended_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

TaskQueue::TaskQueue(uint32_t threads) {
  CHECK(threads >= 1);
  team_ = std::make_unique<Team>(threads);
}

TaskQueue::~TaskQueue() = default;

void TaskQueue::begin(uint64_t id, std::function<void()> task) {
  ++under_way_;
  team_->begin(id, std::move(task));
}

void TaskQueue::take_ended(std::vector<uint64_t>& ended, bool wait) {
  const size_t before = ended.size();
  team_->take_ended(ended, wait && under_way_ > 0);
  under_way_ -= ended.size() - before;
}

}  // namespace sluice
