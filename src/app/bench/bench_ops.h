// The time of a test's steps by op: ops of one kind, format and shape are counted together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/bench/metered_device.h"

namespace sluice {

struct OpShare {
  std::string op = {};     // "linear", or the block in which several ops are computed: "gated_mlp"
  std::string shape = {};  // "q4_k 6144 x 1536"; for ops without matrices, the elements of a row
  uint64_t calls = 0;      // of all steps
  double seconds = 0;
  OpCost cost = {};
  bool blocks = false;  // its matrices are in blocks of small integers

  // The share of the time that the bytes or the flops need at least, whichever need more. `bandwidth` is in bytes a
  // second; 0: unknown.
  double limit_share(double bandwidth, const Peaks& peaks) const;
};

// The slowest first.
std::vector<OpShare> op_shares(const CostFacts& facts, const std::vector<MeteredStep>& steps);

}  // namespace sluice
