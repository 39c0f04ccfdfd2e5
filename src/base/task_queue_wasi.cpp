// Tasks in a page, which has no threads: each runs when it is begun.
#include "base/check.h"
#include "base/task_queue.h"

namespace sluice {

class TaskQueue::Team {
 public:
  std::vector<uint64_t> ended;
};

TaskQueue::TaskQueue(uint32_t threads) : team_(std::make_unique<Team>()) { CHECK(threads >= 1); }

TaskQueue::~TaskQueue() = default;

void TaskQueue::begin(uint64_t id, std::function<void()> task) {
  ++under_way_;
  task();
  team_->ended.push_back(id);
}

void TaskQueue::take_ended(std::vector<uint64_t>& ended, bool) {
  ended.insert(ended.end(), team_->ended.begin(), team_->ended.end());
  team_->ended.clear();
  under_way_ = 0;
}

}  // namespace sluice
