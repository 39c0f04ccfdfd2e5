// What training reports while it runs: metrics.jsonl, a line a step, and its speed.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "train/trainer.h"

namespace sluice {

std::string format_time(double seconds);  // "3 min", rounded up

// A line of metrics.jsonl: what a step gave, or an evaluation.
struct MetricsPoint {
  uint64_t step = 0;
  std::optional<double> loss = {}, rate = {}, gradient_norm = {}, held_out_loss = {};
};

// Writes behind the file's end.
Status append_to_file(const std::string& path, const std::string& bytes);

class TrainingMetrics {
 public:
  // Lines of steps behind `steps_done` are left out of a file that is there already.
  static Result<std::unique_ptr<TrainingMetrics>> open(const std::string& folder, uint64_t steps_done);

  Status step(const StepReport& report);
  Status held_out(uint64_t step, double loss);
  Status sample(uint64_t step, const std::string& question, const std::string& answer);

  const std::vector<MetricsPoint>& points() const { return points_; }  // the lines with numbers
  double last_loss() const;                                            // of a step; 0 before one

  double tokens_per_second() const;
  std::string time_left(uint64_t steps) const;  // "3 min left"

 private:
  explicit TrainingMetrics(std::string path) : path_(std::move(path)), began_(std::chrono::steady_clock::now()) {}
  Status add(const Json& line);
  void remember(const Json& line);
  double seconds() const;

  const std::string path_;
  const std::chrono::steady_clock::time_point began_;
  uint64_t tokens_ = 0, steps_ = 0;
  std::vector<MetricsPoint> points_;
};

}  // namespace sluice
