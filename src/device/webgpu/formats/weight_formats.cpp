// The parts of weight_format.h that all families of formats share: packing of rows, and the WGSL around decoders.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "device/webgpu/formats/weight_format.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kRowsAtOnce = 16;  // decoded together

// Blocks of a row on the GPU. Formats of one element a block are padded to a multiple of 16.
uint64_t row_blocks(Format format, uint32_t columns) {
  const uint32_t elements = format_info(format).block_elements;
  return elements == 1 ? (uint64_t{columns} + 15) / 16 * 16 : columns / elements;
}
// Words of a list, up to the place where the next list may begin.
uint64_t words_of(uint64_t bytes) { return (bytes + 15) / 16 * 4; }

constexpr const char* kWords = R"(
fn ${w}_word(i: u32) -> u32 { return ${binding}[i / 4u][i % 4u]; }
fn ${w}_four(i: u32) -> vec4u { return ${binding}[i / 4u]; }
)";

// Reads number i of a list in a row: of 16 bits, of 8 bits, or a scale in f16.
constexpr const char* kReads = R"(
fn ${w}_u16(at: u32, i: u32) -> u32 { return (${w}_word(at + i / 2u) >> (i % 2u * 16u)) & 0xffffu; }
fn ${w}_u8(at: u32, i: u32) -> u32 { return (${w}_word(at + i / 4u) >> (i % 4u * 8u)) & 0xffu; }
fn ${w}_f16(at: u32, i: u32) -> f32 { return unpack2x16float(${w}_word(at + i / 2u))[i % 2u]; }
)";

constexpr const char* kBeginAtBegin = R"(
const ${w}_BEGIN = 0u;
const ${w}_FIRST_ROW = ${w}_GRID_WORDS;
)";
constexpr const char* kBeginAnywhere = R"(
var<private> ${w}_BEGIN: u32;
var<private> ${w}_FIRST_ROW: u32;
fn ${w}_begin_at(at: u32) {
  ${w}_BEGIN = at;
  ${w}_FIRST_ROW = at + ${w}_GRID_WORDS;
}
)";

constexpr const char* kReadGrid = R"(
fn ${w}_entry(i: u32) -> u32 { return ${w}_u16(${w}_BEGIN, i); }
)";

// Numbers are bytes of constants, chosen without a table in memory.
constexpr const char* kLookUp = R"(
fn ${w}_look_up(at: vec4u) -> vec4f {
  let low = select(vec4u(${w}_NUMBERS.x), vec4u(${w}_NUMBERS.y), (at & vec4u(4u)) != vec4u());
  let high = select(vec4u(${w}_NUMBERS.z), vec4u(${w}_NUMBERS.w), (at & vec4u(4u)) != vec4u());
  let words = select(low, high, (at & vec4u(8u)) != vec4u());
  return vec4f(bitcast<vec4i>(words << (24u - 8u * (at & vec4u(3u)))) >> vec4u(24u));
}
)";

std::string tables(const WeightFormat& format, const std::string& name) {
  std::string text;
  if (format.numbers > 0) {
    std::array<uint32_t, 4> words{};
    for (uint32_t i = 0; i < format.numbers; ++i)
      words[i / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(static_cast<int8_t>(format.number(i)))) << i % 4 * 8;
    text +=
        cat("const ", name, "_NUMBERS = vec4u(", words[0], "u, ", words[1], "u, ", words[2], "u, ", words[3], "u);\n");
    text += fill(kLookUp, {{"w", name}});
  }
  if (!format.grid.empty()) text += fill(kReadGrid, {{"w", name}});
  return text;
}

// Copies pieces of blocks into a list, with loads and stores of the piece's size for usual sizes.
void copy_pieces(const std::byte* from, size_t stride, size_t count, size_t bytes, std::byte* to) {
  const auto copy = [&](auto size) {
    for (size_t i = 0; i < count; ++i) std::memcpy(to + i * size, from + i * stride, size);
  };
  switch (bytes) {
    case 2: return copy(std::integral_constant<size_t, 2>());
    case 4: return copy(std::integral_constant<size_t, 4>());
    case 8: return copy(std::integral_constant<size_t, 8>());
    case 16: return copy(std::integral_constant<size_t, 16>());
    case 32: return copy(std::integral_constant<size_t, 32>());
    case 64: return copy(std::integral_constant<size_t, 64>());
    default: return copy(bytes);
  }
}

}  // namespace

