#include "app/train/metrics.h"

#include <cmath>
#include <fstream>

#include "base/files/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/text.h"

namespace sluice {

std::string format_time(double seconds) {
  if (seconds < 90) return cat(static_cast<int64_t>(std::ceil(seconds)), " s");
  if (seconds < 5400) return cat(static_cast<int64_t>(std::ceil(seconds / 60)), " min");
  return cat(static_cast<int64_t>(std::ceil(seconds / 3600)), " h");
}

Result<std::unique_ptr<TrainingMetrics>> TrainingMetrics::open(const std::string& folder, uint64_t steps_done) {
  TRY_STATUS(make_folders(folder));
  std::unique_ptr<TrainingMetrics> metrics(new TrainingMetrics(join_path(folder, "metrics.jsonl")));
  if (path_kind(metrics->path_) != PathKind::file) return metrics;
  TRY(const std::string text, read_file(metrics->path_, kMaxDocumentBytes));
  std::string kept;
  for (const std::string& line : split(text, '\n')) {
    const Result<Json> json = parse_json(line, metrics->path_);
    const Json* step = json ? json->find("step") : nullptr;
    if (step == nullptr || !step->is_integer() || step->as_integer() > static_cast<int64_t>(steps_done)) continue;
    kept += line + "\n";
    metrics->remember(*json);
  }
  TRY_STATUS(write_file(metrics->path_, kept));
  return metrics;
}

void TrainingMetrics::remember(const Json& line) {
  const auto number = [&](const char* name) {
    const Json* found = line.find(name);
    return found != nullptr && found->is_number() ? std::optional(found->as_number()) : std::nullopt;
  };
  if (line.find("sample") != nullptr) return;
  points_.push_back({.step = static_cast<uint64_t>(line.find("step")->as_integer()),
                     .loss = number("loss"),
                     .rate = number("rate"),
                     .gradient_norm = number("gradient_norm"),
                     .held_out_loss = number("held_out_loss")});
}

double TrainingMetrics::last_loss() const {
  for (size_t i = points_.size(); i-- > 0;)
    if (points_[i].loss) return *points_[i].loss;
  return 0;
}

Status append_to_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::app | std::ios::binary);
  file << bytes;
  file.close();
  if (file.fail()) return error(ErrorKind::io, path, ": cannot write: want room on the disk");
  return {};
}

Status TrainingMetrics::add(const Json& line) {
  remember(line);
  return append_to_file(path_, write_json(line) + "\n");
}

Status TrainingMetrics::step(const StepReport& report) {
  tokens_ += report.tokens;
  ++steps_;
  Json line = Json::Object{{"step", static_cast<int64_t>(report.step)},
                           {"epoch", static_cast<int64_t>(report.epoch)},
                           {"loss", report.loss},
                           {"rate", report.rate},
                           {"gradient_norm", report.gradient_norm},
                           {"tokens", static_cast<int64_t>(report.tokens)}};
  if (report.preferred) line.add("preferred", *report.preferred);
  return add(line);
}

Status TrainingMetrics::held_out(uint64_t step, double loss) {
  return add(Json::Object{{"step", static_cast<int64_t>(step)}, {"held_out_loss", loss}});
}

Status TrainingMetrics::sample(uint64_t step, const std::string& question, const std::string& answer) {
  return add(Json::Object{{"step", static_cast<int64_t>(step)}, {"sample", question}, {"answer", answer}});
}

double TrainingMetrics::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

double TrainingMetrics::tokens_per_second() const { return static_cast<double>(tokens_) / std::max(seconds(), 1e-6); }

std::string TrainingMetrics::time_left(uint64_t steps) const {
  const double left = steps_ == 0 ? 0 : seconds() / static_cast<double>(steps_) * static_cast<double>(steps);
  return format_time(left) + " left";
}

}  // namespace sluice
