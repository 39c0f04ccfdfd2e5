// What a device may say of its speed, beside playing steps: for `sluice plan`, `sluice bench` and --stats. No answer
// needs it; a device that says nothing of one part keeps the default.
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

// Multiplications and additions a second that a device does at most, a fused one being two; 0: not known.
struct Peaks {
  double f32 = 0;
  double integers = 0;  // of 8 bits
};

// How long an op took, or several that are computed as one: those from first_op to before end_op.
struct OpTime {
  uint32_t first_op = 0, end_op = 0;
  uint64_t nanoseconds = 0;
};

// Of a device that plays a program as dispatches of kernels.
struct DispatchCounts {
  uint32_t token = 0;      // of a decode step
  uint32_t in_layers = 0;  // those of them that belong to a layer
  uint32_t layers = 0;
  uint32_t pipelines = 0;  // compiled so far, for all that the device has placed
};

class MeasuredRunner {
 public:
  virtual ~MeasuredRunner() = default;
  virtual std::optional<DispatchCounts> dispatch_counts() const { return std::nullopt; }  // none: it has no dispatches
  // Times every op of the steps that start from now on, by this clock or by the device's own; null: times none.
  virtual void time_ops(NanosecondClock /*clock*/) {}
  // Of a step that was timed and has ended, in the order of the program. Once.
  virtual std::vector<OpTime> take_op_times(Ticket /*step*/) { return {}; }
};

// For runners that time their ops by the given clock.
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
  // Bytes a second, read and written, that a kernel copies in the device's own memory; 0: it computes in the host's, or
  // cannot say. Takes some hundredths of a second.
  virtual double measure_copying(NanosecondClock /*clock*/) { return 0; }
  // A runner of `plan` for decode steps, to learn how long they take before there are weights. Its results mean
  // nothing: all matrices share a part of the plan's memory, and slots are filled with no pieces, which takes no time.
  // `weights` gives shapes and formats. Null: the device computes in the host's memory, where bytes say how long a step
  // takes.
  virtual Result<std::unique_ptr<Runner>> place_without_weights(std::unique_ptr<Plan> /*plan*/,
                                                                const WeightSource& /*weights*/, Budget& /*budget*/) {
    return std::unique_ptr<Runner>();
  }
};

}  // namespace sluice
