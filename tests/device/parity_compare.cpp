#include "parity_compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/text.h"
#include "graph/ops/sample.h"

namespace sluice {
namespace {

std::string at(uint64_t index, uint64_t columns) {
  return cat("row ", index / columns, ", column ", index % columns, ": found ");
}

std::vector<SampleResult> results(std::span<const uint32_t> words) {
  std::vector<SampleResult> rows(words.size() / kSampleWords);
  if (!rows.empty()) std::memcpy(static_cast<void*>(rows.data()), words.data(), rows.size() * sizeof(SampleResult));
  return rows;
}

// `scale` is the size of the numbers that were subtracted.
bool near(float found, float expected, float tolerance, float scale) {
  return std::fabs(found - expected) <= tolerance * std::max(1.0f, std::fabs(scale));
}

std::string row_difference(const SampleResult& found, const SampleResult& expected, float tolerance) {
  if (found.finite != expected.finite) return cat("finite ", found.finite, ": want ", expected.finite);
  if (expected.finite == 0) return "";
  if (found.token != expected.token) return cat("token ", found.token, ": want ", expected.token);
  if (!near(found.log_prob, expected.log_prob, tolerance, expected.log_sum_exp))
    return cat("log_prob ", found.log_prob, ": want ", expected.log_prob);
  if (!near(found.log_sum_exp, expected.log_sum_exp, tolerance, expected.log_sum_exp))
    return cat("log_sum_exp ", found.log_sum_exp, ": want ", expected.log_sum_exp);
  for (size_t i = 0; i < kCandidates; ++i) {
    const Candidate& one = found.candidates[i];
    const Candidate& want = expected.candidates[i];
    const bool there = want.token >= 0;
    if (one.token != want.token || (there && one.logit != want.logit))
      return cat("candidate ", i, " ", one.token, " with ", one.logit, ": want ", want.token, " with ", want.logit);
  }
  return "";
}

}  // namespace

std::string difference(std::span<const float> found, std::span<const float> expected, uint64_t columns,
                       float tolerance) {
  double squares = 0;
  for (const float x : expected) squares += double{x} * x;
  const double typical = std::sqrt(squares / static_cast<double>(std::max<size_t>(expected.size(), 1)));
  for (uint64_t row = 0; row < expected.size() / columns; ++row) {
    double largest = typical;
    for (const float x : expected.subspan(row * columns, columns)) largest = std::max(largest, std::fabs(double{x}));
    for (uint64_t i = row * columns; i < (row + 1) * columns; ++i) {
      const double off = std::fabs(double{found[i]} - expected[i]);
      if (!(off <= tolerance * largest))
        return cat(at(i, columns), found[i], ": want ", expected[i], " (off by ", off / largest, ", may ", tolerance,
                   ")");
    }
  }
  return "";
}

std::string sample_difference(std::span<const uint32_t> found, std::span<const uint32_t> expected, float tolerance) {
  const std::vector<SampleResult> rows = results(found), wanted = results(expected);
  for (size_t row = 0; row < wanted.size(); ++row)
    if (const std::string off = row_difference(rows[row], wanted[row], tolerance); !off.empty())
      return cat("row ", row, ": found ", off);
  return "";
}

std::string integer_difference(std::span<const uint32_t> found, std::span<const uint32_t> expected, uint64_t columns) {
  for (size_t i = 0; i < expected.size(); ++i)
    if (found[i] != expected[i])
      return cat(at(i, columns), static_cast<int32_t>(found[i]), ": want ", static_cast<int32_t>(expected[i]));
  return "";
}

}  // namespace sluice
