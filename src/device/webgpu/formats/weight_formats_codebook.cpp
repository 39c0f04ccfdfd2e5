// iq1_s to iq3_s: 256 elements a block, as entries of a code-book (format/iq_grids.h) with scales and signs.
#include "device/webgpu/formats/weight_format.h"
#include "format/iq1.h"
#include "format/iq2.h"
#include "format/iq3.h"

namespace sluice::webgpu {
namespace {

// Four of the eight elements of an entry of 2-bit digits, and the four of one of 3-bit digits.
constexpr const char* kDigits2 = R"(
fn ${w}_of_entry(entry: u32, quad: u32) -> vec4f {
  return ${w}_look_up((vec4u(${w}_entry(entry) >> (quad % 2u * 8u)) >> vec4u(0u, 2u, 4u, 6u)) & vec4u(3u));
}
)";
constexpr const char* kDigits3 = R"(
fn ${w}_of_entry(entry: u32, quad: u32) -> vec4f {
  return ${w}_look_up((vec4u(${w}_entry(entry)) >> vec4u(0u, 3u, 6u, 9u)) & vec4u(7u));
}
)";
// The signs of four elements: -1 if the element's bit is set, else 1. With seven stored bits, the eighth makes the
// number of set bits even.
constexpr const char* kSigns = R"(
fn ${w}_signs(bits: u32, quad: u32) -> vec4f {
  return 1.0 - 2.0 * vec4f((vec4u(bits >> (quad % 2u * 4u)) >> vec4u(0u, 1u, 2u, 3u)) & vec4u(1u));
}
fn ${w}_even_signs(seven: u32, quad: u32) -> vec4f { return ${w}_signs(seven | ((countOneBits(seven) & 1u) << 7u), quad); }
)";

constexpr const char* kIq1_S = R"(
fn ${w}_scale(begin: u32, part: u32) -> f32 {
  let high = ${w}_u16(begin + ${w}_HIGH, part / 2u);
  return ${w}_f16(begin + ${w}_D, part / 16u) * f32(2u * ((high >> 12u) & 7u) + 1u);
}
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let high = ${w}_u16(begin + ${w}_HIGH, part / 2u);
  let g = 2u * part + quad / 2u;
  let entry = ${w}_u8(begin + ${w}_ENTRY, g) | (((high >> (g % 4u * 3u)) & 7u) << 8u);
  return ${w}_of_entry(entry, quad) + select(0.125, -0.125, (high & 0x8000u) != 0u);
}
)";
// The top halves of the scales' four words of 16 bits are d.
constexpr const char* kIq1_M = R"(
fn ${w}_scale(begin: u32, part: u32) -> f32 {
  let block = part / 16u;
  let p = part % 16u;
  let low = ${w}_word(begin + ${w}_SCALES + block * 2u);
  let high = ${w}_word(begin + ${w}_SCALES + block * 2u + 1u);
  let d = ((low >> 12u) & 0xfu) | ((low >> 24u) & 0xf0u) | ((high >> 4u) & 0xf00u) | ((high >> 16u) & 0xf000u);
  let scale = (${w}_u16(begin + ${w}_SCALES, block * 4u + p / 4u) >> (p % 4u * 3u)) & 7u;
  return unpack2x16float(d).x * f32(2u * scale + 1u);
}
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let high = ${w}_u8(begin + ${w}_HIGH, part) >> (quad / 2u * 4u);
  let entry = ${w}_u8(begin + ${w}_ENTRY, 2u * part + quad / 2u) | ((high & 7u) << 8u);
  return ${w}_of_entry(entry, quad) + select(0.125, -0.125, (high & 8u) != 0u);
}
)";

constexpr const char* kIq2_Xxs = R"(
fn ${w}_scale(begin: u32, part: u32) -> f32 {
  let bits = ${w}_word(begin + ${w}_PARTS32 + part / 2u * 2u + 1u);
  return ${w}_f16(begin + ${w}_D, part / 16u) * (0.5 + f32(bits >> 28u)) * 0.25;
}
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let at = begin + ${w}_PARTS32 + part / 2u * 2u;
  let g = part % 2u * 2u + quad / 2u;
  return ${w}_of_entry((${w}_word(at) >> (8u * g)) & 0xffu, quad) * ${w}_even_signs((${w}_word(at + 1u) >> (7u * g)) & 127u, quad);
}
)";
constexpr const char* kIq2Scales = R"(
fn ${w}_scale(begin: u32, part: u32) -> f32 {
  let scale = (${w}_u8(begin + ${w}_SCALES, part / 2u) >> (part % 2u * 4u)) & 15u;
  return ${w}_f16(begin + ${w}_D, part / 16u) * (0.5 + f32(scale)) * 0.25;
}
)";
constexpr const char* kIq2_Xs = R"(
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let entry = ${w}_u16(begin + ${w}_ENTRY, 2u * part + quad / 2u);
  return ${w}_of_entry(entry & 511u, quad) * ${w}_even_signs(entry >> 9u, quad);
}
)";
constexpr const char* kIq2_S = R"(
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let g = 2u * part + quad / 2u;
  let high = (${w}_u8(begin + ${w}_HIGH, g / 4u) >> (g % 4u * 2u)) & 3u;
  let entry = ${w}_u8(begin + ${w}_ENTRY, g) | (high << 8u);
  return ${w}_of_entry(entry, quad) * ${w}_signs(${w}_u8(begin + ${w}_SIGNS, g), quad);
}
)";

