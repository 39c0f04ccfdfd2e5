// Formats of stored elements. Block sizes, names and decoding in all of Sluice derive from this table.
//
// A trait describes one format, in its own header or in that of its relatives (q8_0.h, iq2.h). A trait has constants,
// Block as files store it, and load16(block, part, to), which decodes elements [16 part, 16 part + 16). A format with
// one element a block has decode(block, to) instead. Formats that Sluice writes have encode(from). A format without a
// trait has a name and a size only, so that a file with it can be listed and refused by name.
//
// Rows are not padded: row i begins at i * row_bytes(format, columns).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/checked.h"

namespace sluice {

// clang-format off
enum class Format : uint8_t {
  f32, f16, bf16, q8_0,                                                        // weights
  f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean,                          // plain data
  f8_e4m3, f8_e5m2, f8_e8m0, f6_e2m3, f6_e3m2, f4,                             // safetensors only
  u2, u3, u4, u5, u6,                                                          // MLX, packed in words of u32
  q4_0, q4_1, q5_0, q5_1, q8_1, q2_k, q3_k, q4_k, q5_k, q6_k, q8_k,            // GGUF only, like all below
  iq2_xxs, iq2_xs, iq3_xxs, iq1_s, iq4_nl, iq3_s, iq2_s, iq4_xs, iq1_m,
  tq1_0, tq2_0, mxfp4, nvfp4, q1_0, q2_0,
};
// clang-format on
inline constexpr int kFormats = static_cast<int>(Format::q2_0) + 1;

struct FormatInfo {
  Format format{};
  const char* name = "";                   // "q8_0": in options, listings and errors
  uint32_t block_elements = 1;             // consecutive elements of a row stored together
  uint32_t block_bytes = 1;                // of a stored block
  int ggml_type = -1;                      // id in GGUF; -1: none
  const char* safetensors_name = nullptr;  // dtype in safetensors; null: none
  bool decodable = false;                  // models may store weights in this format
  float largest = 0;                       // the largest magnitude that encode_row can store; 0: no encoder
  // `count` elements must be a whole number of blocks; stored blocks may lie at any address. Null: not possible.
  void (*decode)(const std::byte* from, float* to, size_t count) = nullptr;
  void (*encode)(const float* from, std::byte* to, size_t count) = nullptr;
};

const FormatInfo& format_info(Format format);
inline const char* format_name(Format format) { return format_info(format).name; }
std::span<const FormatInfo> all_formats();

std::optional<Format> format_by_name(std::string_view name);
std::optional<Format> format_by_ggml_type(int64_t id);
std::optional<Format> format_by_safetensors_name(std::string_view name);

// Bytes of a row of `columns` elements, which must be a whole number of blocks.
uint64_t row_bytes(Format format, uint64_t columns);
// Bytes of a tensor whose shape was read from a file, innermost dimension last. None when a dimension is negative, when
// a row is not a whole number of blocks, or when the size does not fit into 63 bits. A tensor without dimensions has
// one element.
std::optional<uint64_t> tensor_bytes(Format format, std::span<const int64_t> shape);

// `format` must have a decoder, and `count` must be a whole number of blocks. Stored bytes may lie at any address.
void decode_row(Format format, const std::byte* from, float* to, size_t count);
// `format` must have an encoder. Float formats round to nearest, ties to even; the other formats round as their headers
// say. Elements beyond `largest` become infinite, and a NaN makes its block meaningless, so a caller that writes files
// must check its input first.
void encode_row(Format format, const float* from, std::byte* to, size_t count);

}  // namespace sluice
