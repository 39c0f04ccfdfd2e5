// Formats of stored elements. Block sizes, names and decoding in all of Sluice derive from this table.
//
// A trait describes one format, in a header of its own or of its family (q8_0.h, iq2.h): its constants, Block as it
// lies in files, and load16(block, part, to), which decodes elements [16 part, 16 part + 16). Formats of one element a
// block have decode(block, to) instead. Formats that we write have encode(from). Formats without a trait are known by
// name and size, so any file can be listed and refused by name. Rows are not padded: row i begins at i *
// row_bytes(format, columns).
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
  f32, f16, bf16, q8_0,                                                        // computed with
  f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean,                          // data
  f8_e4m3, f8_e5m2, f8_e8m0, f6_e2m3, f6_e3m2, f4,                             // safetensors only;
  u2, u3, u4, u5, u6,                                                          // MLX's, in words of u32
  q4_0, q4_1, q5_0, q5_1, q8_1, q2_k, q3_k, q4_k, q5_k, q6_k, q8_k,            // GGUF only from here
  iq2_xxs, iq2_xs, iq3_xxs, iq1_s, iq4_nl, iq3_s, iq2_s, iq4_xs, iq1_m,
  tq1_0, tq2_0, mxfp4, nvfp4, q1_0, q2_0,
};
// clang-format on
inline constexpr int kFormats = static_cast<int>(Format::q2_0) + 1;

struct FormatInfo {
  Format format{};
  const char* name = "";                   // "q8_0": in options, listings and errors
  uint32_t block_elements = 1;             // consecutive elements of a row stored together
  uint32_t block_bytes = 1;                //
  int ggml_type = -1;                      // id in GGUF; -1: none
  const char* safetensors_name = nullptr;  // dtype in safetensors; null: none
  bool decodable = false;                  // models may store weights in this format
  float largest = 0;                       // encode_row gives finite blocks up to this magnitude
  // `count` elements, a whole number of blocks; the stored side may lie at any address. Null: not possible.
  void (*decode)(const std::byte* from, float* to, size_t count) = nullptr;
  void (*encode)(const float* from, std::byte* to, size_t count) = nullptr;
};

const FormatInfo& format_info(Format format);
inline const char* format_name(Format format) { return format_info(format).name; }
std::span<const FormatInfo> all_formats();

std::optional<Format> format_by_name(std::string_view name);
std::optional<Format> format_by_ggml_type(int64_t id);
std::optional<Format> format_by_safetensors_name(std::string_view name);

// Bytes of a row of `columns` elements, a whole number of blocks.
uint64_t row_bytes(Format format, uint64_t columns);
// Bytes of a tensor, innermost dimension last, for shapes read from files. None when a dimension is negative, when a
// row is no whole number of blocks, or when the size leaves 63 bits. A tensor without dimensions has one element.
std::optional<uint64_t> tensor_bytes(Format format, std::span<const int64_t> shape);

// `format` has a decoder, `count` is a whole number of blocks. Stored bytes may lie at any address.
void decode_row(Format format, const std::byte* from, float* to, size_t count);
// `format` must have an encoder. Floats round to nearest, ties to even; the other formats round as their headers say.
// Elements beyond `largest` become infinite, and NaN makes a block meaningless, so callers who write files check their
// input first.
void encode_row(Format format, const float* from, std::byte* to, size_t count);

}  // namespace sluice
