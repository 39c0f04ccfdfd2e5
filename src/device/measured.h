// The optional part of a device that measures its speed, for `sluice plan`, `sluice bench` and --stats. No answer needs
// it. A device that cannot measure something keeps the default.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "device/device.h"

namespace sluice {

// Nanoseconds that only go forward. Devices have no clock of their own: only src/app may ask the system for one.
using NanosecondClock = uint64_t (*)();

// The most multiplications and additions a second; a fused one counts as two. 0: unknown.
struct Peaks {
  double f32 = 0;
  double integers = 0;  // of 8 bits
};

// The time of ops [first_op, end_op), which were computed together.
struct OpTime {
  uint32_t first_op = 0, end_op = 0;
  uint64_t nanoseconds = 0;
};

// Counts of a device that plays a program as dispatches of kernels.
struct DispatchCounts {
  uint32_t token = 0;      // dispatches of a decode step
  uint32_t in_layers = 0;  // of them, those in layers
  uint32_t layers = 0;
  uint32_t pipelines = 0;  // that the device has compiled so far, for all plans
};

class MeasuredRunner {
 public:
  virtual ~MeasuredRunner() = default;
  virtual std::optional<DispatchCounts> dispatch_counts() const { return std::nullopt; }  // none: it has no dispatches
  // Times every op of the steps that start from now on, by this clock or by the device's own; null: times none.
  virtual void time_ops(NanosecondClock /*clock*/) {}
  // The times of a step that was timed and has ended, in the order of the program. Call it once a step.
  virtual std::vector<OpTime> take_op_times(Ticket /*step*/) { return {}; }
};

// A base of runners that time their ops by the given clock.
class OpTimer : public MeasuredRunner {
 public:
  void time_ops(NanosecondClock clock) override { clock_ = clock; }
  std::vector<OpTime> take_op_times(Ticket step) override {
    const auto found = times_.find(step);
    if (found == times_.end()) return {};
    std::vector<OpTime> times = std::move(found->second);
    times_.erase(found);
    return times;
  }

 protected:
  NanosecondClock op_clock() const { return clock_; }
  void keep(Ticket step, std::vector<OpTime> times) { times_[step] = std::move(times); }

 private:
  NanosecondClock clock_ = nullptr;
  std::map<Ticket, std::vector<OpTime>> times_;
};

class MeasuredDevice {
 public:
  virtual ~MeasuredDevice() = default;
  // Takes some hundredths of a second.
  virtual Peaks measure_peaks(NanosecondClock /*clock*/) const { return {}; }
  // Bytes a second, read and written, of a kernel that copies within the device's own memory. 0: the device computes in
  // the host's memory, or cannot measure it. Takes some hundredths of a second.
  virtual double measure_copying(NanosecondClock /*clock*/) { return 0; }
  // A runner of `plan` that times decode steps without weights. Its results mean nothing: all matrices share a part of
  // the plan's memory, and slots are filled without pieces, in no time. `weights` gives shapes and formats. Null: the
  // device computes in the host's memory, where bytes predict the time of a step.
  virtual Result<std::unique_ptr<Runner>> place_without_weights(std::unique_ptr<Plan> /*plan*/,
                                                                const WeightSource& /*weights*/, Budget& /*budget*/) {
    return std::unique_ptr<Runner>();
  }
};

}  // namespace sluice
