// q2_k to q6_k: 256 elements a block, with integer scales for each 16 or 32.
#include <cstring>

#include "device/webgpu/formats/weight_format.h"
#include "format/q2_k.h"
#include "format/q3_k.h"
#include "format/q4_k.h"
#include "format/q5_k.h"
#include "format/q6_k.h"

namespace sluice::webgpu {
namespace {

// Integers of 2 bits: element 128 n + 32 r + l in bits 2 r, 2 r + 1 of byte 32 n + l.
constexpr const char* kPairs = R"(
fn ${w}_pairs(begin: u32, part: u32, quad: u32) -> u32 {
  let word = ${w}_word(begin + ${w}_PAIRS + part / 8u * 8u + part % 2u * 4u + quad);
  return (word >> (part % 8u / 2u * 2u)) & 0x03030303u;
}
)";
// Numbers of 4 bits: element 64 k + l is the low half of byte 32 k + l, element 64 k + 32 + l the high half.
constexpr const char* kNibbles = R"(
fn ${w}_nibbles(begin: u32, part: u32, quad: u32) -> u32 {
  let word = ${w}_word(begin + ${w}_Q + part / 4u * 8u + part % 2u * 4u + quad);
  return (word >> (part % 4u / 2u * 4u)) & 0x0f0f0f0fu;
}
)";
// Numbers of 1 bit: element 32 s + l is bit s of byte l.
constexpr const char* kHighBits = R"(
fn ${w}_high_bits(begin: u32, part: u32, quad: u32) -> u32 {
  let word = ${w}_word(begin + ${w}_HIGH + part / 16u * 8u + part % 2u * 4u + quad);
  return (word >> (part % 16u / 2u)) & 0x01010101u;
}
)";
// Scales and minima, a byte each: of elements 64 k to 64 k + 31 in the low half of word k, of the 32 behind them in its
// high half, the scale first.
constexpr const char* kByteScales = R"(
fn ${w}_scale(begin: u32, part: u32) -> vec2f {
  let pair = (${w}_word(begin + ${w}_SCALES + part / 4u) >> (part % 4u / 2u * 16u));
  let d = unpack2x16float(${w}_word(begin + ${w}_D + part / 16u));
  return vec2f(d.x * f32(pair & 0xffu), -(d.y * f32((pair >> 8u) & 0xffu)));
}
)";
constexpr const char* kScaledSums = R"(
fn ${w}_scaled(sums: vec2f, scales: u32, word: u32, x: Columns) -> f32 {
  let scale = vec4f(unpack4xU8(scales));
  let d = unpack2x16float(word);
  let minima = d.y * fma(scale.y, x.sums.x, scale.w * x.sums.y);
  return fma(d.x, fma(scale.x, sums.x, scale.z * sums.y), -minima);
}
)";
template <class Block>
void bytes_of_scales(const std::byte* from, std::byte* to) {
  Block block;
  std::memcpy(&block, from, sizeof block);
  for (uint32_t s = 0; s < 8; ++s) {
    const KScale pair = k_scale(block.scales, s);
    to[2 * s] = std::byte{pair.scale};
    to[2 * s + 1] = std::byte{pair.minimum};
  }
}

