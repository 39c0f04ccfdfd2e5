// The reference device gives the meaning of every op in short scalar loops on one thread, one function an op
// (interpreter.h). Both arithmetics and both token classes are the same f32 sums in ascending order. Weights are
// decoded a row at a time in place; pages and activations are f32. It is for small models, for tests, and for readers
// who want to know what an op means.
#pragma once

#include <memory>

#include "device/device.h"

namespace sluice {

std::unique_ptr<Device> make_reference_device();

// The parity oracle: the same loops with every activation, sum and cached element in f64. Weights and step inputs keep
// their f32 values, and results are rounded to f32 only when they are read.
std::unique_ptr<Device> make_reference_device_f64();

}  // namespace sluice
