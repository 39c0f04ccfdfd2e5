// Metrics: counts and histograms of a server in Prometheus' text format, for GET /metrics. Of the server's thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "serve/answer_queue.h"
#include "serve/http/http.h"

namespace sluice {

class Histogram {
 public:
  // `bounds`: the upper ends of the buckets, ascending; they outlive the histogram.
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}
  void observe(double value);
  // The lines of the histogram `name`, each with `label`.
  std::string text(const std::string& name, const std::string& label) const;

 private:
  std::span<const double> bounds_;
  std::vector<uint64_t> counts_;
  double sum_ = 0;
};

// What a model does now.
struct ModelGauges {
  std::string model;
  uint32_t running = 0, waiting = 0;  // answers
  bool loaded = false;
  uint64_t held_pages = 0;  // EngineStats::held_pages
};

class Metrics {
 public:
  void count(const HttpRecord& record, const std::string& route);
  // Of an answer that has ended.
  void count(const std::string& model, const AnswerNews& last);
  void count_refused(const std::string& model) { ++by_model_[model].refused; }
  std::string text(const std::vector<ModelGauges>& gauges) const;

 private:
  struct OfModel {
    OfModel();
    Histogram first_token, token, queued, whole;
    uint64_t prompt_tokens = 0, reused_tokens = 0, answer_tokens = 0, refused = 0;
  };

  std::map<std::pair<std::string, int>, uint64_t> requests_;  // by route and status
  std::map<std::string, OfModel> by_model_;                   // by the model's first name
};

}  // namespace sluice
