#include "format/format.h"

#include <array>
#include <cstring>

#include "base/check.h"
#include "format/bf16.h"
#include "format/f16.h"
#include "format/f32.h"
#include "format/f8.h"
#include "format/few_bits.h"
#include "format/fp4.h"
#include "format/i8.h"
#include "format/iq1.h"
#include "format/iq2.h"
#include "format/iq3.h"
#include "format/iq4.h"
#include "format/q2_k.h"
#include "format/q3_k.h"
#include "format/q4_0.h"
#include "format/q4_1.h"
#include "format/q4_k.h"
#include "format/q5_0.h"
#include "format/q5_1.h"
#include "format/q5_k.h"
#include "format/q6_k.h"
#include "format/q8_0.h"
#include "format/unsigned_bits.h"

namespace sluice {

namespace {

// Each block is copied out of the row or into it, because a row in a mapped file may lie at any address.
template <class Trait>
void decode_blocks(const std::byte* from, float* to, size_t count) {
  for (size_t i = 0; i < count; i += Trait::kBlockElements) {
    typename Trait::Block block;
    std::memcpy(&block, from, sizeof block);
    if constexpr (requires { &Trait::decode; })
      Trait::decode(block, to + i);
    else
      for (uint32_t part = 0; part < Trait::kBlockElements / 16; ++part) Trait::load16(block, part, to + i + 16 * part);
    from += sizeof block;
  }
}

template <class Trait>
void encode_blocks(const float* from, std::byte* to, size_t count) {
  for (size_t i = 0; i < count; i += Trait::kBlockElements) {
    const typename Trait::Block block = Trait::encode(from + i);
    std::memcpy(to, &block, sizeof block);
    to += sizeof block;
  }
}

// A format with a decoder. Its elements alone are not weights yet: files keep their scales in other tensors.
template <class Trait>
constexpr FormatInfo readable() {
  FormatInfo info{
      .format = Trait::kFormat,
      .name = Trait::kName,
      .block_elements = Trait::kBlockElements,
      .block_bytes = sizeof(typename Trait::Block),
      .ggml_type = Trait::kGgmlType,
      .decode = decode_blocks<Trait>,
  };
  if constexpr (requires { Trait::kSafetensorsName; }) info.safetensors_name = Trait::kSafetensorsName;
  if constexpr (requires { Trait::encode; }) {
    info.largest = Trait::kLargest;
    info.encode = encode_blocks<Trait>;
  }
  return info;
}

// A format in which a model may store weights.
template <class Trait>
constexpr FormatInfo computed() {
  FormatInfo info = readable<Trait>();
  info.decodable = true;
  return info;
}

constexpr FormatInfo data(Format format, const char* name, uint32_t bytes, int ggml, const char* safetensors) {
  return {.format = format, .name = name, .block_bytes = bytes, .ggml_type = ggml, .safetensors_name = safetensors};
}

constexpr FormatInfo packed(Format format, const char* name, uint32_t elements, uint32_t bytes, const char* dtype) {
  return {.format = format, .name = name, .block_elements = elements, .block_bytes = bytes, .safetensors_name = dtype};
}

constexpr FormatInfo ggml(Format format, const char* name, uint32_t elements, uint32_t bytes, int type) {
  return {.format = format, .name = name, .block_elements = elements, .block_bytes = bytes, .ggml_type = type};
}

// In the order of the enumeration. The sizes of ggml types are from ggml-common.h, those of the other types from the
// page of the safetensors format.
constexpr std::array<FormatInfo, kFormats> kTable = {
    computed<F32>(),
    computed<F16>(),
    computed<Bf16>(),
    computed<Q8_0>(),
    data(Format::f64, "f64", 8, 28, "F64"),
    readable<I8>(),
    data(Format::i16, "i16", 2, 25, "I16"),
    data(Format::i32, "i32", 4, 26, "I32"),
    data(Format::i64, "i64", 8, 27, "I64"),
    readable<U8>(),
    data(Format::u16, "u16", 2, -1, "U16"),
    data(Format::u32, "u32", 4, -1, "U32"),
    data(Format::u64, "u64", 8, -1, "U64"),
    data(Format::boolean, "bool", 1, -1, "BOOL"),
    readable<F8_E4M3>(),
    readable<F8_E5M2>(),
    readable<F8_E8M0>(),
    packed(Format::f6_e2m3, "f6_e2m3", 4, 3, "F6_E2M3"),
    packed(Format::f6_e3m2, "f6_e3m2", 4, 3, "F6_E3M2"),
    readable<F4>(),
    readable<U2>(),
    readable<U3>(),
    readable<U4>(),
    readable<U5>(),
    readable<U6>(),
    computed<Q4_0>(),
    computed<Q4_1>(),
    computed<Q5_0>(),
    computed<Q5_1>(),
    ggml(Format::q8_1, "q8_1", 32, 36, 9),
    computed<Q2_K>(),
    computed<Q3_K>(),
    computed<Q4_K>(),
    computed<Q5_K>(),
    computed<Q6_K>(),
    ggml(Format::q8_k, "q8_k", 256, 292, 15),
    computed<IQ2_XXS>(),
    computed<IQ2_XS>(),
    computed<IQ3_XXS>(),
    computed<IQ1_S>(),
    computed<IQ4_NL>(),
    computed<IQ3_S>(),
    computed<IQ2_S>(),
    computed<IQ4_XS>(),
    computed<IQ1_M>(),
    computed<TQ1_0>(),
    computed<TQ2_0>(),
    computed<MXFP4>(),
    computed<NVFP4>(),
    computed<Q1_0>(),
    computed<Q2_0>(),
};

constexpr bool in_order() {
  for (size_t i = 0; i < kTable.size(); ++i)
    if (static_cast<size_t>(kTable[i].format) != i) return false;
  return true;
}
static_assert(in_order());

template <class Condition>
std::optional<Format> find_format(Condition&& condition) {
  for (const FormatInfo& info : kTable)
    if (condition(info)) return info.format;
  return std::nullopt;
}

}  // namespace

const FormatInfo& format_info(Format format) { return kTable[static_cast<size_t>(format)]; }

std::span<const FormatInfo> all_formats() { return kTable; }

std::optional<Format> format_by_name(std::string_view name) {
  return find_format([&](const FormatInfo& info) { return info.name == name; });
}

std::optional<Format> format_by_ggml_type(int64_t id) {
  return find_format([&](const FormatInfo& info) { return id >= 0 && info.ggml_type == id; });
}

std::optional<Format> format_by_safetensors_name(std::string_view name) {
  return find_format(
      [&](const FormatInfo& info) { return info.safetensors_name != nullptr && info.safetensors_name == name; });
}

uint64_t row_bytes(Format format, uint64_t columns) {
  const FormatInfo& info = format_info(format);
  CHECK(columns % info.block_elements == 0);
  return columns / info.block_elements * info.block_bytes;
}

std::optional<uint64_t> tensor_bytes(Format format, std::span<const int64_t> shape) {
  const FormatInfo& info = format_info(format);
  CheckedSize elements = 1;
  for (const int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    elements *= static_cast<uint64_t>(dimension);
  }
  const uint64_t columns = shape.empty() ? 1 : static_cast<uint64_t>(shape.back());
  if (columns % info.block_elements != 0 || !elements.fits(INT64_MAX)) return std::nullopt;
  const CheckedSize bytes = CheckedSize(*elements.value() / info.block_elements) * info.block_bytes;
  return bytes.fits(INT64_MAX) ? bytes.value() : std::nullopt;
}

void decode_row(Format format, const std::byte* from, float* to, size_t count) {
  const FormatInfo& info = format_info(format);
  CHECK(info.decode != nullptr && count % info.block_elements == 0);
  info.decode(from, to, count);
}

void encode_row(Format format, const float* from, std::byte* to, size_t count) {
  const FormatInfo& info = format_info(format);
  CHECK(info.encode != nullptr && count % info.block_elements == 0);
  info.encode(from, to, count);
}

}  // namespace sluice
