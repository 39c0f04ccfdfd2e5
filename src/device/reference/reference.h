// The reference device: the meaning of every op in short scalar loops, one function an op (interpreter.h), on one
// thread. Both arithmetics and both token classes are the same f32 sums in ascending order, so that it is exact by
// being plain. Weights are decoded a row at a time where they lie; pages and activations are f32. For small models, for
// tests, and for whoever wants to know what an op means.
#pragma once

#include <memory>

#include "device/device.h"

namespace sluice {

std::unique_ptr<Device> make_reference_device();

// The parity oracle: the same loops with every activation, sum and cached element in f64. Weights and step inputs are
// the f32 numbers they are, and results are rounded to f32 only when read.
std::unique_ptr<Device> make_reference_device_f64();

}  // namespace sluice
