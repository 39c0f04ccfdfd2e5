// Products whose rows have at most 16 results, as those of an adapter's factors have: linear with few outputs and
// linear_transposed with few inputs. Tiles of results would leave most of a GPU idle, so the threads of a workgroup
// share the sums instead. The order of a sum depends on its length alone.
#include "base/text.h"
#include "device/webgpu/emitter.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kNarrowRows = 4, kNarrowThreads = 256;

// A workgroup computes four rows. A thread has four neighbouring results of each of them, and of their sums each
// SLOTS-th four terms. The sums are added up in two steps: a thread adds four of them, then sixteen threads the rest.
constexpr const char* kNarrow = R"(
const SLOTS = THREADS / 4u;
const SEGMENTS = SLOTS / 4u;
var<workgroup> sums: array<vec4f, THREADS * ROWS_AT_ONCE>;
${functions}
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let first = group_index(group, groups) * ROWS_AT_ONCE;
  if (first >= rows()) { return; }
${place}${begin}  if (own_four * 4u < RESULTS) {
    for (var k = slot; k < TERMS; k += SLOTS) {
      let w_0 = weight_of(0u, own_four, k);
      let w_1 = weight_of(1u, own_four, k);
      let w_2 = weight_of(2u, own_four, k);
      let w_3 = weight_of(3u, own_four, k);
${rows}    }
  }
${put}  workgroupBarrier();
  let begin = thread / SLOTS * THREADS + thread % SLOTS / SEGMENTS * SLOTS + thread % SEGMENTS;
  var part = vec4f();
  for (var l = 0u; l < 4u; l++) { part += sums[begin + l * SEGMENTS]; }
  workgroupBarrier();
  sums[thread] = part;
  workgroupBarrier();
  let row = first + thread / 4u;
  if (thread >= ROWS_AT_ONCE * 4u || row >= rows()) { return; }
  var sum = vec4f();
  for (var s = 0u; s < SEGMENTS; s++) { sum += sums[thread * SEGMENTS + s]; }
  let result = thread % 4u * 4u;
  if (result >= RESULTS) { return; }
  let i = row * RESULTS + result;
${store}}
)";
constexpr const char* kStoreSum = "  store4(p.out + i, finished(sum, i));\n";
constexpr const char* kStoreEachSum = R"(
  let y = finished(sum, i);
  for (var n = 0u; n < min(4u, RESULTS - result); n++) { store(p.out + i + n, y[n]); }
)";
constexpr const char* kPlaceAlong = R"(
  let slot = thread % SLOTS;
  let own_four = thread / SLOTS;
)";
// Four terms of the i-th of four results.
constexpr const char* kWeightAlong = R"(
fn weight_of(i: u32, own_four: u32, k: u32) -> vec4f { return weight_four(min(own_four * 4u + i, RESULTS - 1u), k); }
)";
constexpr const char* kRowAlong = R"(
      let x_${r} = x_four(row_${r}, k);
      own_${r} += vec4f(dot(x_${r}, w_0), dot(x_${r}, w_1), dot(x_${r}, w_2), dot(x_${r}, w_3));
)";
constexpr const char* kPlaceAcross = R"(
  let slot = thread / 4u;
  let own_four = thread % 4u;
)";
// The i-th of four terms of four results.
constexpr const char* kWeightAcross = R"(
fn weight_of(i: u32, own_four: u32, k: u32) -> vec4f { return weight_four(min(k * 4u + i, X_COLUMNS - 1u), own_four); }
)";
constexpr const char* kRowAcross = R"(
      let x_${r} = x_four(row_${r}, k);
      own_${r} += (x_${r}.x * w_0 + x_${r}.y * w_1) + (x_${r}.z * w_2 + x_${r}.w * w_3);
)";
// Sums of a row are a variable each, because an array that a loop indexes may lie in memory.
constexpr const char* kBeginRow = R"(
  let row_${r} = min(first + ${r}u, rows() - 1u);
  var own_${r} = vec4f();
)";
constexpr const char* kPutRow = R"(
  sums[${r}u * THREADS + own_four * SLOTS + slot] = own_${r};
)";
constexpr const char* kFourOfRow = R"(
fn x_four(row: u32, k: u32) -> vec4f {
  let at = p.x + row * X_COLUMNS + k * 4u;
  if (X_COLUMNS % 4u == 0u || k * 4u + 4u <= X_COLUMNS) { return load4(at); }
  var x = vec4f();
  for (var i = 0u; i < 4u; i++) {
    if (k * 4u + i < X_COLUMNS) { x[i] = load(at + i); }
  }
  return x;
}
)";
// Formats of one number a block give four of them at once.
constexpr const char* kFourOfNumbers = R"(
fn weight_four(row: u32, k: u32) -> vec4f {
  return w_numbers(w_FIRST_ROW + row * w_ROW_WORDS, k / 4u, k % 4u);
}
)";
constexpr const char* kFourOfDecoded = R"(
fn weight_four(row: u32, k: u32) -> vec4f { return w_16(row, k / 4u)[k % 4u]; }
)";

}  // namespace

void Emitter::emit_narrow(const NarrowProduct& of, const Finishing& finish) {
  const uint32_t inputs = columns(of.x);
  Kernel kernel{.name = of.transposed ? "linear_transposed_narrow" : "linear_narrow",
                .extent = type(of.x).extent,
                .threads = kNarrowThreads};
  kernel.constants = {{"ROWS_AT_ONCE", kNarrowRows},
                      {"X_COLUMNS", inputs},
                      {"RESULTS", columns(finish.out)},
                      {"TERMS", static_cast<uint32_t>(divide_up(inputs, 4))}};
  kernel.params = {{"x", at(of.x)}, {"out", at(finish.out)}};
  kernel.bindings = {memory(), weight("w", of.weight, 0)};
  kernel.snippets = {decoder(of.weight, "w")};
  use_finish(kernel, finish, "vec4f");
  const bool fours = (inputs | columns(finish.out) | at(of.x) | at(finish.out)) % 4 == 0 &&
                     (finish.plus == kNone || at(finish.plus) % 4 == 0);
  if (fours) kernel.bindings.front().element = kFours;
  const Format format = layout_.matrix(of.weight).format;
  const bool is_plain = format == Format::f32 || format == Format::f16 || format == Format::bf16;
  const auto each_row = [](const char* text) {
    std::string all;
    for (uint32_t r = 0; r < kNarrowRows; ++r) all += fill(text, {{"r", cat(r)}});
    return all;
  };
  kernel.body = fill(kNarrow, {{"functions", cat(is_plain ? kFourOfNumbers : kFourOfDecoded, kFourOfRow,
                                                 of.transposed ? kWeightAcross : kWeightAlong)},
                               {"place", of.transposed ? kPlaceAcross : kPlaceAlong},
                               {"begin", each_row(kBeginRow)},
                               {"rows", each_row(of.transposed ? kRowAcross : kRowAlong)},
                               {"put", each_row(kPutRow)},
                               {"store", fours ? kStoreSum : kStoreEachSum}});
  kernel.grid.per = kNarrowRows;
  add(kernel);
}

}  // namespace sluice::webgpu
