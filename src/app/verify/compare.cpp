#include "app/verify/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/check.h"

namespace sluice {
namespace {

double log_sum_exp(std::span<const float> row) {
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float value : row) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

double kl_of_row(std::span<const float> got, std::span<const float> want) {
  const double got_norm = log_sum_exp(got), want_norm = log_sum_exp(want);
  double sum = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double want_log = want[i] - want_norm, got_log = got[i] - got_norm;
    sum += std::exp(want_log) * (want_log - got_log);
  }
  // Rounding can leave a hair below zero, which no divergence is.
  return std::max(sum, 0.0);
}

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

}  // namespace

LogitErrors compare_logits(std::span<const float> got, std::span<const float> want, size_t vocabulary) {
  CHECK(vocabulary > 0 && got.size() == want.size() && got.size() % vocabulary == 0);
  LogitErrors errors;
  errors.rows = got.size() / vocabulary;
  if (!all_finite(got)) {
    errors.largest = errors.relative = errors.kl = errors.top_equal = std::numeric_limits<double>::quiet_NaN();
    errors.row_relative.assign(errors.rows, std::numeric_limits<double>::quiet_NaN());
    return errors;
  }
  size_t equal = 0;
  for (size_t row = 0; row < errors.rows; ++row) {
    const auto ours = got.subspan(row * vocabulary, vocabulary), theirs = want.subspan(row * vocabulary, vocabulary);
    errors.row_relative.push_back(relative_norm(ours, theirs));
    errors.kl += kl_of_row(ours, theirs) / static_cast<double>(errors.rows);
    equal += arg_max(ours) == arg_max(theirs) ? 1 : 0;
    for (size_t i = 0; i < vocabulary; ++i)
      errors.largest = std::max(errors.largest, std::abs(double{ours[i]} - double{theirs[i]}));
  }
  errors.top_equal = errors.rows == 0 ? 1 : static_cast<double>(equal) / static_cast<double>(errors.rows);
  errors.relative = relative_norm(got, want);
  return errors;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  for (const double value : values)
    if (!std::isfinite(value)) return value;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

int32_t arg_max(std::span<const float> row) {
  return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

float best_margin(std::span<const float> row) {
  if (row.size() < 2) return 0;
  const auto best = static_cast<size_t>(arg_max(row));
  float second = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < row.size(); ++i) second = i == best ? second : std::max(second, row[i]);
  return row[best] - second;
}

double log_probability(std::span<const float> row, int32_t token) {
  return row[static_cast<size_t>(token)] - log_sum_exp(row);
}

double perplexity_of(std::span<const float> rows, std::span<const int32_t> tokens, size_t vocabulary) {
  CHECK(tokens.size() > 1 && rows.size() >= (tokens.size() - 1) * vocabulary);
  double sum = 0;
  for (size_t i = 1; i < tokens.size(); ++i)
    sum -= log_probability(rows.subspan((i - 1) * vocabulary, vocabulary), tokens[i]);
  return std::exp(sum / static_cast<double>(tokens.size() - 1));
}

double relative_norm(std::span<const float> got, std::span<const float> want) {
  CHECK(got.size() == want.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = double{got[i]} - double{want[i]};
    difference += d * d;
    norm += double{want[i]} * double{want[i]};
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

GreedyResult compare_greedy(std::span<const int32_t> got, std::span<const int32_t> want,
                            std::span<const float> margins) {
  CHECK(want.size() == margins.size());
  GreedyResult result;
  while (result.equal < want.size() && result.equal < got.size() && got[result.equal] == want[result.equal])
    ++result.equal;
  result.parted = result.equal < want.size();
  result.margin = result.parted ? margins[result.equal] : 0;
  return result;
}

bool glob_matches(std::string_view pattern, std::string_view name) {
  // Only the last star must be remembered: it can match everything that an earlier star could match.
  size_t p = 0, n = 0, star = std::string_view::npos, mark = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++mark;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace sluice