constexpr const char* kQ2_K = R"(
fn ${w}_scale(begin: u32, part: u32) -> vec2f {
  let d = unpack2x16float(${w}_word(begin + ${w}_D + part / 16u));
  let pair = ${w}_u8(begin + ${w}_SCALES, part);
  return vec2f(d.x * f32(pair & 15u), -(d.y * f32(pair >> 4u)));
}
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f { return vec4f(unpack4xU8(${w}_pairs(begin, part, quad))); }
)";
constexpr const char* kQ3_K = R"(
fn ${w}_scale(begin: u32, part: u32) -> f32 {
  let block = part / 16u;
  let p = part % 16u;
  let low = (${w}_u8(begin + ${w}_SCALES, block * 12u + p % 8u) >> (p / 8u * 4u)) & 15u;
  let high = (${w}_u8(begin + ${w}_SCALES, block * 12u + 8u + p % 4u) >> (p / 4u * 2u)) & 3u;
  return ${w}_f16(begin + ${w}_D, block) * (f32(low | (high << 4u)) - 32.0);
}
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  return vec4f(unpack4xU8(${w}_pairs(begin, part, quad) | (${w}_high_bits(begin, part, quad) << 2u))) - 4.0;
}
)";
constexpr const char* kQ4_K = R"(
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f { return vec4f(unpack4xU8(${w}_nibbles(begin, part, quad))); }
)";
constexpr const char* kQ5_K = R"(
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  return vec4f(unpack4xU8(${w}_nibbles(begin, part, quad) | (${w}_high_bits(begin, part, quad) << 4u)));
}
)";
// 16 bytes of nibbles: the low halves are a part, the high ones the part two behind it.
constexpr const char* kQ4_KUnit = R"(
struct ${w}_Unit { q: vec4u, scales: u32, d: u32 }
fn ${w}_unit(row: u32, unit: u32) -> ${w}_Unit {
  let begin = ${w}_FIRST_ROW + row * ${w}_ROW_WORDS;
  return ${w}_Unit(${w}_four(begin + ${w}_Q + unit * 4u), ${w}_word(begin + ${w}_SCALES + unit / 2u),
                ${w}_word(begin + ${w}_D + unit / 8u));
}
fn ${w}_dot(own: ${w}_Unit, unit: u32, x: Columns) -> f32 {
  let low = own.q & vec4u(0x0f0f0f0fu);
  let high = (own.q >> vec4u(4u)) & vec4u(0x0f0f0f0fu);
  return ${w}_scaled(vec2f(dot_u8(low, x.a), dot_u8(high, x.b)), own.scales, own.d, x);
}
)";
constexpr const char* kQ5_KUnit = R"(
struct ${w}_Unit { q: vec4u, high: vec4u, scales: u32, d: u32 }
fn ${w}_unit(row: u32, unit: u32) -> ${w}_Unit {
  let begin = ${w}_FIRST_ROW + row * ${w}_ROW_WORDS;
  return ${w}_Unit(${w}_four(begin + ${w}_Q + unit * 4u), ${w}_four(begin + ${w}_HIGH + unit / 8u * 8u + unit % 2u * 4u),
                ${w}_word(begin + ${w}_SCALES + unit / 2u), ${w}_word(begin + ${w}_D + unit / 8u));
}
fn ${w}_dot(own: ${w}_Unit, unit: u32, x: Columns) -> f32 {
  let bits = own.high >> vec4u(unit % 8u / 2u * 2u);
  let low = (own.q & vec4u(0x0f0f0f0fu)) | ((bits & vec4u(0x01010101u)) << vec4u(4u));
  let high = ((own.q >> vec4u(4u)) & vec4u(0x0f0f0f0fu)) | ((bits & vec4u(0x02020202u)) << vec4u(3u));
  return ${w}_scaled(vec2f(dot_u8(low, x.a), dot_u8(high, x.b)), own.scales, own.d, x);
}
)";
// The low bits of element 128 n + 32 r + l: half r / 2 of byte 64 n + 32 (r % 2) + l.
constexpr const char* kQ6_K = R"(
fn ${w}_scale(begin: u32, part: u32) -> f32 {
  let unit = part / 8u * 4u + part % 4u;
  let scales = unpack4xI8(${w}_word(begin + ${w}_SCALES + unit / 2u));
  return ${w}_f16(begin + ${w}_D, part / 16u) * f32(scales[unit % 2u * 2u + part % 8u / 4u]);
}
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let word = ${w}_word(begin + ${w}_LOW + part / 8u * 16u + part % 4u * 4u + quad);
  let low = (word >> (part % 8u / 4u * 4u)) & 0x0f0f0f0fu;
  return vec4f(unpack4xU8(low | (${w}_pairs(begin, part, quad) << 4u))) - 32.0;
}
)";

// 16 bytes of low bits: the low halves are a part, the high ones the part four behind it. Scales lie as units do.
constexpr const char* kQ6_KUnit = R"(
struct ${w}_Unit { low: vec4u, pairs: vec4u, scales: u32, d: u32 }
fn ${w}_unit(row: u32, unit: u32) -> ${w}_Unit {
  let begin = ${w}_FIRST_ROW + row * ${w}_ROW_WORDS;
  return ${w}_Unit(${w}_four(begin + ${w}_LOW + unit * 4u), ${w}_four(begin + ${w}_PAIRS + unit / 4u * 8u + unit % 2u * 4u),
                ${w}_word(begin + ${w}_SCALES + unit / 2u), ${w}_word(begin + ${w}_D + unit / 16u));
}
fn ${w}_dot(own: ${w}_Unit, unit: u32, x: Columns) -> f32 {
  let pairs = own.pairs >> vec4u(unit % 4u / 2u * 2u);
  let low = (own.low & vec4u(0x0f0f0f0fu)) | ((pairs & vec4u(0x03030303u)) << vec4u(4u));
  let high = ((own.low >> vec4u(4u)) & vec4u(0x0f0f0f0fu)) | (pairs & vec4u(0x30303030u));
  let scale = vec4f(unpack4xI8(own.scales >> (unit % 2u * 16u)));
  let d = unpack2x16float(own.d)[unit / 8u % 2u];
  return d * fma(scale.x, dot_moved(low, 32.0, x.a), scale.y * dot_moved(high, 32.0, x.b));
}
)";
void scales_of_units(const std::byte* from, std::byte* to) {
  const std::byte* scales = from + offsetof(Q6_K::Block, scales);
  for (uint32_t part = 0; part < 16; ++part) {
    const uint32_t unit = part / 8 * 4 + part % 4;
    to[unit * 2 + part % 8 / 4] = scales[part];
  }
}

