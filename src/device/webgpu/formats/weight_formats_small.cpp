// q4_0 to q5_1, iq4_nl, iq4_xs, mxfp4, nvfp4 (4 or 5 bits an element, few scales), tq1_0, tq2_0, q1_0, q2_0 (1 or 2).
#include "device/webgpu/formats/weight_format.h"
#include "format/few_bits.h"
#include "format/fp4.h"
#include "format/iq4.h"
#include "format/q4_0.h"
#include "format/q4_1.h"
#include "format/q5_0.h"
#include "format/q5_1.h"

namespace sluice::webgpu {
namespace {

// Numbers of 4 bits in blocks of 32: element j is the low half of byte j, element j + 16 the high half.
constexpr const char* kNibbles = R"(
fn ${w}_nibbles(begin: u32, part: u32, quad: u32) -> vec4u {
  return unpack4xU8((${w}_word(begin + ${w}_Q + part / 2u * 4u + quad) >> (part % 2u * 4u)) & 0x0f0f0f0fu);
}
)";
constexpr const char* kFifthBits = R"(
fn ${w}_five_bits(begin: u32, part: u32, quad: u32) -> vec4u {
  let bits = ${w}_word(begin + ${w}_HIGH + part / 2u) >> (part % 2u * 16u + quad * 4u);
  return ${w}_nibbles(begin, part, quad) | (((vec4u(bits) >> vec4u(0u, 1u, 2u, 3u)) & vec4u(1u)) << vec4u(4u));
}
// Moves bits 0 to 3 of each number to bit 4 of bytes 0 to 3.
fn ${w}_fifth(bits: vec4u) -> vec4u {
  let spread = (bits & vec4u(15u)) * vec4u(0x00204081u);
  return (spread & vec4u(0x01010101u)) << vec4u(4u);
}
)";
constexpr const char* kScalePerBlock = R"(
fn ${w}_scale(begin: u32, part: u32) -> f32 { return ${w}_f16(begin + ${w}_D, part / ${w}_PARTS); }
)";
constexpr const char* kScaleAndMinimum = R"(
fn ${w}_scale(begin: u32, part: u32) -> vec2f { return unpack2x16float(${w}_word(begin + ${w}_D + part / 2u)); }
)";

constexpr const char* kQ4_0 = R"(
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f { return vec4f(${w}_nibbles(begin, part, quad)) - 8.0; }
)";
constexpr const char* kQ4_1 = R"(
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f { return vec4f(${w}_nibbles(begin, part, quad)); }
)";
constexpr const char* kQ5_0 = R"(
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f { return vec4f(${w}_five_bits(begin, part, quad)) - 16.0; }
)";
constexpr const char* kQ5_1 = R"(
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f { return vec4f(${w}_five_bits(begin, part, quad)); }
)";

// Indices into a table.
constexpr const char* kNibbleIndices = R"(
fn ${w}_indices(begin: u32, part: u32, quad: u32) -> vec4u { return ${w}_nibbles(begin, part, quad); }
)";
constexpr const char* kIq4Xs = R"(
fn ${w}_scale(begin: u32, part: u32) -> f32 {
  let block = part / 16u;
  let s = part / 2u % 8u;
  let low = (${w}_u8(begin + ${w}_LOW, part / 4u) >> (s % 2u * 4u)) & 15u;
  let high = (${w}_u16(begin + ${w}_HIGH, block) >> (2u * s)) & 3u;
  return ${w}_f16(begin + ${w}_D, block) * (f32(low | (high << 4u)) - 32.0);
}
)";

// Scales are halved, numbers doubled (fp4.h).
constexpr const char* kMxfp4 = R"(
fn ${w}_scale(begin: u32, part: u32) -> f32 {
  let e = ${w}_u8(begin + ${w}_E, part / 2u);
  return bitcast<f32>(select((e - 1u) << 23u, 0x200000u << e, e < 2u));
}
)";
constexpr const char* kNvfp4 = R"(
fn ${w}_scale(begin: u32, part: u32) -> f32 {
  let d = ${w}_u8(begin + ${w}_D, part);
  if (d == 0x7fu) { return 0.0; }
  let exponent = (d >> 3u) & 15u;
  let mantissa = f32(d & 7u);
  if (exponent == 0u) { return mantissa * 0.0009765625; }
  return (8.0 + mantissa) * bitcast<f32>((exponent + 116u) << 23u);
}
fn ${w}_indices(begin: u32, part: u32, quad: u32) -> vec4u {
  return unpack4xU8((${w}_word(begin + ${w}_Q + part * 2u + quad % 2u) >> (quad / 2u * 4u)) & 0x0f0f0f0fu);
}
)";

