#include "device/webgpu/kernels/integer_tiles.h"

#include "base/check.h"
#include "base/text.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kPartsAtOnce = 4;

// The layout of a tile in workgroup memory: for each part, the vectors of neighbouring rows are neighbours, and so are
// those of outputs, except that one thread's outputs are OUTPUT_SIDE apart. Two unused vectors behind each part make
// the same place of the next part fall into other memory banks.
constexpr const char* kTile = R"(
struct Integers { q: vec4u, scale: f32, offset: f32 }
// The bytes of q must be at most 127.
fn bytes_less(q: vec4u, by: u32) -> vec4u {
  return ((q | vec4u(0x80808080u)) - vec4u(by)) ^ vec4u(0x80808080u);
}

const TILE_ROWS = ROW_SIDE * ROWS_EACH;
const TILE_OUTPUTS = OUTPUT_SIDE * OUTPUTS_EACH;
const kParts = COLUMNS / 16u;
const X_LOADS = (TILE_ROWS * PARTS + THREADS - 1u) / THREADS;
const W_LOADS = TILE_OUTPUTS * PARTS / THREADS;
const X_PART = TILE_ROWS + 2u;
const W_PART = TILE_OUTPUTS + 2u;
var<workgroup> tile_x: array<vec4u, PARTS * X_PART>;
var<workgroup> scales_x: array<vec2f, PARTS * X_PART>;  // and sums

fn x_scale(at: u32, part: u32) -> vec2f {
  let both = bitcast<vec4f>(four(at + kParts * 4u + part / 2u * 4u));
  return select(both.xy, both.zw, part % 2u == 1u);
}
fn place_of_output(output: u32) -> u32 { return output % OUTPUTS_EACH * OUTPUT_SIDE + output / OUTPUTS_EACH; }

// The sum is smaller than 2^22, so adding it to the bits of 3 * 2^22 gives a float without a conversion.
fn sum_of_products(x: vec4u, w: vec4u) -> f32 {
  let sum = 0x4b400000 + dot4I8Packed(x.x, w.x) + dot4I8Packed(x.y, w.y) + dot4I8Packed(x.z, w.z) +
            dot4I8Packed(x.w, w.w);
  return bitcast<f32>(sum) - 12582912.0;
}
)";
constexpr const char* kTileOfWeight = R"(
var<workgroup> tile_${w}: array<vec4u, PARTS * W_PART>;
var<workgroup> scales_${w}: array<vec2f, PARTS * W_PART>;  // and offsets

fn add_${w}(sum: f32, x: vec4u, x_scale: vec2f, w: vec4u, w_scale: vec2f) -> f32 {
  var moved = sum;
  if (${w}_OFFSETS) { moved = fma(w_scale.y, x_scale.y, sum); }
  return fma(sum_of_products(x, w), x_scale.x * w_scale.x, moved);
}
)";

// While a tile is multiplied, the threads prefetch the next 64 columns: each thread 16 columns of a row, and 16 columns
// of one or more outputs of each weight. Neighbouring threads fetch neighbouring words.
constexpr const char* kBefore = R"(
  let r = thread / OUTPUT_SIDE;
  let o = thread % OUTPUT_SIDE;
  let own = thread % PARTS;
  var x_at: array<u32, X_LOADS>;
  for (var l = 0u; l < X_LOADS; l++) { x_at[l] = x_of_row(first + min((thread + l * THREADS) / PARTS, count - 1u)); }
  var next_x: array<vec4u, X_LOADS>;
  var next_x_scale: array<vec2f, X_LOADS>;
)";
constexpr const char* kBeforeOfWeight = R"(
  var next_${w}: array<Integers, W_LOADS>;
  var sums_${w}: array<array<f32, OUTPUTS_EACH>, ROWS_EACH>;
)";
constexpr const char* kKeepX = R"(
  for (var part = 0u; part < kParts + PARTS; part += PARTS) {
    if (part > 0u) {
      workgroupBarrier();
      for (var l = 0u; l < X_LOADS; l++) {
        let row = (thread + l * THREADS) / PARTS;
        if (TILE_ROWS * PARTS % THREADS == 0u || row < TILE_ROWS) {
          let is_there = part - PARTS + own < kParts;
          tile_x[own * X_PART + row] = select(vec4u(), next_x[l], is_there);
          scales_x[own * X_PART + row] = select(vec2f(), next_x_scale[l], is_there);
        }
      }
)";
constexpr const char* kKeepWeight = R"(
      for (var l = 0u; l < W_LOADS; l++) {
        let place = own * W_PART + place_of_output((thread + l * THREADS) / PARTS);
        tile_${w}[place] = next_${w}[l].q;
        scales_${w}[place] = vec2f(next_${w}[l].scale, next_${w}[l].offset);
      }
)";
constexpr const char* kFetchX = R"(
      workgroupBarrier();
    }
    if (part < kParts) {
      let next = min(part + own, kParts - 1u);
      for (var l = 0u; l < X_LOADS; l++) {
        next_x[l] = four(x_at[l] + next * 4u);
        next_x_scale[l] = x_scale(x_at[l], next);
      }
)";
constexpr const char* kFetchWeight = R"(
      for (var l = 0u; l < W_LOADS; l++) {
        let output = first_output + (thread + l * THREADS) / PARTS;
        next_${w}[l] = ${w}_integers(${w}_first + min(output, last_output), next);
      }
)";
constexpr const char* kMultiply = R"(
    }
    if (part == 0u) { continue; }
    for (var k = 0u; k < PARTS; k++) {
)";
constexpr const char* kLoadWeight = R"(
      var w_${w}: array<vec4u, OUTPUTS_EACH>;
      var w_scales_${w}: array<vec2f, OUTPUTS_EACH>;
      for (var n = 0u; n < OUTPUTS_EACH; n++) {
        w_${w}[n] = tile_${w}[k * W_PART + n * OUTPUT_SIDE + o];
        w_scales_${w}[n] = scales_${w}[k * W_PART + n * OUTPUT_SIDE + o];
      }
)";
constexpr const char* kEachRow = R"(
      for (var j = 0u; j < ROWS_EACH; j++) {
        if (FEW == 0u || ROW_SIDE * j < count) {
          let x = tile_x[k * X_PART + r + ROW_SIDE * j];
          let scale = scales_x[k * X_PART + r + ROW_SIDE * j];
)";
constexpr const char* kAddWeight = R"(
          for (var n = 0u; n < OUTPUTS_EACH; n++) {
            sums_${w}[j][n] = add_${w}(sums_${w}[j][n], x, scale, w_${w}[n], w_scales_${w}[n]);
          }
)";
constexpr const char* kAfter = R"(
        }
      }
    }
  }
)";

