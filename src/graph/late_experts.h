// Reorders a program whose experts are read, to give the reads time. Each `experts` op moves behind all ops that do not
// need its result, such as a shared expert. A device that reports missing experts at `route` computes those ops
// meanwhile. Ops are pure, so no bit changes.
#pragma once

#include "graph/program.h"

namespace sluice {

Program with_late_experts(Program program);

}  // namespace sluice