// A byte is a fraction of 256: its digits come off the top.
constexpr const char* kTq1_0 = R"(
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let block = part / 16u;
  let p = part % 16u;
  var at = begin + ${w}_Q + block * 12u + p % 2u * 4u + quad;
  var digit = p / 2u;
  if (p >= 10u) {
    at = begin + ${w}_Q + block * 12u + 8u + quad;
    digit = p - 10u;
  }
  if (p == 15u) {
    at = begin + ${w}_LAST + block;
    digit = quad;
  }
  var power = 1u;
  for (var i = 0u; i < digit; i++) { power *= 3u; }
  let fraction = (unpack4xU8(${w}_word(at)) * power) & vec4u(255u);
  return vec4f((fraction * 3u) >> vec4u(8u)) - 1.0;
}
)";
constexpr const char* kTq2_0 = R"(
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let word = ${w}_word(begin + ${w}_Q + part / 8u * 8u + part % 2u * 4u + quad);
  return vec4f(unpack4xU8((word >> (part % 8u / 2u * 2u)) & 0x03030303u)) - 1.0;
}
)";
constexpr const char* kQ1_0 = R"(
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let bits = ${w}_u16(begin + ${w}_Q, part) >> (quad * 4u);
  return vec4f((vec4u(bits) >> vec4u(0u, 1u, 2u, 3u)) & vec4u(1u)) * 2.0 - 1.0;
}
)";
constexpr const char* kQ2_0 = R"(
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let bits = ${w}_word(begin + ${w}_Q + part) >> (quad * 8u);
  return vec4f((vec4u(bits) >> vec4u(0u, 2u, 4u, 6u)) & vec4u(3u)) - 1.0;
}
)";

// A block of 16 bytes of nibbles: the low halves are a part, the high ones the next.
constexpr const char* kQ4_0Unit = R"(
struct ${w}_Unit { q: vec4u, d: u32 }
fn ${w}_unit(row: u32, unit: u32) -> ${w}_Unit {
  let begin = ${w}_FIRST_ROW + row * ${w}_ROW_WORDS;
  return ${w}_Unit(${w}_four(begin + ${w}_Q + unit * 4u), ${w}_word(begin + ${w}_D + unit / 2u));
}
fn ${w}_dot(own: ${w}_Unit, unit: u32, x: Columns) -> f32 {
  let low = own.q & vec4u(0x0f0f0f0fu);
  let high = (own.q >> vec4u(4u)) & vec4u(0x0f0f0f0fu);
  return unpack2x16float(own.d)[unit % 2u] * (dot_moved(low, 8.0, x.a) + dot_moved(high, 8.0, x.b));
}
)";
constexpr const char* kQ5_0Unit = R"(
struct ${w}_Unit { q: vec4u, high: u32, d: u32 }
fn ${w}_unit(row: u32, unit: u32) -> ${w}_Unit {
  let begin = ${w}_FIRST_ROW + row * ${w}_ROW_WORDS;
  return ${w}_Unit(${w}_four(begin + ${w}_Q + unit * 4u), ${w}_word(begin + ${w}_HIGH + unit), ${w}_word(begin + ${w}_D + unit / 2u));
}
fn ${w}_dot(own: ${w}_Unit, unit: u32, x: Columns) -> f32 {
  let bits = vec4u(own.high) >> vec4u(0u, 4u, 8u, 12u);
  let low = (own.q & vec4u(0x0f0f0f0fu)) | ${w}_fifth(bits);
  let high = ((own.q >> vec4u(4u)) & vec4u(0x0f0f0f0fu)) | ${w}_fifth(bits >> vec4u(16u));
  return unpack2x16float(own.d)[unit % 2u] * (dot_moved(low, 16.0, x.a) + dot_moved(high, 16.0, x.b));
}
)";

constexpr const char* kQ4_0Integers = R"(
const ${w}_OFFSETS = false;
fn ${w}_integers(row: u32, part: u32) -> Integers {
  let begin = ${w}_FIRST_ROW + row * ${w}_ROW_WORDS;
  let q = (${w}_four(begin + ${w}_Q + part / 2u * 4u) >> vec4u(part % 2u * 4u)) & vec4u(0x0f0f0f0fu);
  return Integers(bytes_less(q, 0x08080808u), ${w}_scale(begin, part), 0.0);
}
)";
constexpr const char* kQ5_0Integers = R"(
const ${w}_OFFSETS = false;
fn ${w}_integers(row: u32, part: u32) -> Integers {
  let begin = ${w}_FIRST_ROW + row * ${w}_ROW_WORDS;
  let low = (${w}_four(begin + ${w}_Q + part / 2u * 4u) >> vec4u(part % 2u * 4u)) & vec4u(0x0f0f0f0fu);
  let bits = vec4u(${w}_word(begin + ${w}_HIGH + part / 2u) >> (part % 2u * 16u)) >> vec4u(0u, 4u, 8u, 12u);
  return Integers(bytes_less(low | ${w}_fifth(bits), 0x10101010u), ${w}_scale(begin, part), 0.0);
}
)";