constexpr const char* kQ4_KIntegers = R"(
const ${w}_OFFSETS = true;
fn ${w}_integers(row: u32, part: u32) -> Integers {
  let begin = ${w}_FIRST_ROW + row * ${w}_ROW_WORDS;
  let words = ${w}_four(begin + ${w}_Q + part / 4u * 8u + part % 2u * 4u);
  let scale = ${w}_scale(begin, part);
  return Integers((words >> vec4u(part % 4u / 2u * 4u)) & vec4u(0x0f0f0f0fu), scale.x, scale.y);
}
)";
constexpr const char* kQ5_KIntegers = R"(
const ${w}_OFFSETS = true;
fn ${w}_integers(row: u32, part: u32) -> Integers {
  let begin = ${w}_FIRST_ROW + row * ${w}_ROW_WORDS;
  let words = ${w}_four(begin + ${w}_Q + part / 4u * 8u + part % 2u * 4u);
  let high = ${w}_four(begin + ${w}_HIGH + part / 16u * 8u + part % 2u * 4u);
  let scale = ${w}_scale(begin, part);
  return Integers(((words >> vec4u(part % 4u / 2u * 4u)) & vec4u(0x0f0f0f0fu)) |
                  (((high >> vec4u(part % 16u / 2u)) & vec4u(0x01010101u)) << vec4u(4u)), scale.x, scale.y);
}
)";
constexpr const char* kQ6_KIntegers = R"(
const ${w}_OFFSETS = false;
fn ${w}_integers(row: u32, part: u32) -> Integers {
  let begin = ${w}_FIRST_ROW + row * ${w}_ROW_WORDS;
  let low = ${w}_four(begin + ${w}_LOW + part / 8u * 16u + part % 4u * 4u) >> vec4u(part % 8u / 4u * 4u);
  let pairs = ${w}_four(begin + ${w}_PAIRS + part / 8u * 8u + part % 2u * 4u) >> vec4u(part % 8u / 2u * 2u);
  let q = (low & vec4u(0x0f0f0f0fu)) | ((pairs & vec4u(0x03030303u)) << vec4u(4u));
  return Integers(bytes_less(q, 0x20202020u), ${w}_scale(begin, part), 0.0);
}
)";

const WeightFormat kFormats[] = {
    {.format = Format::q2_k,
     .pieces = {{{"PAIRS", offsetof(Q2_K::Block, q), 64},
                 {"SCALES", offsetof(Q2_K::Block, scales), 16},
                 {"D", offsetof(Q2_K::Block, d), 4}}},
     .snippets = {kPairs, kQ2_K, kScaledAndMoved}},
    {.format = Format::q3_k,
     .pieces = {{{"PAIRS", offsetof(Q3_K::Block, q), 64},
                 {"HIGH", offsetof(Q3_K::Block, high), 32},
                 {"SCALES", offsetof(Q3_K::Block, scales), 12},
                 {"D", offsetof(Q3_K::Block, d), 2}}},
     .snippets = {kPairs, kHighBits, kQ3_K, kScaled}},
    {.format = Format::q4_k,
     .pieces = {{{"Q", offsetof(Q4_K::Block, q), 128},
                 {"SCALES", 0, 16, bytes_of_scales<Q4_K::Block>},
                 {"D", offsetof(Q4_K::Block, d), 4}}},
     .snippets = {kNibbles, kByteScales, kQ4_K, kScaledAndMoved},
     .unit = {kScaledSums, kQ4_KUnit},
     .unit_shape = {.parts = 2, .step = 2},
     .integers = kQ4_KIntegers},
    {.format = Format::q5_k,
     .pieces = {{{"Q", offsetof(Q5_K::Block, q), 128},
                 {"HIGH", offsetof(Q5_K::Block, high), 32},
                 {"SCALES", 0, 16, bytes_of_scales<Q5_K::Block>},
                 {"D", offsetof(Q5_K::Block, d), 4}}},
     .snippets = {kNibbles, kHighBits, kByteScales, kQ5_K, kScaledAndMoved},
     .unit = {kScaledSums, kQ5_KUnit},
     .unit_shape = {.parts = 2, .step = 2},
     .integers = kQ5_KIntegers},
    {.format = Format::q6_k,
     .pieces = {{{"LOW", offsetof(Q6_K::Block, low), 128},
                 {"PAIRS", offsetof(Q6_K::Block, high), 64},
                 {"SCALES", 0, 16, scales_of_units},
                 {"D", offsetof(Q6_K::Block, d), 2}}},
     .snippets = {kPairs, kQ6_K, kScaled},
     .unit = {kQ6_KUnit},
     .unit_shape = {.parts = 2, .step = 4},
     .integers = kQ6_KIntegers},
};

}  // namespace

std::span<const WeightFormat> k_formats() { return kFormats; }

}  // namespace sluice::webgpu
