// Whether activations that were rounded to 8 bits lean to a side.
//
// A rounding to the nearest leaves errors that are spread evenly over one step of the scale, half to each side: over
// many rows and columns they come to nothing. One that goes down, up or towards zero is off by half a step on average.
// Of the sum of a row's results, an error of half a step in every activation is known beforehand, so that the errors
// found are measured in it.
#pragma once

#include <span>
#include <vector>

#include "parity_player.h"

namespace sluice {

// A linear of many rows: activations of one sign, positive weights.
OpCase rounding_case(Format format, const Fill& activations);

struct Lean {
  double steps = 0;  // mean error of a rounded activation
  double bar = 0;    // what even errors stay below
};
// `found`, `expected`: the results of all rows of the case; `block`: columns that share a scale.
Lean lean_of(const OpCase& one, const CaseWeights& weights, std::span<const float> found,
             std::span<const float> expected, uint32_t block);

}  // namespace sluice
