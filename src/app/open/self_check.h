// A short check of a device before it is trusted with a model. It multiplies rows of the model's own weights, some of
// each format, with random numbers, as in prompts and in answers, and compares with the reference device.
#pragma once

#include "base/result.h"
#include "device/device.h"
#include "model/model.h"

namespace sluice {

// Fails with a sentence about the first wrong product. Tolerances are those of the parity tests (Linear::kDoc).
Status check_products(const Model& model, Device& device, Arithmetic arithmetic);

}  // namespace sluice
