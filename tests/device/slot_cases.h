// What tests of experts that come and go have in common, whatever the device.
#pragma once

#include <vector>

#include "device/device.h"
#include "graph/cases.h"

namespace sluice {

std::vector<OpCase> cases_with_experts();
// A shared expert behind a router: moved before the routed ones, it is computed while they come.
OpCase shared_expert_case();

// Whatever the slots are, and in whatever order experts come, the bits are those of experts that are all at hand.
void expect_resident_bits(const OpCase& one, Device& device, Arithmetic arithmetic);
// So it is while an op is looked for whose result is not finite, which is found likewise.
void expect_resident_finding(const OpCase& one, Device& device);

}  // namespace sluice
