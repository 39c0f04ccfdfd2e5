// Rows of weights as they are stored, in any format that is decoded.
#pragma once

#include <span>

#include "format/format.h"

namespace sluice {

// The numbers encoded; where the format has no encoder, other numbers, drawn by `seed`: blocks of random bytes whose
// elements are finite, at most 1 and not all tiny.
void store_row(Format format, std::span<const float> numbers, uint32_t seed, std::byte* to);

}  // namespace sluice
