// q2_k to q6_k: 256 elements a block, with integer scales for each 16 or 32.
#include "device/webgpu/weight_format.h"
#include "format/q2_k.h"
#include "format/q3_k.h"
#include "format/q4_k.h"
#include "format/q5_k.h"
#include "format/q6_k.h"

namespace sluice::webgpu {
namespace {

// Integers of 2 bits: element 128 n + 32 r + l in bits 2 r, 2 r + 1 of byte 32 n + l.
constexpr const char* kPairs = R"(
fn $_pairs(begin: u32, part: u32, quad: u32) -> u32 {
  let word = $[begin + $_PAIRS + part / 8u * 8u + part % 2u * 4u + quad];
  return (word >> (part % 8u / 2u * 2u)) & 0x03030303u;
}
)";
// Of 4: element 64 k + l in the low half of byte 32 k + l, element 64 k + 32 + l in its high half.
constexpr const char* kNibbles = R"(
fn $_nibbles(begin: u32, part: u32, quad: u32) -> u32 {
  let word = $[begin + $_Q + part / 4u * 8u + part % 2u * 4u + quad];
  return (word >> (part % 4u / 2u * 4u)) & 0x0f0f0f0fu;
}
)";
// Of 1: element 32 s + l in bit s of byte l.
constexpr const char* kHighBits = R"(
fn $_high_bits(begin: u32, part: u32, quad: u32) -> u32 {
  let word = $[begin + $_HIGH + part / 16u * 8u + part % 2u * 4u + quad];
  return (word >> (part % 16u / 2u)) & 0x01010101u;
}
)";
// Scales and minima of 6 bits (format/k_scales.h).
constexpr const char* kSixBitScales = R"(
fn $_scale(begin: u32, part: u32) -> vec2f {
  let block = part / 16u;
  let s = part / 2u % 8u;
  let at = begin + $_SCALES + block * 3u;
  let shift = s % 4u * 8u;
  let first = $[at] >> shift;
  let second = $[at + 1u] >> shift;
  var scale = first & 63u;
  var minimum = second & 63u;
  if (s >= 4u) {
    let third = $[at + 2u] >> shift;
    scale = (third & 15u) | ((first >> 2u) & 48u);
    minimum = ((third >> 4u) & 15u) | ((second >> 2u) & 48u);
  }
  let d = unpack2x16float($[begin + $_D + block]);
  return vec2f(d.x * f32(scale), -(d.y * f32(minimum)));
}
)";

constexpr const char* kQ2_K = R"(
fn $_scale(begin: u32, part: u32) -> vec2f {
  let d = unpack2x16float($[begin + $_D + part / 16u]);
  let pair = $_u8(begin + $_SCALES, part);
  return vec2f(d.x * f32(pair & 15u), -(d.y * f32(pair >> 4u)));
}
fn $_numbers(begin: u32, part: u32, quad: u32) -> vec4f { return vec4f(unpack4xU8($_pairs(begin, part, quad))); }
)";
constexpr const char* kQ3_K = R"(
fn $_scale(begin: u32, part: u32) -> f32 {
  let block = part / 16u;
  let p = part % 16u;
  let low = ($_u8(begin + $_SCALES, block * 12u + p % 8u) >> (p / 8u * 4u)) & 15u;
  let high = ($_u8(begin + $_SCALES, block * 12u + 8u + p % 4u) >> (p / 4u * 2u)) & 3u;
  return $_f16(begin + $_D, block) * (f32(low | (high << 4u)) - 32.0);
}
fn $_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  return vec4f(unpack4xU8($_pairs(begin, part, quad) | ($_high_bits(begin, part, quad) << 2u))) - 4.0;
}
)";
constexpr const char* kQ4_K = R"(
fn $_numbers(begin: u32, part: u32, quad: u32) -> vec4f { return vec4f(unpack4xU8($_nibbles(begin, part, quad))); }
)";
constexpr const char* kQ5_K = R"(
fn $_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  return vec4f(unpack4xU8($_nibbles(begin, part, quad) | ($_high_bits(begin, part, quad) << 4u)));
}
)";
// The low bits of element 128 n + 32 r + l: half r / 2 of byte 64 n + 32 (r % 2) + l.
constexpr const char* kQ6_K = R"(
fn $_scale(begin: u32, part: u32) -> f32 {
  return $_f16(begin + $_D, part / 16u) * f32(unpack4xI8($[begin + $_SCALES + part / 4u])[part % 4u]);
}
fn $_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let word = $[begin + $_LOW + part / 8u * 16u + part % 4u * 4u + quad];
  let low = (word >> (part % 8u / 4u * 4u)) & 0x0f0f0f0fu;
  return vec4f(unpack4xU8(low | ($_pairs(begin, part, quad) << 4u))) - 32.0;
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
                 {"SCALES", offsetof(Q4_K::Block, scales), 12},
                 {"D", offsetof(Q4_K::Block, d), 4}}},
     .snippets = {kNibbles, kSixBitScales, kQ4_K, kScaledAndMoved}},
    {.format = Format::q5_k,
     .pieces = {{{"Q", offsetof(Q5_K::Block, q), 128},
                 {"HIGH", offsetof(Q5_K::Block, high), 32},
                 {"SCALES", offsetof(Q5_K::Block, scales), 12},
                 {"D", offsetof(Q5_K::Block, d), 4}}},
     .snippets = {kNibbles, kHighBits, kSixBitScales, kQ5_K, kScaledAndMoved}},
    {.format = Format::q6_k,
     .pieces = {{{"LOW", offsetof(Q6_K::Block, low), 128},
                 {"PAIRS", offsetof(Q6_K::Block, high), 64},
                 {"SCALES", offsetof(Q6_K::Block, scales), 16},
                 {"D", offsetof(Q6_K::Block, d), 2}}},
     .snippets = {kPairs, kQ6_K, kScaled}},
};

}  // namespace

std::span<const WeightFormat> k_formats() { return kFormats; }

}  // namespace sluice::webgpu
