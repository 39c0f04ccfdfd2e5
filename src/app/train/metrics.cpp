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

Result<std::unique_ptr<Metrics>> Metrics::open(const std::string& folder, uint64_t steps_done) {
  TRY_STATUS(make_folders(folder));
  std::unique_ptr<Metrics> metrics(new Metrics(join_path(folder, "metrics.jsonl")));
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

void Metrics::remember(const Json& line) {
  if (const Json* loss = line.find("loss"); loss != nullptr && loss->is_number()) last_loss_ = loss->as_number();
  const Json* held_out = line.find("held_out_loss");
  if (held_out != nullptr && held_out->is_number()) held_out_losses_.push_back(held_out->as_number());
}

Status Metrics::add(const Json& line) {
  remember(line);
  std::ofstream file(path_, std::ios::app);
  file << write_json(line) << '\n';
  file.close();
  if (file.fail()) return error(ErrorKind::io, path_, ": cannot write: want room on the disk");
  return {};
}

Status Metrics::step(const StepReport& report) {
  tokens_ += report.tokens;
  ++steps_;
  return add(Json::Object{{"step", static_cast<int64_t>(report.step)},
                          {"epoch", static_cast<int64_t>(report.epoch)},
                          {"loss", report.loss},
                          {"rate", report.rate},
                          {"gradient_norm", report.gradient_norm},
                          {"tokens", static_cast<int64_t>(report.tokens)}});
}

Status Metrics::held_out(uint64_t step, double loss) {
  return add(Json::Object{{"step", static_cast<int64_t>(step)}, {"held_out_loss", loss}});
}

double Metrics::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

double Metrics::tokens_per_second() const { return static_cast<double>(tokens_) / std::max(seconds(), 1e-6); }

std::string Metrics::time_left(uint64_t steps) const {
  const double left = steps_ == 0 ? 0 : seconds() / static_cast<double>(steps_) * static_cast<double>(steps);
  return format_time(left) + " left";
}

}  // namespace sluice
