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
  std::string text(const std::string& name, const std::string& help, const std::string& label) const;

 private:
  std::span<const double> bounds_;
  std::vector<uint64_t> counts_;
  double sum_ = 0;
};

class Metrics {
 public:
  Metrics();
  void count(const HttpRecord& record, const std::string& route);
  // Of an answer that has ended.
  void count(const AnswerNews& last);
  void count_refused() { ++refused_; }
  std::string text(const std::string& model, const AnswerQueue& queue) const;

 private:
  std::map<std::pair<std::string, int>, uint64_t> requests_;  // by route and status
  Histogram first_token_, token_, queued_, whole_;
  uint64_t prompt_tokens_ = 0, reused_tokens_ = 0, answer_tokens_ = 0, refused_ = 0;
};

}  // namespace sluice
