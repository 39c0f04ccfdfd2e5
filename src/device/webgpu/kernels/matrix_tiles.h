// WGSL for tiles of products by matrix units: the subgroup matrices of WGSL's chromium_experimental_subgroup_matrix.
//
// A tile has rows of a step by outputs of a weight. Rows and weights are rounded to f16, products are summed in f32, 16
// numbers at a time, in ascending order. The order of a result's sum does not depend on the tile's size, nor on the
// other rows.
//
// Both become f16 before, in dispatches of their own: a tile that decodes its weights itself waits for them before it
// multiplies (docs/experiments.md). In `memory` they lie in blocks of kMatrixColumns columns: a block has those numbers
// of all rows, two a word, one row behind another, so that a tile reads neighbouring words. The last block is padded
// with zeros. Each row of a step is divided by a power of two, so that its largest number is from 2^13 to 2^14: none
// overflows, and small ones keep their digits. Each row's power, by which its results are multiplied again, lies behind
// the blocks. A row with a number that is not finite has results that are not finite.
#pragma once

#include <cstdint>
#include <string>

#include "device/webgpu/kernel.h"

namespace sluice::webgpu {

// Subgroups in two directions, each with some matrices of 16 rows by 16 outputs.
struct MatrixTile {
  uint32_t row_side = 2, rows_each = 4, output_side = 1, outputs_each = 4;
  uint32_t rows() const { return row_side * rows_each * 16; }
  uint32_t outputs() const { return output_side * outputs_each * 16; }
  uint32_t threads() const { return row_side * output_side * 32; }
  uint64_t blocks(uint64_t all_outputs) const { return divide_up(all_outputs, outputs()); }
};
// The tile for so many rows and outputs.
MatrixTile matrix_tile(uint64_t rows, uint64_t outputs);

// Numbers of a row that a tile takes at once.
inline constexpr uint32_t kMatrixColumns = 32;
// The words of a row's numbers, in all blocks; and those of a row in one block.
inline uint32_t half_words(uint32_t columns) {
  return (columns + kMatrixColumns - 1) / kMatrixColumns * (kMatrixColumns / 2);
}
inline constexpr uint32_t kBlockWords = kMatrixColumns / 2;
// So that powers are stored as vectors.
inline constexpr uint32_t kPowerWords = 4;

// Where rows lie as halves: the words of row 0 in the first block and of its power, and those from a block to the next.
struct HalvesAt {
  uint32_t first = 0, power = 0, block = 0;
  // As if they began with another row.
  HalvesAt before(uint32_t rows) const { return {first - rows * kBlockWords, power - rows * kPowerWords, block}; }
};

//   fn power_for(largest: f32) -> f32   the power of two, or infinity
//   fn inverse_of(power: f32) -> f32
//   fn eight_halves(a: vec4f, b: vec4f) -> vec4u
extern const char* const kAsHalves;
//   fn four_of(at: u32, column: u32, columns: u32) -> vec4f   numbers from `column` on of a row of memory at the word
//                                                             `at`; 0 behind its columns
extern const char* const kFourOf;

// Gives a kernel the declarations of a tile, and makes its body of `begin`, the statements of the tile and `end`. The
// statements need in scope:
//   thread
//   first, count               the tile's rows, the same for all threads
//   first_k, end_k             the sum's range along the weight; first_k is a multiple of kMatrixColumns
//   first_x                    the number of a row that belongs to 0 of that range, likewise a multiple
//   first_output, last_output  the tile's first output, the last of all
//   out                        a number for keep_four()
// and of the caller
//   fn x_of_row(row: u32) -> u32    the word at which a row of the step begins
//   fn power_of_row(row: u32) -> f32
//   fn w_of_row(row: u32) -> u32    the word at which a row of the weight begins
//   x_block(), w_block()            the words from a block of columns to the next
//   fn keep_four(out: u32, row: u32, output: u32, x: vec4f)
// which keeps four neighbouring outputs of a row, of which some may be beyond the last one.
//
// With has_more, sums go on with columns that lie elsewhere, kMatrixColumns at a time: those of adapters. Then the
// caller also declares
//   fn more_steps() -> u32                                  how many times, the same for all threads
//   fn more_x(step: u32, row: u32, i: u32) -> vec4u         halves 8 i to 8 i + 7 of a row
//   fn more_w(step: u32, output: u32, i: u32) -> vec4u      of a row of the weight
void use_matrix_tile(Kernel& kernel, const Adapter& adapter, const MatrixTile& tile, const std::string& begin,
                     const std::string& end, bool has_more = false);

}  // namespace sluice::webgpu
