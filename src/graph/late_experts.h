// A program whose experts have to be fetched, in an order that gives them time: each `experts` is moved behind all that
// does not need its result, such as a shared expert, so that a device which says at `route` what it lacks computes
// those in the meantime. Ops are pure, so that no bit changes.
#pragma once

#include "graph/program.h"

namespace sluice {

Program with_late_experts(Program program);

}  // namespace sluice
