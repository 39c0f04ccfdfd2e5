// Comparing one output of a step with what the f64 reference gives.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace sluice {

// Nothing when every element is within `tolerance` of the expected one, as a share of the larger of its row's largest
// magnitude and the root mean square of all; else the first that is not, in words. NaN is never within.
std::string difference(std::span<const float> found, std::span<const float> expected, uint64_t columns,
                       float tolerance);
// Rows of SampleResult: tokens and candidates equal, log_prob and log_sum_exp within tolerance; of a row that is not
// finite only that.
std::string sample_difference(std::span<const uint32_t> found, std::span<const uint32_t> expected, float tolerance);
std::string integer_difference(std::span<const uint32_t> found, std::span<const uint32_t> expected, uint64_t columns);

}  // namespace sluice
