// Tasks that threads of its own do beside the caller, several at once and in any order. A queue belongs to one thread.
// In a page (task_queue_wasi.cpp) a task is done when it begins.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace sluice {

class TaskQueue {
 public:
  explicit TaskQueue(uint32_t threads);  // at least 1
  ~TaskQueue();                          // when all that was begun is done
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // `id`: the caller's. What the task uses is its own until it has ended.
  void begin(uint64_t id, std::function<void()> task);
  bool busy() const { return under_way_ > 0; }  // some have not been taken yet
  // Appends the ids of what has ended; where `wait` is set and tasks are under way, waits for the first.
  void take_ended(std::vector<uint64_t>& ended, bool wait);

 private:
  class Team;

  uint64_t under_way_ = 0;
  std::unique_ptr<Team> team_;
};

}  // namespace sluice
