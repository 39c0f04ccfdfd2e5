// A short check of a device before it is trusted with a model: rows of the model's own weights, some of each format
// that it has, times drawn numbers, as prompts and as answers have them, beside the reference device.
#pragma once

#include "base/result.h"
#include "device/device.h"
#include "model/model.h"

namespace sluice {

// The first product that is off, in a sentence. Bars are those of the parity tests (Linear::kDoc).
Status check_products(const Model& model, Device& device, Arithmetic arithmetic);

}  // namespace sluice