const char* const kAsNumbers = R"(
fn ${w}_16(row: u32, part: u32) -> mat4x4f {
  let begin = ${w}_FIRST_ROW + row * ${w}_ROW_WORDS;
  return mat4x4f(${w}_numbers(begin, part, 0u), ${w}_numbers(begin, part, 1u), ${w}_numbers(begin, part, 2u),
                 ${w}_numbers(begin, part, 3u));
}
)";

const char* const kScaled = R"(
fn ${w}_16(row: u32, part: u32) -> mat4x4f {
  let begin = ${w}_FIRST_ROW + row * ${w}_ROW_WORDS;
  let scale = ${w}_scale(begin, part);
  return mat4x4f(scale * ${w}_numbers(begin, part, 0u), scale * ${w}_numbers(begin, part, 1u),
                 scale * ${w}_numbers(begin, part, 2u), scale * ${w}_numbers(begin, part, 3u));
}
)";

const char* const kScaledAndMoved = R"(
fn ${w}_16(row: u32, part: u32) -> mat4x4f {
  let begin = ${w}_FIRST_ROW + row * ${w}_ROW_WORDS;
  let scale = ${w}_scale(begin, part);
  let x = vec4f(scale.x);
  let y = vec4f(scale.y);
  return mat4x4f(fma(x, ${w}_numbers(begin, part, 0u), y), fma(x, ${w}_numbers(begin, part, 1u), y),
                 fma(x, ${w}_numbers(begin, part, 2u), y), fma(x, ${w}_numbers(begin, part, 3u), y));
}
)";

// A unit of one part, as the format's decoder has it.
constexpr const char* kUnitOfPart = R"(
alias ${w}_Unit = mat4x4f;
fn ${w}_unit(row: u32, unit: u32) -> ${w}_Unit { return ${w}_16(row, unit); }
fn ${w}_dot(own: ${w}_Unit, unit: u32, x: Columns) -> f32 {
  return total(fma(own[3], x.a[3], fma(own[2], x.a[2], fma(own[1], x.a[1], own[0] * x.a[0]))));
}
)";

const char* const kLookedUp = R"(
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  return ${w}_look_up(${w}_indices(begin, part, quad));
}
)";

uint64_t WeightFormat::row_words(uint32_t columns) const {
  const uint64_t blocks = row_blocks(format, columns);
  uint64_t words = 0;
  for (const WeightPiece& piece : pieces) words += words_of(blocks * piece.bytes);
  return words;
}

void WeightFormat::pack_row(const std::byte* row, uint32_t columns, uint32_t* words) const {
  const FormatInfo& info = format_info(format);
  const uint32_t blocks = columns / info.block_elements;
  const uint64_t all_blocks = row_blocks(format, columns);
  for (const WeightPiece& piece : pieces) {
    if (piece.bytes == 0) break;  // the format has no more
    const uint64_t count = words_of(all_blocks * piece.bytes);
    auto* to = reinterpret_cast<std::byte*>(words);
    std::memset(to + size_t{blocks} * piece.bytes, 0, static_cast<size_t>(count * 4 - uint64_t{blocks} * piece.bytes));
    if (piece.repack != nullptr)
      for (size_t i = 0; i < blocks; ++i) piece.repack(row + i * info.block_bytes, to + i * piece.bytes);
    else if (piece.bytes == info.block_bytes)
      std::memcpy(to, row, size_t{blocks} * piece.bytes);
    else
      copy_pieces(row + piece.offset, info.block_bytes, blocks, piece.bytes, to);
    words += count;
  }
}

std::vector<uint32_t> WeightFormat::packed_grid() const {
  std::vector<uint32_t> words(grid_words());
  for (size_t i = 0; i < grid.size(); ++i) words[i / 2] |= uint32_t{grid[i]} << i % 2 * 16;
  return words;
}

const WeightFormat* weight_format(Format format) {
  for (const std::span<const WeightFormat> family : {plain_formats(), small_formats(), k_formats(), codebook_formats()})
    for (const WeightFormat& one : family)
      if (one.format == format) return &one;
  return nullptr;
}

Format device_format(Format stored, bool in_parts) { return in_parts ? Format::f32 : stored; }

const std::byte* packed_weight_rows(const TensorSource& source, const WeightRows& rows, uint64_t row_words,
                                    std::vector<std::byte>& room) {
  const uint64_t bytes = row_bytes(source.format, source.shape.columns);
  if (!source.parts.empty() || bytes != row_words * 4 || source.row_stride != bytes) return nullptr;
  const std::span<const WeightPiece> pieces = weight_format(source.format)->pieces;
  const bool is_whole = pieces[0].bytes == format_info(source.format).block_bytes && pieces[0].repack == nullptr;
  return is_whole && pieces[1].bytes == 0 ? source.row(rows.expert, rows.first).fetch(bytes * rows.count, room)
                                          : nullptr;
}

