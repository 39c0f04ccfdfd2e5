// How a weight's rows lie on the GPU and are decoded there, one entry a format, grouped by family of formats
// (weight_formats_*.cpp).
//
// A block of a file is cut into pieces (its scales, its low bits, ...). A row on the GPU has the first piece of all its
// blocks, then the second of all of them, and so on, each of these lists from a multiple of 16 bytes on: integers can
// then be read four words at once whatever a block's bytes are, and a number's place in its list follows from its
// column in the row. A piece may be put into another form of its own (q4_k's scales, each a byte). Formats of one
// element a block have columns padded to a whole number of 16, with zeros; a kernel keeps what it multiplies them with
// at 0.
//
// WGSL snippets decode 16 elements at a time. They are written with '$' for the name of the binding, and have
//   $_COLUMNS, $_ROW_WORDS, $_PARTS   constants; the last: 16 elements each, of a block
//   $_BEGIN, $_FIRST_ROW              the words that the code-book and rows begin at
//   $_NAME                            where the list of the piece of that name begins in a row, in words
//   $_word(i)                         word i of the binding; rows begin behind the format's code-book
//   $_four(i)                         words i to i + 3, where i is a multiple of 4
//   $_look_up(vec4u) -> vec4f         the format's numbers by index, where it has them
//   $_entry(u32) -> u32               an entry of its code-book, likewise
// and together define
//   fn $_16(row: u32, part: u32) -> mat4x4f   elements 16 part to 16 part + 15, four a column
// `row` counts from the first row of what is bound; `begin`, in them, is a row's first word. The results are those of
// decode_row(), but that a GPU may fuse a product and a sum, and take subnormal scales for 0.
//
// Kernels of matrix times vector take a unit at once: what a lane loads of a row while others are on their way. Its
// snippet, which the kernel's own are in front of (products.h), defines
//   $_Unit                                            its words
//   fn $_unit(row: u32, unit: u32) -> $_Unit          loads them
//   fn $_dot(own: $_Unit, unit: u32, x: Columns) -> f32   times the parts' columns x.a and x.b, whose sums are x.sums
// A format without one has units of a part, decoded by $_16. Constants: $_UNITS of a row, of $_UNIT parts, the second
// $_UNIT_STEP behind the first.
//
// Formats of integers say them as such, for kernels that multiply them with integers (integer_tiles.h):
//   fn $_integers(row: u32, part: u32) -> Integers   16 signed bytes q, of elements scale * q + offset
//   const $_OFFSETS                                  whether there are any that are not 0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
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
  // Where it is not those bytes as they are: makes `bytes` of a block.
  void (*repack)(const std::byte* block, std::byte* to) = nullptr;
};

// Parts of a unit: one; or two, `step` apart, where each 2 `step` parts are `step` units.
struct UnitShape {
  uint32_t parts = 1, step = 1;
  bool operator==(const UnitShape&) const = default;
};

struct WeightFormat {
  Format format{};
  std::array<WeightPiece, 5> pieces{};    // those with a name
  std::array<const char*, 5> snippets{};  // one behind another
  std::array<const char*, 2> unit{};      // its snippets; none: units of a part
  UnitShape unit_shape{};
  const char* integers = nullptr;
  // At most 16 integers of 8 bits.
  float (*number)(uint32_t index) = nullptr;
  uint32_t numbers = 0;
  // The code-book: on the GPU in front of the rows of every binding, two entries a word.
  std::span<const uint16_t> grid{};

  uint32_t grid_words() const { return static_cast<uint32_t>(grid.size() / 2); }
  std::vector<uint32_t> packed_grid() const;

  uint64_t row_words(uint32_t columns) const;
  void pack_row(const std::byte* row, uint32_t columns, uint32_t* words) const;
};

// Null: the GPU does not compute with it.
const WeightFormat* weight_format(Format format);

// The families.
std::span<const WeightFormat> plain_formats();     // elements as they are, and q8_0
std::span<const WeightFormat> small_formats();     // 32 and 64 elements a block, and a few bits each
std::span<const WeightFormat> k_formats();         // q2_k to q6_k
std::span<const WeightFormat> codebook_formats();  // iq1 to iq3

// Definitions of $_16 from what a family's snippets define:
//   fn $_numbers(begin: u32, part: u32, quad: u32) -> vec4f   elements 4 quad to 4 quad + 3 of a part
// as they are;
extern const char* const kAsNumbers;
// times $_scale(begin: u32, part: u32) -> f32;
extern const char* const kScaled;
// times x, plus y of $_scale(begin: u32, part: u32) -> vec2f.
extern const char* const kScaledAndMoved;
// $_numbers by $_indices(begin: u32, part: u32, quad: u32) -> vec4u.
extern const char* const kLookedUp;

// The format on the device: the file's, but f32 for weights in parts.
Format device_format(Format stored, bool in_parts);
// Neighbouring rows of an expert, at least one.
struct WeightRows {
  uint32_t expert = 0, first = 0, count = 1;
};
// Packed, each into `row_words` words.
void pack_weight_rows(const TensorSource& source, const WeightRows& rows, uint64_t row_words, uint32_t* words);
// The decoder of a binding of that name, where its rows, behind the code-book, lie at the binding's begin; or anywhere
// in it: then the kernel calls $_begin_at(word) before it decodes.
enum class Rows : uint8_t { at_begin, anywhere };
std::string weight_snippet(Format device_format, uint32_t columns, const std::string& name, Rows rows = Rows::at_begin);
// Its units, for kernels that multiply with it; behind the decoder.
UnitShape unit_shape(Format device_format);
std::string unit_snippet(Format device_format, const std::string& name);
// Its integers; empty: it has none.
std::string integer_snippet(Format device_format, const std::string& name);

}  // namespace sluice::webgpu