float nonlinear_number(uint32_t index) { return IQ4_NL::kNumbers[index]; }

const WeightFormat kFormats[] = {
    {.format = Format::q4_0,
     .pieces = {{{"Q", offsetof(Q4_0::Block, q), 16}, {"D", offsetof(Q4_0::Block, d), 2}}},
     .snippets = {kNibbles, kScalePerBlock, kQ4_0, kScaled},
     .unit = {kQ4_0Unit},
     .unit_shape = {.parts = 2, .step = 1},
     .integers = kQ4_0Integers},
    {.format = Format::q4_1,
     .pieces = {{{"Q", offsetof(Q4_1::Block, q), 16}, {"D", offsetof(Q4_1::Block, d), 4}}},
     .snippets = {kNibbles, kScaleAndMinimum, kQ4_1, kScaledAndMoved}},
    {.format = Format::q5_0,
     .pieces = {{{"Q", offsetof(Q5_0::Block, q), 16},
                 {"HIGH", offsetof(Q5_0::Block, high), 4},
                 {"D", offsetof(Q5_0::Block, d), 2}}},
     .snippets = {kNibbles, kFifthBits, kScalePerBlock, kQ5_0, kScaled},
     .unit = {kQ5_0Unit},
     .unit_shape = {.parts = 2, .step = 1},
     .integers = kQ5_0Integers},
    {.format = Format::q5_1,
     .pieces = {{{"Q", offsetof(Q5_1::Block, q), 16},
                 {"HIGH", offsetof(Q5_1::Block, high), 4},
                 {"D", offsetof(Q5_1::Block, d), 4}}},
     .snippets = {kNibbles, kFifthBits, kScaleAndMinimum, kQ5_1, kScaledAndMoved}},
    {.format = Format::iq4_nl,
     .pieces = {{{"Q", offsetof(IQ4_NL::Block, q), 16}, {"D", offsetof(IQ4_NL::Block, d), 2}}},
     .snippets = {kNibbles, kNibbleIndices, kLookedUp, kScalePerBlock, kScaled},
     .number = nonlinear_number,
     .numbers = 16},
    {.format = Format::iq4_xs,
     .pieces = {{{"Q", offsetof(IQ4_XS::Block, q), 128},
                 {"LOW", offsetof(IQ4_XS::Block, scales_low), 4},
                 {"HIGH", offsetof(IQ4_XS::Block, scales_high), 2},
                 {"D", offsetof(IQ4_XS::Block, d), 2}}},
     .snippets = {kNibbles, kNibbleIndices, kLookedUp, kIq4Xs, kScaled},
     .number = nonlinear_number,
     .numbers = 16},
    {.format = Format::mxfp4,
     .pieces = {{{"Q", offsetof(MXFP4::Block, q), 16}, {"E", offsetof(MXFP4::Block, e), 1}}},
     .snippets = {kNibbles, kNibbleIndices, kLookedUp, kMxfp4, kScaled},
     .number = doubled_e2m1,
     .numbers = 16},
    {.format = Format::nvfp4,
     .pieces = {{{"Q", offsetof(NVFP4::Block, q), 32}, {"D", offsetof(NVFP4::Block, d), 4}}},
     .snippets = {kNvfp4, kLookedUp, kScaled},
     .number = doubled_e2m1,
     .numbers = 16},
    {.format = Format::tq1_0,
     .pieces = {{{"Q", offsetof(TQ1_0::Block, q), 48},
                 {"LAST", offsetof(TQ1_0::Block, last), 4},
                 {"D", offsetof(TQ1_0::Block, d), 2}}},
     .snippets = {kTq1_0, kScalePerBlock, kScaled}},
    {.format = Format::tq2_0,
     .pieces = {{{"Q", offsetof(TQ2_0::Block, q), 64}, {"D", offsetof(TQ2_0::Block, d), 2}}},
     .snippets = {kTq2_0, kScalePerBlock, kScaled}},
    {.format = Format::q1_0,
     .pieces = {{{"Q", offsetof(Q1_0::Block, q), 16}, {"D", offsetof(Q1_0::Block, d), 2}}},
     .snippets = {kQ1_0, kScalePerBlock, kScaled}},
    {.format = Format::q2_0,
     .pieces = {{{"Q", offsetof(Q2_0::Block, q), 16}, {"D", offsetof(Q2_0::Block, d), 2}}},
     .snippets = {kQ2_0, kScalePerBlock, kScaled}},
};

}  // namespace

std::span<const WeightFormat> small_formats() { return kFormats; }

}  // namespace sluice::webgpu
