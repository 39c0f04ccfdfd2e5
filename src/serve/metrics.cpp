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

std::string label_of(const std::string& model) { return cat("model=\"", escaped(model), '"'); }

}  // namespace

void Histogram::observe(double value) {
  const auto bucket = std::ranges::lower_bound(bounds_, value);
  ++counts_[static_cast<size_t>(bucket - bounds_.begin())];
  sum_ += value;
}

std::string Histogram::text(const std::string& name, const std::string& label) const {
  std::string out;
  uint64_t below = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    const std::string bound = i < bounds_.size() ? format_number(bounds_[i]) : "+Inf";
    out += cat(name, "_bucket{", label, ",le=\"", bound, "\"} ", below, '\n');
  }
  return out += cat(name, "_sum{", label, "} ", format_number(sum_), '\n', name, "_count{", label, "} ", below, '\n');
}

Metrics::OfModel::OfModel() : first_token(kSeconds), token(kTokenSeconds), queued(kSeconds), whole(kSeconds) {}

void Metrics::count(const HttpRecord& record, const std::string& route) { ++requests_[{route, record.status}]; }

void Metrics::count(const std::string& model, const AnswerNews& last) {
  OfModel& of = by_model_[model];
  const Usage& usage = last.usage;
  of.prompt_tokens += usage.prompt_tokens;
  of.reused_tokens += usage.reused_tokens;
  of.answer_tokens += usage.answer_tokens;
  of.queued.observe(last.queued_seconds);
  if (usage.answer_tokens > 0) of.first_token.observe(last.queued_seconds + usage.prompt_seconds);
  if (usage.answer_tokens > 1) of.token.observe(usage.answer_seconds / (usage.answer_tokens - 1));
  of.whole.observe(last.queued_seconds + usage.prompt_seconds + usage.answer_seconds);
}

std::string Metrics::text(const std::vector<ModelGauges>& gauges) const {
  std::string out = head("sluice_http_requests_total", "Requests by route and status.", "counter");
  for (const auto& [key, count] : requests_)
    out +=
        cat("sluice_http_requests_total{route=\"", escaped(key.first), "\",status=\"", key.second, "\"} ", count, '\n');
  std::map<std::string, OfModel> all = by_model_;
  for (const ModelGauges& gauge : gauges) all[gauge.model];  // also those that have not answered yet
  const auto counter = [&](const std::string& name, const char* help, uint64_t OfModel::* count) {
    out += head(name, help, "counter");
    for (const auto& [model, of] : all) out += cat(name, '{', label_of(model), "} ", of.*count, '\n');
  };
  const auto gauge = [&](const std::string& name, const char* help, auto ModelGauges::* value) {
    out += head(name, help, "gauge");
    for (const ModelGauges& one : gauges) out += cat(name, '{', label_of(one.model), "} ", uint64_t{one.*value}, '\n');
  };
  const auto histogram = [&](const std::string& name, const char* help, Histogram OfModel::* values) {
    out += head(name, help, "histogram");
    for (const auto& [model, of] : all) out += (of.*values).text(name, label_of(model));
  };
  counter("sluice_requests_refused_total", "Requests that found the queue full.", &OfModel::refused);
  counter("sluice_prompt_tokens_total", "Tokens of prompts.", &OfModel::prompt_tokens);
  counter("sluice_prompt_tokens_reused_total", "Of these, tokens that were not computed again.",
          &OfModel::reused_tokens);
  counter("sluice_answer_tokens_total", "Tokens of answers.", &OfModel::answer_tokens);
  gauge("sluice_model_loaded", "1: the model is loaded.", &ModelGauges::loaded);
  gauge("sluice_answers_running", "Answers in the engine's batch.", &ModelGauges::running);
  gauge("sluice_answers_waiting", "Answers in the queue.", &ModelGauges::waiting);
  gauge("sluice_cache_pages_held", "Pages of the cache that answers hold.", &ModelGauges::held_pages);
  histogram("sluice_time_to_first_token_seconds", "From a request's arrival to its first token.",
            &OfModel::first_token);
  histogram("sluice_time_per_output_token_seconds", "Between tokens, the mean of each answer.", &OfModel::token);
  histogram("sluice_queue_seconds", "In the queue.", &OfModel::queued);
  histogram("sluice_answer_seconds", "From a request's arrival to the end of its answer.", &OfModel::whole);
  return out;
}

}  // namespace sluice
