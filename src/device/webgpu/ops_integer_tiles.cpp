// linear of prompts, where fast arithmetic may take rows as integers: tiles of rows by outputs, 64 columns at a time in
// ascending order. A row's columns are 16 signed bytes and a scale, its largest number to 127; the weight's are its own
// integers (weight_format.h). Sixteen products are exact; their scaled sums are added in f32, one order whatever the
// number of rows. A GPU makes four such products in an instruction, and a tile takes a quarter of the workgroup
// memory's bandwidth that f32 does.
#include "device/webgpu/emitter.h"
#include "device/webgpu/tile_shape.h"

namespace sluice::webgpu {
namespace {

// A thread has EACH by EACH sums: of rows SIDE apart, and of outputs that are neighbours. It fetches 16 columns of a
// row and of an output of the next 64 while a tile is multiplied.
constexpr const char* kIntegers = R"(
struct Integers { q: vec4u, scale: f32, offset: f32 }
// Of bytes of at most 127.
fn bytes_less(q: vec4u, by: u32) -> vec4u {
  return ((q | vec4u(0x80808080u)) - vec4u(by)) ^ vec4u(0x80808080u);
}
)";
constexpr const char* kIntegerTiles = R"(
const TILE = SIDE * EACH;
const PARTS = THREADS / TILE;
const kParts = COLUMNS / 16u;
var<workgroup> tile_w: array<vec4u, TILE * PARTS>;
var<workgroup> tile_x: array<vec4u, TILE * PARTS>;
var<workgroup> scales_w: array<vec2f, TILE * PARTS>;  // and offsets
var<workgroup> scales_x: array<vec2f, TILE * PARTS>;  // and sums

// The largest by its bits, which keeps what is not finite.
fn size_of(x: vec4f) -> u32 {
  let bits = bitcast<vec4u>(x) & vec4u(0x7fffffffu);
  return max(max(bits.x, bits.y), max(bits.z, bits.w));
}
fn bytes_of(x: vec4f, factor: f32) -> u32 { return pack4xI8(vec4i(round(x * factor))); }
fn x_integers(at: u32) -> Integers {
  let a = load4(at);
  let b = load4(at + 4u);
  let c = load4(at + 8u);
  let d = load4(at + 12u);
  let largest = max(max(size_of(a), size_of(b)), max(size_of(c), size_of(d)));
  var factor = 0.0;
  if (largest > 0x00800000u && largest < 0x7f800000u) { factor = 127.0 / bitcast<f32>(largest); }
  let sum = (a + b) + (c + d);
  return Integers(vec4u(bytes_of(a, factor), bytes_of(b, factor), bytes_of(c, factor), bytes_of(d, factor)),
                  bitcast<f32>(largest) / 127.0, (sum.x + sum.y) + (sum.z + sum.w));
}
fn add_16(sum: f32, x: vec4u, w: vec4u, x_scale: vec2f, w_scale: vec2f) -> f32 {
  let dot = dot4I8Packed(x.x, w.x) + dot4I8Packed(x.y, w.y) + dot4I8Packed(x.z, w.z) + dot4I8Packed(x.w, w.w);
  var moved = sum;
  if (w_OFFSETS) { moved = fma(w_scale.y, x_scale.y, sum); }
  return fma(f32(dot), x_scale.x * w_scale.x, moved);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let blocks = (p.outputs + TILE - 1u) / TILE;
  let i = group_index(group, groups);
  let first_row = i / blocks * TILE;
  let first_output = i % blocks * TILE;
  if (first_row >= rows()) { return; }
  let own = thread % TILE;
  let own_part = thread / TILE;
  let x_at = p.x + min(first_row + own, rows() - 1u) * COLUMNS;
  let w_row = min(first_output + own, p.outputs - 1u);
  let x_place = own_part * TILE + own;
  let w_place = own_part * TILE + own % EACH * SIDE + own / EACH;
  let r = thread / SIDE;
  let o = thread % SIDE;
  var sums: array<array<f32, EACH>, EACH>;
  var next_w = w_integers(w_row, min(own_part, kParts - 1u));
  var next_x = x_integers(x_at + min(own_part, kParts - 1u) * 16u);
  for (var part = 0u; part < kParts; part += PARTS) {
    workgroupBarrier();
    let is_there = part + own_part < kParts;
    tile_w[w_place] = next_w.q;
    scales_w[w_place] = vec2f(next_w.scale, next_w.offset);
    tile_x[x_place] = select(vec4u(), next_x.q, is_there);
    scales_x[x_place] = select(vec2f(), vec2f(next_x.scale, next_x.offset), is_there);
    workgroupBarrier();
    if (part + PARTS < kParts) {
      let next = min(part + PARTS + own_part, kParts - 1u);
      next_w = w_integers(w_row, next);
      next_x = x_integers(x_at + next * 16u);
    }
    for (var k = 0u; k < PARTS; k++) {
      var w: array<vec4u, EACH>;
      var w_scales: array<vec2f, EACH>;
      for (var n = 0u; n < EACH; n++) {
        w[n] = tile_w[k * TILE + n * SIDE + o];
        w_scales[n] = scales_w[k * TILE + n * SIDE + o];
      }
      for (var j = 0u; j < EACH; j++) {
        let x = tile_x[k * TILE + r + SIDE * j];
        let x_scale = scales_x[k * TILE + r + SIDE * j];
        for (var n = 0u; n < EACH; n++) { sums[j][n] = add_16(sums[j][n], x, w[n], x_scale, w_scales[n]); }
      }
    }
  }
  for (var j = 0u; j < EACH; j++) {
    let row = first_row + r + SIDE * j;
    let output = first_output + o * EACH;
    if (row < rows() && output < p.outputs) {
      store_each(p.out + row * OUTPUTS + p.first_output + output, sums[j], p.outputs - output);
    }
  }
}
)";
constexpr const char* kStoreFours = R"(
fn store_each(at: u32, x: array<f32, EACH>, count: u32) { store4(at, vec4f(x[0], x[1], x[2], x[3])); }
)";
constexpr const char* kStoreEach = R"(
fn store_each(at: u32, x: array<f32, EACH>, count: u32) {
  for (var i = 0u; i < min(count, EACH); i++) { store(at + i, x[i]); }
}
)";

}  // namespace

