#include "app/plan/simulated_disk.h"

#include <algorithm>
#include <thread>

namespace sluice {

void SimulatedDisk::begin(const FileRead& read) {
  if (zeros_.insert(read.into.data()).second) std::ranges::fill(read.into, std::byte{0});
  const std::chrono::duration<double> takes(static_cast<double>(read.into.size()) / bytes_per_second_);
  const Clock::time_point now = Clock::now();
  const Clock::time_point begins = under_way_.empty() ? now : std::max(now, under_way_.back().due);
  under_way_.push_back({.end = {.id = read.id, .bytes = static_cast<int64_t>(read.into.size())},
                        .due = begins + std::chrono::duration_cast<Clock::duration>(takes)});
}

void SimulatedDisk::take_ended(std::vector<ReadEnd>& ended, bool wait) {
  if (wait && !under_way_.empty()) std::this_thread::sleep_until(under_way_.front().due);
  for (; !under_way_.empty() && under_way_.front().due <= Clock::now(); under_way_.pop_front())
    ended.push_back(under_way_.front().end);
}

}  // namespace sluice
