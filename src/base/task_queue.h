// Runs tasks on threads of its own, several at once and in any order, while the caller continues. A queue belongs to
// one thread. In a page (task_queue_wasi.cpp) begin() runs the task.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace sluice {

class TaskQueue {
 public:
  explicit TaskQueue(uint32_t threads);  // at least 1
  ~TaskQueue();                          // waits for all tasks
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // The caller chooses `id`. The caller must not use the task's data until the task has ended.
  void begin(uint64_t id, std::function<void()> task);
  bool busy() const { return under_way_ > 0; }  // some tasks have not been taken yet
  // Appends the ids of tasks that have ended. With `wait` and tasks under way, waits for the first one.
  void take_ended(std::vector<uint64_t>& ended, bool wait);

 private:
  class Team;

  uint64_t under_way_ = 0;
  std::unique_ptr<Team> team_;
};

}  // namespace sluice