bool Emitter::emit_integer_tiles(const Linear& op, uint32_t tile) {
  const WeightShape& shape = program_.weights[op.weight].shape;
  const WeightTile& rows = layout_.matrix(op.weight).tiles[tile];
  const std::string integers = integer_snippet(layout_.matrix(op.weight).format, "w");
  if (request_.arithmetic == Arithmetic::exact || integers.empty()) return false;
  const TileShape side = tile_shape(adapter_);
  Kernel kernel{.name = "integer_tiles", .extent = type(op.x).extent, .threads = side.side * side.side};
  kernel.constants = {{"COLUMNS", shape.columns}, {"OUTPUTS", shape.rows}, {"SIDE", side.side}, {"EACH", side.each}};
  kernel.params = {{"x", at(op.x)},
                   {"out", at(op.out)},
                   {"first_output", static_cast<uint32_t>(rows.first_row)},
                   {"outputs", static_cast<uint32_t>(rows.rows)}};
  kernel.bindings = {memory(), weight("w", op.weight, tile)};
  const bool fours = side.each == 4 && shape.rows % 4 == 0 && rows.first_row % 4 == 0 && rows.rows % 4 == 0 &&
                     at(op.x) % 4 == 0 && at(op.out) % 4 == 0;
  if (fours) kernel.bindings.front().element = kFours;
  kernel.snippets = {kIntegers, decoder(op.weight, "w"), integers, fours ? kStoreFours : kStoreEach};
  kernel.body = kIntegerTiles;
  kernel.grid = {.per = side.rows(), .times = (rows.rows + side.rows() - 1) / side.rows()};
  add(kernel);
  return true;
}

}  // namespace sluice::webgpu
