#include "serve/metrics.h"

#include <algorithm>

#include "base/json.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr double kSeconds[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300};
constexpr double kTokenSeconds[] = {0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2};

std::string head(const std::string& name, const std::string& help, const char* type) {
  return cat("# HELP ", name, ' ', help, "\n# TYPE ", name, ' ', type, '\n');
}

std::string line(const std::string& name, const char* help, const char* type, const std::string& label,
                 uint64_t value) {
  return cat(head(name, help, type), name, '{', label, "} ", value, '\n');
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

}  // namespace

void Histogram::observe(double value) {
  const auto bucket = std::ranges::lower_bound(bounds_, value);
  ++counts_[static_cast<size_t>(bucket - bounds_.begin())];
  sum_ += value;
}

std::string Histogram::text(const std::string& name, const std::string& help, const std::string& label) const {
  std::string out = head(name, help, "histogram");
  uint64_t below = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    const std::string bound = i < bounds_.size() ? format_number(bounds_[i]) : "+Inf";
    out += cat(name, "_bucket{", label, ",le=\"", bound, "\"} ", below, '\n');
  }
  return out += cat(name, "_sum{", label, "} ", format_number(sum_), '\n', name, "_count{", label, "} ", below, '\n');
}

Metrics::Metrics() : first_token_(kSeconds), token_(kTokenSeconds), queued_(kSeconds), whole_(kSeconds) {}

void Metrics::count(const HttpRecord& record, const std::string& route) { ++requests_[{route, record.status}]; }

void Metrics::count(const AnswerNews& last) {
  const Usage& usage = last.usage;
  prompt_tokens_ += usage.prompt_tokens;
  reused_tokens_ += usage.reused_tokens;
  answer_tokens_ += usage.answer_tokens;
  queued_.observe(last.queued_seconds);
  if (usage.answer_tokens > 0) first_token_.observe(last.queued_seconds + usage.prompt_seconds);
  if (usage.answer_tokens > 1) token_.observe(usage.answer_seconds / (usage.answer_tokens - 1));
  whole_.observe(last.queued_seconds + usage.prompt_seconds + usage.answer_seconds);
}

std::string Metrics::text(const std::string& model, const AnswerQueue& queue) const {
  const std::string label = cat("model=\"", escaped(model), '"');
  std::string out = head("sluice_http_requests_total", "Requests by route and status.", "counter");
  for (const auto& [key, count] : requests_)
    out +=
        cat("sluice_http_requests_total{route=\"", escaped(key.first), "\",status=\"", key.second, "\"} ", count, '\n');
  out += line("sluice_requests_refused_total", "Requests that found the queue full.", "counter", label, refused_);
  out += line("sluice_prompt_tokens_total", "Tokens of prompts.", "counter", label, prompt_tokens_);
  out += line("sluice_prompt_tokens_reused_total", "Of these, tokens that were not computed again.", "counter", label,
              reused_tokens_);
  out += line("sluice_answer_tokens_total", "Tokens of answers.", "counter", label, answer_tokens_);
  out += line("sluice_answers_running", "Answers in the engine's batch.", "gauge", label, queue.running());
  out += line("sluice_answers_waiting", "Answers in the queue.", "gauge", label, queue.waiting());
  out += first_token_.text("sluice_time_to_first_token_seconds", "From a request's arrival to its first token.", label);
  out += token_.text("sluice_time_per_output_token_seconds", "Between tokens, the mean of each answer.", label);
  out += queued_.text("sluice_queue_seconds", "In the queue.", label);
  out += whole_.text("sluice_answer_seconds", "From a request's arrival to the end of its answer.", label);
  return out;
}

}  // namespace sluice
