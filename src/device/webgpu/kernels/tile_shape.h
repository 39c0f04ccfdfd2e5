// Tiles of a prompt's rows by a weight's outputs: threads a side of a tile, and sums a side of each. Smaller on
// processors, whose drivers take long over unrolled loops, and for few outputs, as routers have: most of a GPU would
// have no tile (512 rows of 2,816 columns by 128 outputs: 87 us for 312).
#pragma once

#include <cstdint>

#include "device/webgpu/host.h"

namespace sluice::webgpu {

struct TileShape {
  uint32_t side = 16, each = 4;
  uint32_t rows() const { return side * each; }
};
inline TileShape tile_shape(const Adapter& adapter, uint64_t outputs) {
  return adapter.is_software || outputs <= 256 ? TileShape{.side = 8, .each = 2} : TileShape{};
}

}  // namespace sluice::webgpu
