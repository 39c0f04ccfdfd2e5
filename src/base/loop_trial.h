// Whether short loops are faster with the other threads of a pool.
//
// What sharing costs is not known beforehand: it depends on the distance of the processors' caches, on a core that two
// of them share, on other programs. So it is tried: loops are run in turns by all threads and by the caller alone, and
// the way that took less time for its work is kept for a while. Both ways give the same results.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace sluice {

class LoopTrial {
 public:
  static constexpr uint32_t kTurn = 60, kTrial = 6 * kTurn, kKept = 25'000;  // loops
  static constexpr uint32_t kSettling = 10;  // loops of a turn that do not count: threads wake, or fall asleep
  // What one loop counts at most, so that one thread that is put aside does not outweigh all else.
  static constexpr std::chrono::microseconds kMost{100};

  bool runs() const { return loops_ < kTrial; }
  bool shares() const { return runs() ? way() == kShared : pays_; }

  // After every short loop: its work in any unit, and its time, which counts while a trial runs.
  void note(double work, std::chrono::nanoseconds time) {
    if (runs() && loops_ % kTurn >= kSettling) {
      time_[way()] += std::chrono::duration<double>(std::min<std::chrono::nanoseconds>(time, kMost)).count();
      work_[way()] += work;
    }
    if (++loops_ == kTrial) {
      pays_ = time_[kShared] * work_[kAlone] < time_[kAlone] * work_[kShared];
      time_ = work_ = {};
    }
    if (loops_ == kTrial + kKept) loops_ = 0;
  }

 private:
  enum Way : size_t { kShared, kAlone };

  Way way() const { return loops_ / kTurn % 2 == 0 ? kShared : kAlone; }

  uint32_t loops_ = 0;  // since the trial began
  bool pays_ = true;
  std::array<double, 2> time_{}, work_{};  // seconds and work of the trial, by way
};

}  // namespace sluice
