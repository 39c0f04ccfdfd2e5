// Weights packed for products with 8-bit activations. Sixteen rows lie side by side, so they are read in one stream and
// need no transposing (BlockPacking in kernels.h). They take as many bytes as before, in whole panels.
#pragma once

#include "device/cpu/kernels.h"

namespace sluice::cpu {

// Bytes of one packed matrix. `stored_row`: bytes of a stored row.
constexpr uint64_t packed_bytes(uint64_t stored_row, uint64_t rows) {
  return (rows + kPanelOutputs - 1) / kPanelOutputs * kPanelOutputs * stored_row;
}

// Panels [first, last) of a matrix of `rows` rows. A panel of fewer than sixteen rows repeats its last row.
struct PackArgs {
  BlockPacking packing{};
  const std::byte* from = nullptr;  // row r at from + (r - first_row) * from_stride
  uint64_t first_row = 0;
  uint64_t from_stride = 0;
  uint64_t stored_row = 0;
  uint64_t rows = 0;
  std::byte* to = nullptr;  // of the whole matrix
};
void pack_panels(const PackArgs& args, uint64_t first, uint64_t last);

}  // namespace sluice::cpu