constexpr const char* kIq3_Xxs = R"(
fn ${w}_scale(begin: u32, part: u32) -> f32 {
  return ${w}_f16(begin + ${w}_D, part / 16u) * (0.5 + f32(${w}_word(begin + ${w}_BITS + part / 2u) >> 28u)) * 0.5;
}
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let seven = (${w}_word(begin + ${w}_BITS + part / 2u) >> (7u * (part % 2u * 2u + quad / 2u))) & 127u;
  return ${w}_of_entry(${w}_u8(begin + ${w}_ENTRY, 4u * part + quad), quad) * ${w}_even_signs(seven, quad);
}
)";
constexpr const char* kIq3_S = R"(
fn ${w}_scale(begin: u32, part: u32) -> f32 {
  let scale = (${w}_u8(begin + ${w}_SCALES, part / 4u) >> (part / 2u % 2u * 4u)) & 15u;
  return ${w}_f16(begin + ${w}_D, part / 16u) * f32(2u * scale + 1u);
}
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let e = 4u * part + quad;
  let high = (${w}_u8(begin + ${w}_HIGH, e / 8u) >> (e % 8u)) & 1u;
  let entry = ${w}_u8(begin + ${w}_ENTRY, e) | (high << 8u);
  return ${w}_of_entry(entry, quad) * ${w}_signs(${w}_u8(begin + ${w}_SIGNS, e / 2u), quad);
}
)";

// An element whose digit is `i`.
float iq1_of(uint32_t i) { return iq1_number(static_cast<uint16_t>(i), 0); }
float iq2_of(uint32_t i) { return iq2_magnitude(static_cast<uint16_t>(i), 0); }
float iq3xxs_of(uint32_t i) { return iq3xxs_magnitude(static_cast<uint16_t>(i), 0); }
float iq3s_of(uint32_t i) { return iq3s_magnitude(static_cast<uint16_t>(i), 0); }

const WeightFormat kFormats[] = {
    {.format = Format::iq1_s,
     .pieces = {{{"ENTRY", offsetof(IQ1_S::Block, entry), 32},
                 {"HIGH", offsetof(IQ1_S::Block, high), 16},
                 {"D", offsetof(IQ1_S::Block, d), 2}}},
     .snippets = {kDigits2, kIq1_S, kScaled},
     .number = iq1_of,
     .numbers = 4,
     .grid = kIq1Grid},
    {.format = Format::iq1_m,
     .pieces = {{{"ENTRY", offsetof(IQ1_M::Block, entry), 32},
                 {"HIGH", offsetof(IQ1_M::Block, high), 16},
                 {"SCALES", offsetof(IQ1_M::Block, scales), 8}}},
     .snippets = {kDigits2, kIq1_M, kScaled},
     .number = iq1_of,
     .numbers = 4,
     .grid = kIq1Grid},
    {.format = Format::iq2_xxs,
     .pieces = {{{"PARTS32", offsetof(IQ2_XXS::Block, parts), 64}, {"D", offsetof(IQ2_XXS::Block, d), 2}}},
     .snippets = {kDigits2, kSigns, kIq2_Xxs, kScaled},
     .number = iq2_of,
     .numbers = 4,
     .grid = kIq2xxsGrid},
    {.format = Format::iq2_xs,
     .pieces = {{{"ENTRY", offsetof(IQ2_XS::Block, entry), 64},
                 {"SCALES", offsetof(IQ2_XS::Block, scales), 8},
                 {"D", offsetof(IQ2_XS::Block, d), 2}}},
     .snippets = {kDigits2, kSigns, kIq2Scales, kIq2_Xs, kScaled},
     .number = iq2_of,
     .numbers = 4,
     .grid = kIq2xsGrid},
    {.format = Format::iq2_s,
     .pieces = {{{"ENTRY", offsetof(IQ2_S::Block, entry), 32},
                 {"SIGNS", offsetof(IQ2_S::Block, signs), 32},
                 {"HIGH", offsetof(IQ2_S::Block, high), 8},
                 {"SCALES", offsetof(IQ2_S::Block, scales), 8},
                 {"D", offsetof(IQ2_S::Block, d), 2}}},
     .snippets = {kDigits2, kSigns, kIq2Scales, kIq2_S, kScaled},
     .number = iq2_of,
     .numbers = 4,
     .grid = kIq2sGrid},
    {.format = Format::iq3_xxs,
     .pieces = {{{"ENTRY", offsetof(IQ3_XXS::Block, entry), 64},
                 {"BITS", offsetof(IQ3_XXS::Block, bits), 32},
                 {"D", offsetof(IQ3_XXS::Block, d), 2}}},
     .snippets = {kDigits3, kSigns, kIq3_Xxs, kScaled},
     .number = iq3xxs_of,
     .numbers = 8,
     .grid = kIq3xxsGrid},
    {.format = Format::iq3_s,
     .pieces = {{{"ENTRY", offsetof(IQ3_S::Block, entry), 64},
                 {"SIGNS", offsetof(IQ3_S::Block, signs), 32},
                 {"HIGH", offsetof(IQ3_S::Block, high), 8},
                 {"SCALES", offsetof(IQ3_S::Block, scales), 4},
                 {"D", offsetof(IQ3_S::Block, d), 2}}},
     .snippets = {kDigits3, kSigns, kIq3_S, kScaled},
     .number = iq3s_of,
     .numbers = 8,
     .grid = kIq3sGrid},
};

}  // namespace

std::span<const WeightFormat> codebook_formats() { return kFormats; }

}  // namespace sluice::webgpu
