// What a row of an attention sees, from the step: written once for devices that compute on the host.
#pragma once

#include <cstdint>

#include "graph/ops/attention.h"
#include "graph/step.h"

namespace sluice {

// Keys are counted from where tiles begin: by position, or, of a tower's rows, from the row's first on. Of own rows,
// key j is row own_row + (j - own_begin) of k.
struct Seen {
  uint32_t first = 0, last = 0;  // both are seen
  uint32_t own_begin = 0, own_row = 0;

  uint32_t row_of(uint32_t j) const { return own_row + (j - own_begin); }
};

// Of row `row` of op.q.
Seen seen(const Attention& op, const StepBuffer& step, size_t row);

}  // namespace sluice