void pack_weight_rows(const TensorSource& source, const WeightRows& rows, uint64_t row_words, uint32_t* words) {
  const uint32_t columns = source.shape.columns;
  if (source.parts.empty()) {
    const WeightFormat& format = *weight_format(source.format);
    const uint64_t bytes = (rows.count - 1) * source.row_stride + row_bytes(source.format, columns);
    std::vector<std::byte> room;
    const std::byte* const stored = source.row(rows.expert, rows.first).fetch(bytes, room);
    for (uint32_t i = 0; i < rows.count; ++i)
      format.pack_row(stored + i * source.row_stride, columns, words + i * row_words);
    return;
  }
  const ExpertRows of_expert(source, rows.expert);
  const WeightFormat& floats = *weight_format(Format::f32);
  std::vector<float> decoded(size_t{std::min(rows.count, kRowsAtOnce)} * columns);
  for (uint32_t i = 0; i < rows.count; i += kRowsAtOnce) {
    const uint32_t count = std::min(rows.count - i, kRowsAtOnce);
    of_expert.decode(rows.first + i, count, decoded.data());
    for (uint32_t row = 0; row < count; ++row)
      floats.pack_row(reinterpret_cast<const std::byte*>(decoded.data() + uint64_t{row} * columns), columns,
                      words + (i + row) * row_words);
  }
}

std::string weight_snippet(Format device_format, uint32_t columns, const std::string& name, Rows rows,
                           std::string_view binding) {
  const WeightFormat* format = weight_format(device_format);
  CHECK(format != nullptr);
  std::string text =
      cat("const ", name, "_COLUMNS = ", columns, "u;\nconst ", name, "_ROW_WORDS = ", format->row_words(columns),
          "u;\nconst ", name, "_GRID_WORDS = ", format->grid_words(), "u;\nconst ", name,
          "_PARTS = ", format_info(device_format).block_elements / 16, "u;\n");
  text += fill(rows == Rows::anywhere ? kBeginAnywhere : kBeginAtBegin, {{"w", name}});
  uint64_t at = 0;
  for (const WeightPiece& piece : format->pieces) {
    if (piece.name == nullptr) continue;
    text += cat("const ", name, "_", piece.name, " = ", at, "u;\n");
    at += words_of(row_blocks(device_format, columns) * piece.bytes);
  }
  text += fill(kWords, {{"w", name}, {"binding", binding.empty() ? name : std::string(binding)}});
  text += fill(kReads, {{"w", name}});
  text += tables(*format, name);
  for (const char* snippet : format->snippets)
    if (snippet != nullptr) text += fill(snippet, {{"w", name}});
  return text;
}

UnitShape unit_shape(Format device_format) { return weight_format(device_format)->unit_shape; }

std::string unit_snippet(Format device_format, const std::string& name) {
  const WeightFormat& format = *weight_format(device_format);
  std::string text = cat("const ", name, "_UNIT = ", format.unit_shape.parts, "u;\nconst ", name,
                         "_UNIT_STEP = ", format.unit_shape.step, "u;\nconst ", name, "_UNITS = ((", name,
                         "_COLUMNS + 15u) / 16u + ", name, "_UNIT - 1u) / ", name, "_UNIT;\n");
  if (format.unit[0] == nullptr) text += fill(kUnitOfPart, {{"w", name}});
  for (const char* snippet : format.unit)
    if (snippet != nullptr) text += fill(snippet, {{"w", name}});
  return text;
}

std::string integer_snippet(Format device_format, const std::string& name) {
  std::string text;
  if (const char* const integers = weight_format(device_format)->integers) text += fill(integers, {{"w", name}});
  return text;
}

const char* const kProduct8 = R"(
fn product_8(x: mat2x4f, w: mat2x4f, before: f32) -> f32 {
  let a = x[0];
  let b = w[0];
  let c = x[1];
  let d = w[1];
  let sum = fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, before))));
  return fma(c.w, d.w, fma(c.z, d.z, fma(c.y, d.y, fma(c.x, d.x, sum))));
}
)";

std::string eight_snippet(Format device_format, const std::string& name) {
  const char* const eight = weight_format(device_format)->eight;
  return eight == nullptr ? "" : fill(eight, {{"w", name}});
}

}  // namespace sluice::webgpu
