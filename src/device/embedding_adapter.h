// The adapter of an embedding row, as devices compute it whose processor decodes the rows (graph/ops/embed.h).
#pragma once

#include <cstdint>
#include <span>

#include "graph/weights.h"

namespace sluice {

// row += factor b[slot] a[slot][token]. The sum over the rank ascends.
void add_embedding_adapter(const TensorSource& a, const TensorSource& b, uint32_t slot, uint32_t token, float factor,
                           std::span<float> row);

}  // namespace sluice
