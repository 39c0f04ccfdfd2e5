// f32, f16, bf16: elements as they are; q8_0: integers as they are.
#include "device/webgpu/formats/weight_format.h"
#include "format/q8_0.h"

namespace sluice::webgpu {
namespace {

constexpr const char* kF32 = R"(
fn $_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let at = begin + part * 16u + quad * 4u;
  return bitcast<vec4f>(vec4u($_word(at), $_word(at + 1u), $_word(at + 2u), $_word(at + 3u)));
}
)";

constexpr const char* kF16 = R"(
fn $_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let at = begin + part * 8u + quad * 2u;
  return vec4f(unpack2x16float($_word(at)), unpack2x16float($_word(at + 1u)));
}
)";

constexpr const char* kBf16 = R"(
fn $_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let at = begin + part * 8u + quad * 2u;
  let words = vec2u($_word(at), $_word(at + 1u));
  let low = words << vec2u(16u);
  let high = words & vec2u(0xffff0000u);
  return bitcast<vec4f>(vec4u(low.x, high.x, low.y, high.y));
}
)";

constexpr const char* kQ8_0 = R"(
fn $_scale(begin: u32, part: u32) -> f32 { return $_f16(begin + $_D, part / 2u); }
fn $_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  return vec4f(unpack4xI8($_word(begin + $_Q + part * 4u + quad)));
}
)";

// 16 elements in two loads.
constexpr const char* kF16Unit = R"(
struct $_Unit { first: vec4u, second: vec4u }
fn $_unit(row: u32, unit: u32) -> $_Unit {
  let at = $_FIRST_ROW + row * $_ROW_WORDS + unit * 8u;
  return $_Unit($_four(at), $_four(at + 4u));
}
fn $_pair(words: vec2u) -> vec4f { return vec4f(unpack2x16float(words.x), unpack2x16float(words.y)); }
)";
constexpr const char* kBf16Unit = R"(
struct $_Unit { first: vec4u, second: vec4u }
fn $_unit(row: u32, unit: u32) -> $_Unit {
  let at = $_FIRST_ROW + row * $_ROW_WORDS + unit * 8u;
  return $_Unit($_four(at), $_four(at + 4u));
}
fn $_pair(words: vec2u) -> vec4f {
  let low = words << vec2u(16u);
  let high = words & vec2u(0xffff0000u);
  return bitcast<vec4f>(vec4u(low.x, high.x, low.y, high.y));
}
)";
constexpr const char* kPairsDot = R"(
fn $_dot(own: $_Unit, unit: u32, x: Columns) -> f32 {
  let sums = fma($_pair(own.first.zw), x.a[1], $_pair(own.first.xy) * x.a[0]);
  return total(fma($_pair(own.second.zw), x.a[3], fma($_pair(own.second.xy), x.a[2], sums)));
}
)";
constexpr const char* kQ8_0Unit = R"(
struct $_Unit { first: vec4u, second: vec4u, d: u32 }
fn $_unit(row: u32, unit: u32) -> $_Unit {
  let begin = $_FIRST_ROW + row * $_ROW_WORDS;
  let at = begin + $_Q + unit * 8u;
  return $_Unit($_four(at), $_four(at + 4u), $_word(begin + $_D + unit / 2u));
}
fn $_dot(own: $_Unit, unit: u32, x: Columns) -> f32 {
  return unpack2x16float(own.d)[unit % 2u] * (dot_i8(own.first, x.a) + dot_i8(own.second, x.b));
}
)";

constexpr const char* kQ8_0Integers = R"(
const $_OFFSETS = false;
fn $_integers(row: u32, part: u32) -> Integers {
  let begin = $_FIRST_ROW + row * $_ROW_WORDS;
  return Integers($_four(begin + $_Q + part * 4u), $_scale(begin, part), 0.0);
}
)";

const WeightFormat kFormats[] = {
    {.format = Format::f32, .pieces = {{{"X", 0, 4}}}, .snippets = {kF32, kAsNumbers}},
    {.format = Format::f16, .pieces = {{{"X", 0, 2}}}, .snippets = {kF16, kAsNumbers}, .unit = {kF16Unit, kPairsDot}},
    {.format = Format::bf16,
     .pieces = {{{"X", 0, 2}}},
     .snippets = {kBf16, kAsNumbers},
     .unit = {kBf16Unit, kPairsDot}},
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
