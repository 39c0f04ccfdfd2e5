// f32, f16, bf16: elements as they are; q8_0: integers as they are.
#include "device/webgpu/formats/weight_format.h"
#include "format/q8_0.h"

namespace sluice::webgpu {
namespace {

constexpr const char* kF32 = R"(
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let at = begin + part * 16u + quad * 4u;
  return bitcast<vec4f>(vec4u(${w}_word(at), ${w}_word(at + 1u), ${w}_word(at + 2u), ${w}_word(at + 3u)));
}
)";

constexpr const char* kF16 = R"(
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let at = begin + part * 8u + quad * 2u;
  return vec4f(unpack2x16float(${w}_word(at)), unpack2x16float(${w}_word(at + 1u)));
}
)";

constexpr const char* kBf16 = R"(
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let at = begin + part * 8u + quad * 2u;
  let words = vec2u(${w}_word(at), ${w}_word(at + 1u));
  let low = words << vec2u(16u);
  let high = words & vec2u(0xffff0000u);
  return bitcast<vec4f>(vec4u(low.x, high.x, low.y, high.y));
}
)";

constexpr const char* kQ8_0 = R"(
fn ${w}_scale(begin: u32, part: u32) -> f32 { return ${w}_f16(begin + ${w}_D, part / 2u); }
fn ${w}_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  return vec4f(unpack4xI8(${w}_word(begin + ${w}_Q + part * 4u + quad)));
}
)";

// 16 elements in two loads.
constexpr const char* kF16Unit = R"(
struct ${w}_Unit { first: vec4u, second: vec4u }
fn ${w}_unit(row: u32, unit: u32) -> ${w}_Unit {
  let at = ${w}_FIRST_ROW + row * ${w}_ROW_WORDS + unit * 8u;
  return ${w}_Unit(${w}_four(at), ${w}_four(at + 4u));
}
fn ${w}_pair(words: vec2u) -> vec4f { return vec4f(unpack2x16float(words.x), unpack2x16float(words.y)); }
)";
constexpr const char* kBf16Unit = R"(
struct ${w}_Unit { first: vec4u, second: vec4u }
fn ${w}_unit(row: u32, unit: u32) -> ${w}_Unit {
  let at = ${w}_FIRST_ROW + row * ${w}_ROW_WORDS + unit * 8u;
  return ${w}_Unit(${w}_four(at), ${w}_four(at + 4u));
}
fn ${w}_pair(words: vec2u) -> vec4f {
  let low = words << vec2u(16u);
  let high = words & vec2u(0xffff0000u);
  return bitcast<vec4f>(vec4u(low.x, high.x, low.y, high.y));
}
)";
constexpr const char* kPairsDot = R"(
fn ${w}_dot(own: ${w}_Unit, unit: u32, x: Columns) -> f32 {
  let sums = fma(${w}_pair(own.first.zw), x.a[1], ${w}_pair(own.first.xy) * x.a[0]);
  return total(fma(${w}_pair(own.second.zw), x.a[3], fma(${w}_pair(own.second.xy), x.a[2], sums)));
}
)";
constexpr const char* kQ8_0Unit = R"(
struct ${w}_Unit { first: vec4u, second: vec4u, d: u32 }
fn ${w}_unit(row: u32, unit: u32) -> ${w}_Unit {
  let begin = ${w}_FIRST_ROW + row * ${w}_ROW_WORDS;
  let at = begin + ${w}_Q + unit * 8u;
  return ${w}_Unit(${w}_four(at), ${w}_four(at + 4u), ${w}_word(begin + ${w}_D + unit / 2u));
}
fn ${w}_dot(own: ${w}_Unit, unit: u32, x: Columns) -> f32 {
  return unpack2x16float(own.d)[unit % 2u] * (dot_i8(own.first, x.a) + dot_i8(own.second, x.b));
}
)";

// Eight elements in one load, or two.
constexpr const char* kF32Eight = R"(
fn ${w}_eight(row: u32, i: u32) -> mat2x4f {
  let at = ${w}_FIRST_ROW + row * ${w}_ROW_WORDS + i * 8u;
  return mat2x4f(bitcast<vec4f>(${w}_four(at)), bitcast<vec4f>(${w}_four(at + 4u)));
}
)";
constexpr const char* kF16Eight = R"(
fn ${w}_eight(row: u32, i: u32) -> mat2x4f {
  let words = ${w}_four(${w}_FIRST_ROW + row * ${w}_ROW_WORDS + i * 4u);
  return mat2x4f(vec4f(unpack2x16float(words.x), unpack2x16float(words.y)),
                 vec4f(unpack2x16float(words.z), unpack2x16float(words.w)));
}
)";
constexpr const char* kBf16Eight = R"(
fn ${w}_eight(row: u32, i: u32) -> mat2x4f {
  let words = ${w}_four(${w}_FIRST_ROW + row * ${w}_ROW_WORDS + i * 4u);
  let low = bitcast<vec4f>(words << vec4u(16u));
  let high = bitcast<vec4f>(words & vec4u(0xffff0000u));
  return mat2x4f(vec4f(low.x, high.x, low.y, high.y), vec4f(low.z, high.z, low.w, high.w));
}
)";

constexpr const char* kQ8_0Integers = R"(
const ${w}_OFFSETS = false;
fn ${w}_integers(row: u32, part: u32) -> Integers {
  let begin = ${w}_FIRST_ROW + row * ${w}_ROW_WORDS;
  return Integers(${w}_four(begin + ${w}_Q + part * 4u), ${w}_scale(begin, part), 0.0);
}
)";

const WeightFormat kFormats[] = {
    {.format = Format::f32, .pieces = {{{"X", 0, 4}}}, .snippets = {kF32, kAsNumbers}, .eight = kF32Eight},
    {.format = Format::f16,
     .pieces = {{{"X", 0, 2}}},
     .snippets = {kF16, kAsNumbers},
     .unit = {kF16Unit, kPairsDot},
     .eight = kF16Eight},
    {.format = Format::bf16,
     .pieces = {{{"X", 0, 2}}},
     .snippets = {kBf16, kAsNumbers},
     .unit = {kBf16Unit, kPairsDot},
     .eight = kBf16Eight},
    {.format = Format::q8_0,
     .pieces = {{{"Q", offsetof(Q8_0::Block, q), 32}, {"D", offsetof(Q8_0::Block, d), 2}}},
     .snippets = {kQ8_0, kScaled},
     .unit = {kQ8_0Unit},
     .unit_shape = {.parts = 2, .step = 1},
     .integers = kQ8_0Integers},
};

}  // namespace

std::span<const WeightFormat> plain_formats() { return kFormats; }

}  // namespace sluice::webgpu
