// The losses of many sequences, computed in parts that fit a training step, one after another. Nothing here waits.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "train/training_step.h"

namespace sluice {

using TrainPart = std::vector<BatchPart>;

class PartRun {
 public:
  // The sequences in their order, each part as large as `size` allows; at least one part.
  static std::vector<TrainPart> parts_of(const TrainPart& sequences, const StepSize& size);

  // `step` outlives the run, and so do the sequences. No other run is under way.
  void begin(TrainingStep& step, std::vector<TrainPart> parts);
  bool running() const { return running_; }
  // The loss of each sequence, the sum of its targets; none while there is more to compute, and of a run that was
  // stopped. Goes on by one part at most. An error ends the run.
  Result<std::optional<std::vector<double>>> poll();
  // Ends the run once the part at hand, which is still polled for, is computed.
  void stop() { stops_ = true; }

 private:
  TrainingStep* step_ = nullptr;
  std::vector<TrainPart> parts_;
  size_t next_ = 0;  // part
  std::vector<double> sums_;
  bool running_ = false, stops_ = false;
};

}  // namespace sluice
