// The layout of weights' rows on the GPU and their decoders in kernels: one entry for each format, grouped by family of
// formats (weight_formats_*.cpp).
//
// A block of a file is cut into pieces (its scales, its low bits, ...). A row on the GPU has the first piece of all its
// blocks, then the second piece of all blocks, and so on. Each of these lists begins at a multiple of 16 bytes, so a
// kernel can read four words at once for any size of block. A number's column gives its place in the list. A piece may
// be repacked (q4_k's scales become a byte each). Formats of one element a block have columns padded with zeros to a
// multiple of 16; the kernel's vector is 0 there, too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/webgpu/host.h"
#include "format/format.h"
#include "graph/weights.h"

namespace sluice::webgpu {

// Bytes [offset, offset + bytes) of a block.
struct WeightPiece {
  const char* name = nullptr;
  size_t offset = 0;
  uint32_t bytes = 0;
  // For a repacked piece: makes its `bytes` from a block.
  void (*repack)(const std::byte* block, std::byte* to) = nullptr;
};

// A unit has one part, or two that are `step` apart; then each 2 `step` parts are `step` units.
struct UnitShape {
  uint32_t parts = 1, step = 1;
  bool operator==(const UnitShape&) const = default;
};

// Decoders are WGSL with the placeholder ${w}, the name of the weight's binding (wgsl_template.h). They may use:
//   ${w}_COLUMNS, ${w}_ROW_WORDS     constants
//   ${w}_PARTS                       parts of 16 elements in a block
//   ${w}_BEGIN, ${w}_FIRST_ROW       the words at which the code-book and the rows begin
//   ${w}_NAME                        the word of a row at which the list of the piece NAME begins
//   ${w}_word(i), ${w}_four(i)       word i of the binding; words i to i + 3 for a multiple i of 4
//   ${w}_look_up(vec4u) -> vec4f     the format's numbers by index, if it has them
//   ${w}_entry(u32) -> u32           an entry of its code-book, if it has one
// Together they define
//   fn ${w}_16(row: u32, part: u32) -> mat4x4f   elements 16 part to 16 part + 15, four a column
// `row` counts from the binding's first row; `begin` is a row's first word. The results are those of decode_row(), but
// a GPU may fuse a product and a sum, and may flush subnormal scales to 0.
//
// Products of a matrix and a vector work in units: the words of a row that one lane loads at once (products.h). A
// format may define
//   ${w}_Unit                                               the unit's words
//   fn ${w}_unit(row: u32, unit: u32) -> ${w}_Unit          loads them
//   fn ${w}_dot(own: ${w}_Unit, unit: u32, x: Columns) -> f32   times columns x.a and x.b, whose sums are x.sums
// Without these a unit is one part, decoded by ${w}_16. Constants: ${w}_UNITS in a row, of ${w}_UNIT parts each, which
// are ${w}_UNIT_STEP apart.
//
// Formats with integer elements may define, for products of integers (integer_tiles.h):
//   fn ${w}_integers(row: u32, part: u32) -> Integers   16 signed bytes q of elements scale * q + offset
//   const ${w}_OFFSETS                                  whether any offset is not 0
//
// Formats of adapters' factors may define, for products that add them (adapted_products.cpp):
//   fn ${w}_eight(row: u32, i: u32) -> mat2x4f          elements 8 i to 8 i + 7
struct WeightFormat {
  Format format{};
  std::array<WeightPiece, 5> pieces{};    // pieces without a name are not used
  std::array<const char*, 5> snippets{};  // concatenated
  std::array<const char*, 2> unit{};      // snippets of its unit; null: a unit is one part
  UnitShape unit_shape{};
  const char* integers = nullptr;
  const char* eight = nullptr;
  // At most 16 integers of 8 bits.
  float (*number)(uint32_t index) = nullptr;
  uint32_t numbers = 0;
  // The code-book. On the GPU it stands before the rows of every binding, two entries a word.
  std::span<const uint16_t> grid{};

  uint32_t grid_words() const { return static_cast<uint32_t>(grid.size() / 2); }
  std::vector<uint32_t> packed_grid() const;

  uint64_t row_words(uint32_t columns) const;
  void pack_row(const std::byte* row, uint32_t columns, uint32_t* words) const;
};

// Null: the GPU does not compute with this format.
const WeightFormat* weight_format(Format format);

// The families.
std::span<const WeightFormat> plain_formats();     // elements as they are, and q8_0
std::span<const WeightFormat> small_formats();     // 32 and 64 elements a block, and a few bits each
std::span<const WeightFormat> k_formats();         // q2_k to q6_k
std::span<const WeightFormat> codebook_formats();  // iq1 to iq3

// Snippets that define ${w}_16 by a function of the format's own snippets,
//   fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f   elements 4 quad to 4 quad + 3 of a part
// unchanged;
extern const char* const kAsNumbers;
// times ${w}_scale(begin: u32, part: u32) -> f32;
extern const char* const kScaled;
// times x, plus y of ${w}_scale(begin: u32, part: u32) -> vec2f.
extern const char* const kScaledAndMoved;
// ${w}_numbers by ${w}_indices(begin: u32, part: u32, quad: u32) -> vec4u.
extern const char* const kLookedUp;

// The format on the device: the file's, except f32 for weights in parts.
Format device_format(Format stored, bool in_parts);
// Neighbouring rows of an expert, at least one.
struct WeightRows {
  uint32_t expert = 0, first = 0, count = 1;
};
// Rows that lie as the GPU has them, in the source or, read from a file, in `room`. Null if they must be packed.
const std::byte* packed_weight_rows(const TensorSource& source, const WeightRows& rows, uint64_t row_words,
                                    std::vector<std::byte>& room);
// Packs rows, each into `row_words` words.
void pack_weight_rows(const TensorSource& source, const WeightRows& rows, uint64_t row_words, uint32_t* words);
// The decoder of a weight in the binding of that name, or in another one. at_begin: the code-book and the rows stand at
// the begin of the binding. anywhere: the kernel calls ${w}_begin_at(word) before it decodes.
enum class Rows : uint8_t { at_begin, anywhere };
std::string weight_snippet(Format device_format, uint32_t columns, const std::string& name, Rows rows = Rows::at_begin,
                           std::string_view binding = {});
// The format's units, for kernels that multiply. The snippet goes behind the decoder.
UnitShape unit_shape(Format device_format);
std::string unit_snippet(Format device_format, const std::string& name);
// The snippet of the format's integers; empty: it has none.
std::string integer_snippet(Format device_format, const std::string& name);
// The snippet of ${w}_eight; empty: the format has none.
std::string eight_snippet(Format device_format, const std::string& name);
// fn product_8(x: mat2x4f, w: mat2x4f, before: f32) -> f32   before + their eight products, in ascending order
extern const char* const kProduct8;

}  // namespace sluice::webgpu
