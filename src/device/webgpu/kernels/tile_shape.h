// Tiles of a prompt's rows by a weight's outputs: threads on a side of a tile, and sums on a side of a thread. Tiles
// are smaller on processors, whose drivers compile unrolled loops slowly. They are also smaller for few outputs, as
// routers have, because most of a GPU would have no tile otherwise (512 rows of 2,816 columns by 128 outputs: 87 us,
// 312 before).
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
