// Products of two tables, by tiles: the kernel of the ops of training that multiply.
//
//   result(m, n) = sum over k of left(m, k) right(k, n), in ascending order of k
//
// A workgroup computes a tile of results. It stages 16 numbers or more of each of the tile's rows and columns at a time
// in workgroup memory. The order of a sum does not depend on the tile's size.
#pragma once

#include <cstdint>
#include <string>

#include "device/webgpu/host.h"
#include "device/webgpu/kernel.h"

namespace sluice::webgpu {

// How the second table is read.
enum class RightTable : uint8_t {
  elements,  // fn right_at(job: Job, k: u32, n: u32) -> f32
  across,    // fn weight_row(job: Job, k: u32) -> u32: row k of the decoder `w`, whose columns are n
  along,     // fn weight_row(job: Job, n: u32) -> u32: row n of the decoder `w`, whose columns are k
};

// A side with few rows or columns has small tiles.
struct TiledProduct {
  uint64_t rows = 0, columns = 0;  // of the results, at most
  RightTable right{};
  bool left_along_k = true;    // whether numbers of the first table with neighbouring k are neighbours in memory
  bool right_along_k = false;  // likewise of the second table's elements
  bool goes_on = false;        // sums begin with fn begin_of(job: Job, m: u32, n: u32) -> f32, not with 0
};

// The sizes of a tile.
struct ProductTile {
  uint32_t side = 16, rows_each = 4, columns_each = 4;
  uint32_t rows() const { return side * rows_each; }
  uint32_t columns() const { return side * columns_each; }
};
ProductTile product_tile(const Adapter& adapter, const TiledProduct& product);

// Makes it the kernel's body. Snippets that the caller adds declare
//   fn job_of(group: u32) -> Job                        the tile of a workgroup, by TILE_ROWS and TILE_COLUMNS
//   fn left_at(job: Job, m: u32, k: u32) -> f32
//   fn finish(job: Job, m: u32, n: u32, sum: f32)       keeps a result
// and what RightTable says. They may use
//   struct Job { m: u32, end_m: u32, n: u32, end_n: u32, k: u32, end_k: u32, place: u32 }
//     the tile's first row and column and the ends of all of them; the range of k, whose begin is a multiple of 16 for
//     RightTable::along; and a number for the other functions
//   fn no_job() -> Job
void use_tiled_product(Kernel& kernel, const Adapter& adapter, const TiledProduct& product);

}  // namespace sluice::webgpu
