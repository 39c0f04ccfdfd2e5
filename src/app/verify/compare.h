// Differences between two sets of logits, which verify prints and judges. All sums are in double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice {

// Rows of `vocabulary` logits; `want` is the judge's.
struct LogitErrors {
  double largest = 0;    // |got - want|
  double relative = 0;   // ||got - want|| / ||want||
  double kl = 0;         // mean over rows of KL(softmax(want) || softmax(got)), nats
  double top_equal = 0;  // share of rows whose largest logit is the same token's
  size_t rows = 0;
  std::vector<double> row_relative = {};  // `relative` of each row
};
// The median; of an even number, the larger of the two in the middle. 0 without values. Not finite if any value is not.
double median(std::vector<double> values);
// A value that is not finite makes every number of the result NaN.
LogitErrors compare_logits(std::span<const float> got, std::span<const float> want, size_t vocabulary);

// Ties: the lower index.
int32_t arg_max(std::span<const float> row);
// Largest minus second largest; 0 for a single entry.
float best_margin(std::span<const float> row);
// log p(token) of a row of logits.
double log_probability(std::span<const float> row, int32_t token);
// exp(-mean log p(token i | row i - 1)), i = 1 ... n - 1; rows of logits for every token.
double perplexity_of(std::span<const float> rows, std::span<const int32_t> tokens, size_t vocabulary);

// ||got - want|| / ||want||; equal zeros give 0.
double relative_norm(std::span<const float> got, std::span<const float> want);

struct GreedyResult {
  size_t equal = 0;  // tokens before the parting
  bool parted = false;
  float margin = 0;  // the judge's, at the parting
};
GreedyResult compare_greedy(std::span<const int32_t> got, std::span<const int32_t> want,
                            std::span<const float> margins);

// `*` any run of characters, `?` any one.
bool glob_matches(std::string_view pattern, std::string_view name);

}  // namespace sluice
