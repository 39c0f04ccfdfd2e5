// Whether reading ahead pays: a few steps with it and a few without, then a while as those did that waited less for the
// disk, and again, since texts and disks change.
#pragma once

#include <cstdint>

namespace sluice {

class ReadAheadGauge {
 public:
  // Steps of a trial.
  explicit ReadAheadGauge(uint32_t trial) : trial_(trial), steps_left_(trial) {}
  bool on() const { return on_; }

  // A step is done that waited so long.
  void add(double waited_seconds) {
    waited_[on_ ? 1 : 0] += waited_seconds;
    if (--steps_left_ > 0) return;
    switch (phase_) {
      case Phase::with: return begin(Phase::without, false, trial_);
      case Phase::without: return begin(Phase::settled, waited_[1] < waited_[0], kSettledTrials * trial_);
      case Phase::settled: break;
    }
    waited_[0] = waited_[1] = 0;
    begin(Phase::with, true, trial_);
  }

 private:
  enum class Phase : uint8_t { with, without, settled };
  static constexpr uint32_t kSettledTrials = 8;

  void begin(Phase phase, bool on, uint32_t steps) {
    phase_ = phase;
    on_ = on;
    steps_left_ = steps;
  }

  uint32_t trial_;
  Phase phase_ = Phase::with;
  bool on_ = true;
  uint32_t steps_left_;
  double waited_[2] = {};  // without, with
};

}  // namespace sluice
