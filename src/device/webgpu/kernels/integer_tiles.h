// WGSL for integer tiles. A tile has rows of a prompt by outputs of one weight or of several. It takes 64 columns at a
// time, in ascending order.
//
// 16 columns of a row are signed bytes and a scale that maps the largest number to 127. The weight has its own integers
// (weight_format.h). Sixteen products are exact. Their scaled sums are added in f32, in one order for all rows. A GPU
// makes four such products in an instruction, and a tile takes a quarter of f32's workgroup memory bandwidth.
//
// Rows become integers once, for all tiles. In `memory` a row has COLUMNS / 16 parts of four words, then for each part
// its scale and the f32 sum of its numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "device/webgpu/kernel.h"

namespace sluice::webgpu {

// Threads in two directions, and the sums of each thread: of rows row_side apart and of neighbouring outputs. Tiles are
// smaller on processors, whose drivers compile unrolled loops slowly.
struct IntegerTile {
  uint32_t row_side = 16, rows_each = 4, output_side = 16, outputs_each = 4;
  bool few = false;  // most tiles lack rows, so missing rows are skipped; a complete tile then takes some 8 % longer
  uint32_t rows() const { return row_side * rows_each; }
  uint32_t outputs() const { return output_side * outputs_each; }
  uint32_t threads() const { return row_side * output_side; }
  uint64_t blocks(uint64_t all_outputs) const { return (all_outputs + outputs() - 1) / outputs(); }
};

// Columns of rows as integers are a multiple of these.
inline constexpr uint32_t kIntegerColumns = 32;
inline uint32_t integer_words(uint32_t columns) { return columns / 16 * 6; }

//   fn part_of(a: vec4f, b: vec4f, c: vec4f, d: vec4f) -> Part   of 16 columns
//   fn put_parts(at: u32, parts: u32, pair: u32, first: Part, second: Part)
// put_parts() writes parts 2 pair and 2 pair + 1 of a row that begins at the word `at` and has `parts` parts.
extern const char* const kRowsAsIntegers;

// Gives a kernel the declarations of such tiles for bindings of these names, and appends to its body `begin`, the
// statements of a tile and `end`. The kernel must have the bindings' decoders and integers. The statements make
// sums_W[j][n] for each name W, of row r + ROW_SIDE * j of the tile and output first_output + o * OUTPUTS_EACH + n.
// They need the constant COLUMNS, fn x_of_row(row: u32) -> u32 (the word at which a row begins), and in scope:
//   thread
//   first, count               the tile's rows, the same for all threads
//   first_output, last_output  the tile's first output, the last of all
//   W_first                    the binding's row of output 0
//
// `more`: the names whose sums go on with products of other rows in f32, kMoreColumns at a time: those of adapters.
// For each of these names the caller declares
//   fn more_steps_W() -> u32                                            how many times, the same for all threads
//   fn more_x_W(step: u32, row: u32, part: u32) -> vec4f                numbers 4 part to 4 part + 3 of a row
//   fn more_w_W(step: u32, first: u32, output: u32, part: u32) -> vec4f   of an output for the tile that begins there
inline constexpr uint32_t kMoreColumns = 16;
void use_integer_tile(Kernel& kernel, const IntegerTile& tile, std::span<const char* const> names,
                      const std::string& begin, const std::string& end, std::span<const char* const> more = {});

}  // namespace sluice::webgpu
