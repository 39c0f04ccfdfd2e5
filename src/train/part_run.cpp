#include "train/part_run.h"

#include <utility>

namespace sluice {

std::vector<TrainPart> PartRun::parts_of(const TrainPart& sequences, const StepSize& size) {
  std::vector<TrainPart> parts(1);
  uint64_t rows = 0;
  for (const BatchPart& one : sequences) {
    const uint64_t more = one.sequence->tokens.size();
    if (!parts.back().empty() && (rows + more > size.rows || parts.back().size() == size.sequences)) {
      parts.emplace_back();
      rows = 0;
    }
    parts.back().push_back(one);
    rows += more;
  }
  return parts;
}

void PartRun::begin(TrainingStep& step, std::vector<TrainPart> parts) {
  step_ = &step;
  parts_ = std::move(parts);
  sums_.clear();
  running_ = true;
  stops_ = false;
  next_ = 1;
  step_->start(parts_.front());
}

Result<std::optional<std::vector<double>>> PartRun::poll() {
  Result<std::optional<BatchLoss>> loss = step_->poll();
  if (loss && !*loss) return std::optional<std::vector<double>>();
  running_ = loss && !stops_ && next_ < parts_.size();
  if (!loss) return loss.error();
  sums_.insert(sums_.end(), (*loss)->sums.begin(), (*loss)->sums.end());
  if (running_)
    step_->start(parts_[next_++]);
  else if (!stops_)
    return std::optional(std::move(sums_));
  return std::optional<std::vector<double>>();
}

}  // namespace sluice
