// f32, f16, bf16: elements as they are; q8_0: integers as they are.
#include "device/webgpu/weight_format.h"
#include "format/q8_0.h"

namespace sluice::webgpu {
namespace {

constexpr const char* kF32 = R"(
fn $_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let at = begin + part * 16u + quad * 4u;
  return bitcast<vec4f>(vec4u($[at], $[at + 1u], $[at + 2u], $[at + 3u]));
}
)";

constexpr const char* kF16 = R"(
fn $_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let at = begin + part * 8u + quad * 2u;
  return vec4f(unpack2x16float($[at]), unpack2x16float($[at + 1u]));
}
)";

constexpr const char* kBf16 = R"(
fn $_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  let at = begin + part * 8u + quad * 2u;
  let words = vec2u($[at], $[at + 1u]);
  let low = words << vec2u(16u);
  let high = words & vec2u(0xffff0000u);
  return bitcast<vec4f>(vec4u(low.x, high.x, low.y, high.y));
}
)";

constexpr const char* kQ8_0 = R"(
fn $_scale(begin: u32, part: u32) -> f32 { return $_f16(begin + $_D, part / 2u); }
fn $_numbers(begin: u32, part: u32, quad: u32) -> vec4f {
  return vec4f(unpack4xI8($[begin + $_Q + part * 4u + quad]));
}
)";

const WeightFormat kFormats[] = {
    {.format = Format::f32, .pieces = {{{"X", 0, 4}}}, .snippets = {kF32, kAsNumbers}},
    {.format = Format::f16, .pieces = {{{"X", 0, 2}}}, .snippets = {kF16, kAsNumbers}},
    {.format = Format::bf16, .pieces = {{{"X", 0, 2}}}, .snippets = {kBf16, kAsNumbers}},
    {.format = Format::q8_0,
     .pieces = {{{"Q", offsetof(Q8_0::Block, q), 32}, {"D", offsetof(Q8_0::Block, d), 2}}},
     .snippets = {kQ8_0, kScaled}},
};

}  // namespace

std::span<const WeightFormat> plain_formats() { return kFormats; }

}  // namespace sluice::webgpu
