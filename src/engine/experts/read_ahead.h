// Chooses which experts to prefetch. The ways take turns, step by step, for a while. Then the way with the fastest
// steps stays for a longer while. The trial is repeated, because texts and disks change. The last way is tried first:
// it is most likely the best, and users wait for first prompts.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

namespace sluice {

enum class ReadAhead : uint8_t {
  nothing,
  last_use,  // the experts that the next layer used last
  router,    // those that the next router chooses on this layer's hidden state
};
inline constexpr uint32_t kReadAheads = 3;

class ReadAheadGauge {
 public:
  // Steps of a trial of each way.
  explicit ReadAheadGauge(uint32_t trial) : trial_(trial), steps_left_(trial * kReadAheads) {}
  // The way for this step.
  ReadAhead way() const { return trying_ ? static_cast<ReadAhead>((steps_left_ - 1) % kReadAheads) : best_; }

  // A step is done. It took so long for each expert that it used.
  void add(double seconds) {
    if (trying_) seconds_[static_cast<size_t>(way())] += seconds;
    if (--steps_left_ > 0) return;
    if (trying_) best_ = static_cast<ReadAhead>(std::distance(seconds_.begin(), std::ranges::min_element(seconds_)));
    seconds_ = {};
    trying_ = !trying_;
    steps_left_ = trial_ * (trying_ ? kReadAheads : kSettledTrials);
  }

 private:
  static constexpr uint32_t kSettledTrials = 16;

  uint32_t trial_;
  bool trying_ = true;
  uint32_t steps_left_;
  ReadAhead best_{};
  std::array<double, kReadAheads> seconds_{};
};

}  // namespace sluice
