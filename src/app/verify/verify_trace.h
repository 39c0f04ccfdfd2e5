// Named intermediates of two computations of the same tokens, compared in the order the program computes them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "app/verify/verify_bars.h"
#include "engine/trace.h"

namespace sluice {

struct Difference {
  std::string name;
  double error = 0;  // relative norm
};

struct TraceErrors {
  size_t compared = 0;
  std::vector<std::string> not_compared;  // values of the judge that ours lacks or has in another shape
  std::vector<Difference> over;           // values that differ by more than the bar, in the order of computation
  std::vector<Difference> judged;         // the part of `over` that the bar applies to
  size_t tokens_with_other_experts = 0;   // summed over layers
  size_t experts_misses = 0;              // the choices among them that no tie explains
};

// `ours` in the program's order. A value is over the bar when its relative norm is not at most `bars.intermediate`.
TraceErrors compare_traces(const Trace& ours, const Trace& judge, const Bars& bars);

}  // namespace sluice
