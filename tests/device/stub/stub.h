// A small device, written after docs/adding.md, "A device", from what that page names and nothing else: were the page
// incomplete, this would not compile or not pass. It plays a few ops by plain loops, and like a GPU it does so after
// start(): a step is computed when poll() asks for it.
#pragma once

#include <memory>

#include "device/device.h"

namespace sluice {

std::unique_ptr<Device> make_stub_device();

}  // namespace sluice
