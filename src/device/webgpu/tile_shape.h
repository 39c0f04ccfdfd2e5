// Tiles of a prompt's rows by a weight's outputs: threads a side of a tile, and sums a side of each. Smaller on
// processors, whose drivers take long over unrolled loops.
#pragma once

#include <cstdint>

#include "device/webgpu/host.h"

namespace sluice::webgpu {

struct TileShape {
  uint32_t side = 16, each = 4;
  uint32_t rows() const { return side * each; }
};
inline TileShape tile_shape(const Adapter& adapter) {
  return adapter.is_software ? TileShape{.side = 8, .each = 2} : TileShape{};
}

}  // namespace sluice::webgpu