// A part holds four numbers of each row and output.
constexpr const char* kMore = R"(
  {
    let steps = more_steps_${w}();
    for (var step = 0u; step < steps; step++) {
      workgroupBarrier();
      for (var l = 0u; l < X_LOADS; l++) {
        let row = (thread + l * THREADS) / PARTS;
        if (TILE_ROWS * PARTS % THREADS == 0u || row < TILE_ROWS) {
          tile_x[own * X_PART + row] = bitcast<vec4u>(more_x_${w}(step, first + min(row, count - 1u), own));
        }
      }
      for (var l = 0u; l < W_LOADS; l++) {
        let i = (thread + l * THREADS) / PARTS;
        let w = more_w_${w}(step, first, min(first_output + i, last_output), own);
        tile_${w}[own * W_PART + place_of_output(i)] = bitcast<vec4u>(w);
      }
      workgroupBarrier();
      for (var k = 0u; k < PARTS; k++) {
        var more: array<vec4f, OUTPUTS_EACH>;
        for (var n = 0u; n < OUTPUTS_EACH; n++) {
          more[n] = bitcast<vec4f>(tile_${w}[k * W_PART + n * OUTPUT_SIDE + o]);
        }
        for (var j = 0u; j < ROWS_EACH; j++) {
          if (FEW == 0u || ROW_SIDE * j < count) {
            let x = bitcast<vec4f>(tile_x[k * X_PART + r + ROW_SIDE * j]);
            for (var n = 0u; n < OUTPUTS_EACH; n++) {
              let y = more[n];
              sums_${w}[j][n] = fma(x.w, y.w, fma(x.z, y.z, fma(x.y, y.y, fma(x.x, y.x, sums_${w}[j][n]))));
            }
          }
        }
      }
    }
  }
)";

// The text for each of the bindings' names.
std::string for_each(std::span<const char* const> names, const char* text) {
  std::string made;
  for (const char* const name : names) made += fill(text, {{"w", name}});
  return made;
}

}  // namespace

const char* const kRowsAsIntegers = R"(
struct Part { q: vec4u, scale: f32, sum: f32 }
// The largest magnitude, compared as bits, so that infinity and NaN are kept.
fn size_of(x: vec4f) -> u32 {
  let bits = bitcast<vec4u>(x) & vec4u(0x7fffffffu);
  return max(max(bits.x, bits.y), max(bits.z, bits.w));
}
fn bytes_of(x: vec4f, factor: f32) -> u32 { return pack4xI8(vec4i(round(x * factor))); }
fn part_of(a: vec4f, b: vec4f, c: vec4f, d: vec4f) -> Part {
  let largest = max(max(size_of(a), size_of(b)), max(size_of(c), size_of(d)));
  var factor = 0.0;
  if (largest > 0x00800000u && largest < 0x7f800000u) { factor = 127.0 / bitcast<f32>(largest); }
  let sum = (a + b) + (c + d);
  return Part(vec4u(bytes_of(a, factor), bytes_of(b, factor), bytes_of(c, factor), bytes_of(d, factor)),
              bitcast<f32>(largest) / 127.0, (sum.x + sum.y) + (sum.z + sum.w));
}
fn put_parts(at: u32, parts: u32, pair: u32, first: Part, second: Part) {
  put_four(at + pair * 8u, first.q);
  put_four(at + pair * 8u + 4u, second.q);
  put_four(at + (parts + pair) * 4u, bitcast<vec4u>(vec4f(first.scale, first.sum, second.scale, second.sum)));
}
)";

void use_integer_tile(Kernel& kernel, const IntegerTile& tile, std::span<const char* const> names,
                      const std::string& begin, const std::string& end, std::span<const char* const> more) {
  static_assert(kPartsAtOnce * 4 == kMoreColumns);
  CHECK(tile.outputs() * kPartsAtOnce % tile.threads() == 0);
  kernel.threads = tile.threads();
  kernel.constants.insert(kernel.constants.end(), {{"ROW_SIDE", tile.row_side},
                                                   {"ROWS_EACH", tile.rows_each},
                                                   {"OUTPUT_SIDE", tile.output_side},
                                                   {"OUTPUTS_EACH", tile.outputs_each},
                                                   {"PARTS", kPartsAtOnce},
                                                   {"FEW", tile.few ? 1u : 0u}});
  kernel.snippets.push_back(kTile + for_each(names, kTileOfWeight));
  kernel.body = cat(begin, kBefore, for_each(names, kBeforeOfWeight), kKeepX, for_each(names, kKeepWeight), kFetchX,
                    for_each(names, kFetchWeight), kMultiply, for_each(names, kLoadWeight), kEachRow,
                    for_each(names, kAddWeight), kAfter, for_each(more, kMore), end);
}

}  // namespace sluice::webgpu
