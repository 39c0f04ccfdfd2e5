#include "device/webgpu/kernel.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/text.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

constexpr const char* kMemory = R"(
fn load(at: u32) -> f32 { return bitcast<f32>(memory[at]); }
fn store(at: u32, x: f32) { memory[at] = bitcast<u32>(x); }
fn load4(at: u32) -> vec4f { return vec4f(load(at), load(at + 1u), load(at + 2u), load(at + 3u)); }
fn word(at: u32) -> u32 { return memory[at]; }
fn four(at: u32) -> vec4u { return vec4u(word(at), word(at + 1u), word(at + 2u), word(at + 3u)); }
fn put_four(at: u32, x: vec4u) {
  for (var i = 0u; i < 4u; i++) { memory[at + i] = x[i]; }
}
)";
constexpr const char* kMemoryInFours = R"(
fn word(at: u32) -> u32 { return memory[at / 4u][at % 4u]; }
fn load(at: u32) -> f32 { return bitcast<f32>(word(at)); }
fn load4(at: u32) -> vec4f { return bitcast<vec4f>(memory[at / 4u]); }
fn store4(at: u32, x: vec4f) { memory[at / 4u] = bitcast<vec4u>(x); }
fn four(at: u32) -> vec4u { return memory[at / 4u]; }
fn put_four(at: u32, x: vec4u) { memory[at / 4u] = x; }
)";
constexpr const char* kPrelude = R"(
fn sequences() -> u32 { return counts.sequences; }
fn group_index(group: vec3u, groups: vec3u) -> u32 { return group.x + group.y * groups.x; }
)";

// By a tree in workgroup memory.
constexpr const char* kReduce = R"(
var<workgroup> reduced: array<f32, THREADS>;
fn sum_all(x: f32, thread: u32) -> f32 {
  workgroupBarrier();
  reduced[thread] = x;
  for (var step = THREADS / 2u; step > 0u; step = step / 2u) {
    workgroupBarrier();
    if (thread < step) { reduced[thread] += reduced[thread + step]; }
  }
  workgroupBarrier();
  return reduced[0];
}
fn max_all(x: f32, thread: u32) -> f32 {
  workgroupBarrier();
  reduced[thread] = x;
  for (var step = THREADS / 2u; step > 0u; step = step / 2u) {
    workgroupBarrier();
    if (thread < step) { reduced[thread] = max(reduced[thread], reduced[thread + step]); }
  }
  workgroupBarrier();
  return reduced[0];
}
)";
// By a tree in each subgroup, then one subgroup after another.
constexpr const char* kReduceBySubgroups = R"(
const REDUCED = THREADS / SUBGROUP;
var<workgroup> reduced: array<f32, REDUCED>;
fn sum_all(own: f32, thread: u32) -> f32 {
  var x = own;
  for (var step = SUBGROUP / 2u; step > 0u; step = step / 2u) { x += subgroupShuffleXor(x, step); }
  workgroupBarrier();
  if (thread % SUBGROUP == 0u) { reduced[thread / SUBGROUP] = x; }
  workgroupBarrier();
  x = reduced[0];
  for (var i = 1u; i < REDUCED; i++) { x += reduced[i]; }
  return x;
}
fn max_all(own: f32, thread: u32) -> f32 {
  var x = own;
  for (var step = SUBGROUP / 2u; step > 0u; step = step / 2u) { x = max(x, subgroupShuffleXor(x, step)); }
  workgroupBarrier();
  if (thread % SUBGROUP == 0u) { reduced[thread / SUBGROUP] = x; }
  workgroupBarrier();
  x = reduced[0];
  for (var i = 1u; i < REDUCED; i++) { x = max(x, reduced[i]); }
  return x;
}
)";

constexpr const char* kToken = R"(
struct Token { key: u32, index: u32 }
const NONE = Token(0u, 0xffffffffu);
const ALL = Token(0u, 0xffffffffu);
fn is_before(a: Token, b: Token) -> bool { return a.key > b.key || (a.key == b.key && a.index < b.index); }
)";
constexpr const char* kBest = R"(
var<workgroup> tokens: array<Token, THREADS>;
fn best_of_all(own: Token, thread: u32) -> Token {
  workgroupBarrier();
  tokens[thread] = own;
  for (var step = THREADS / 2u; step > 0u; step = step / 2u) {
    workgroupBarrier();
    if (thread < step && is_before(tokens[thread + step], tokens[thread])) { tokens[thread] = tokens[thread + step]; }
  }
  workgroupBarrier();
  return tokens[0];
}
)";
constexpr const char* kBestBySubgroups = R"(
var<workgroup> tokens: array<Token, THREADS / SUBGROUP>;
fn best_of_all(own: Token, thread: u32) -> Token {
  var best = own;
  for (var step = SUBGROUP / 2u; step > 0u; step = step / 2u) {
    let other = Token(subgroupShuffleXor(best.key, step), subgroupShuffleXor(best.index, step));
    if (is_before(other, best)) { best = other; }
  }
  workgroupBarrier();
  if (thread % SUBGROUP == 0u) { tokens[thread / SUBGROUP] = best; }
  workgroupBarrier();
  best = tokens[0];
  for (var i = 1u; i < THREADS / SUBGROUP; i++) {
    if (is_before(tokens[i], best)) { best = tokens[i]; }
  }
  return best;
}
)";

std::string type_name(const Number& number) { return std::holds_alternative<float>(number.value) ? "f32" : "u32"; }

// The members of StepCounts.
std::string counts_struct() {
  std::string wgsl = "struct Counts {\n";
  for (const char* symbol : kSymbolNames) wgsl += cat("  ", symbol, ": u32,\n");
  return wgsl + R"(  sequences: u32,
  zero: u32,
  one_adapter: u32,
  adapter_scale: f32,
  slot_count: u32,
  slots_are_range: u32,
  slots: array<vec4u, 16>,
}
)";
}

// Writes the number's bits, so that no digit is lost.
std::string literal(const Number& number) {
  const std::string bits = cat(number.word(), "u");
  return std::holds_alternative<float>(number.value) ? cat("bitcast<f32>(", bits, ")") : bits;
}

}  // namespace

uint32_t Number::word() const {
  if (const auto* real = std::get_if<float>(&value)) return std::bit_cast<uint32_t>(*real);
  return std::get<uint32_t>(value);
}

// Tiles of 64 positions; parts of as many each (ops_attention.cpp). A window may begin within a tile.
uint64_t Grid::workgroups(uint64_t count, uint32_t last_position, uint32_t ahead) const {
  if (count < least_count || count > most_count) return 0;
  const uint64_t own = std::min<uint64_t>(count - std::min<uint64_t>(count, first_row), most_rows);
  uint64_t parts = 1;
  if (most_parts > 0) {
    const uint64_t seen = ahead + (window == 0 ? last_position + uint64_t{1} : std::min(window, last_position + 1));
    parts = std::min<uint64_t>((seen + 126) / 64, most_parts);
  }
  const uint64_t shares = std::min((own * items + per - 1) / per + lists, own * items);
  return shares * times * parts;
}

FoldedGrid fold(uint64_t workgroups, uint32_t most) {
  if (workgroups <= most) return {static_cast<uint32_t>(workgroups), workgroups == 0 ? 0u : 1u};
  const uint64_t y = (workgroups + most - 1) / most;
  CHECK(y <= most);
  return {static_cast<uint32_t>((workgroups + y - 1) / y), static_cast<uint32_t>(y)};
}

void use_snippet(Kernel& kernel, std::string_view snippet) {
  if (std::ranges::find(kernel.snippets, snippet) == kernel.snippets.end()) kernel.snippets.emplace_back(snippet);
}

bool is_in_fours(const Kernel& kernel) { return kernel.bindings.front().element == std::string_view(kFours); }

const char* store_each_text(bool in_fours) {
  constexpr const char* kTogether = R"(
fn store_each(at: u32, x: array<f32, OUTPUTS_EACH>, count: u32) { store4(at, vec4f(x[0], x[1], x[2], x[3])); }
)";
  constexpr const char* kSingly = R"(
fn store_each(at: u32, x: array<f32, OUTPUTS_EACH>, count: u32) {
  for (var i = 0u; i < min(count, OUTPUTS_EACH); i++) { store(at + i, x[i]); }
}
)";
  return in_fours ? kTogether : kSingly;
}

std::string rows_function(std::string_view name, const Extent& extent) {
  return cat("fn ", name, "() -> u32 { return counts.", symbol_name(extent.symbol), " * ", extent.ratio, "u; }\n");
}

PipelineText pipeline_text(const Kernel& kernel) {
  PipelineText text{.name = kernel.name};
  std::string& wgsl = text.wgsl;
  if (kernel.f16) wgsl += "enable f16;\n";
  if (kernel.subgroups) wgsl += "enable subgroups;\n";
  // Places of matrices depend on the subgroup, which the check of uniformity does not know to be uniform.
  if (kernel.matrices)
    wgsl += "enable chromium_experimental_subgroup_matrix;\ndiagnostic(off, chromium.subgroup_matrix_uniformity);\n";
  wgsl += cat("// ", kernel.name, "\n");
  wgsl += cat("const EXTENT_RATIO = ", kernel.extent.ratio, "u;\nconst THREADS = ", kernel.threads, "u;\n");
  for (const Number& constant : kernel.constants)
    wgsl += cat("const ", constant.name, ": ", type_name(constant), " = ", literal(constant), ";\n");
  uint32_t index = 0;
  for (const Binding& binding : kernel.bindings) {
    const char* access = binding.access == Access::read ? "read" : "read_write";
    wgsl += cat("@group(0) @binding(", index++, ") var<storage, ", access, "> ", binding.name, ": array<",
                binding.element, ">;\n");
    text.storage.push_back(binding.access);
  }
  wgsl += "struct Params {\n";
  for (const Number& param : kernel.params) wgsl += cat("  ", param.name, ": ", type_name(param), ",\n");
  if (kernel.params.empty()) wgsl += "  none: u32,\n";
  wgsl += cat("}\n@group(0) @binding(", index, ") var<uniform> p: Params;\n@group(0) @binding(", index + 1,
              ") var<uniform> counts: Counts;\n", rows_function("rows", kernel.extent), counts_struct(),
              is_in_fours(kernel) ? kMemoryInFours : kMemory, kPrelude);
  for (const std::string& snippet : kernel.snippets) wgsl += snippet;
  wgsl += kernel.body;
  wgsl = fill(wgsl, {});  // fails if a placeholder is left without a value
  return text;
}

std::string with_loops_kept(const std::string& wgsl) {
  static constexpr std::string_view kLoop = "for (var ", kEquals = " = ", kZero = " + counts.zero";
  std::string kept;
  for (size_t at = 0;;) {
    const size_t loop = wgsl.find(kLoop, at);
    const size_t first = loop == std::string::npos ? loop : wgsl.find(kEquals, loop);
    if (first == std::string::npos) return kept + wgsl.substr(at);
    const size_t end = wgsl.find(';', first);
    kept += cat(wgsl.substr(at, end - at), kZero);
    at = end;
  }
}

uint32_t subgroup_lanes(const Adapter& adapter) {
  const uint32_t lanes = adapter.subgroup_least;
  const bool is_fixed = adapter.subgroups && lanes == adapter.subgroup_most && !adapter.is_software;
  return is_fixed && lanes >= 4 && lanes <= kThreads && std::has_single_bit(lanes) ? lanes : 0;
}

void use_subgroups(Kernel& kernel, const Adapter& adapter) {
  if (kernel.subgroups || subgroup_lanes(adapter) == 0) return;
  kernel.subgroups = true;
  kernel.constants.push_back({"SUBGROUP", subgroup_lanes(adapter)});
}

void use_matrices(Kernel& kernel, const Adapter& adapter) {
  CHECK(adapter.matrices);
  use_subgroups(kernel, adapter);
  kernel.f16 = kernel.matrices = true;
}

void use_reduce(Kernel& kernel, const Adapter& adapter) {
  use_subgroups(kernel, adapter);
  kernel.snippets.emplace_back(kernel.subgroups ? kReduceBySubgroups : kReduce);
}

void use_best(Kernel& kernel, const Adapter& adapter) {
  use_subgroups(kernel, adapter);
  kernel.snippets.emplace_back(kToken);
  kernel.snippets.emplace_back(kernel.subgroups ? kBestBySubgroups : kBest);
}

// exp: x = n ln 2 + r with |r| <= ln(2) / 2, then the Taylor series of e^r to r^7; n ln 2 in two parts, of which the
// first has 9 bits, so that n times it is exact. Multiplied by 2^n in two halves, for gradual underflow.
// tanh |x| = -m / (m + 2) with m = exp(-2 |x|) - 1, whose series near 0 has no cancellation.
// log: x = 2^n m with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m - 1) / (m + 1), by its series to s^11.
const char* const kMath = R"(
struct Reduced { n: f32, exp_minus_1: f32 }
fn reduce_exp(x: f32) -> Reduced {
  let n = round(x * 1.4426950409);
  let r = fma(n, 2.12194440e-4, fma(n, -0.693359375, x));
  var s = 1.0 / 5040.0;
  s = fma(s, r, 1.0 / 720.0);
  s = fma(s, r, 1.0 / 120.0);
  s = fma(s, r, 1.0 / 24.0);
  s = fma(s, r, 1.0 / 6.0);
  s = fma(s, r, 0.5);
  return Reduced(n, fma(r * r, s, r));
}
fn power_of_2(n: i32) -> f32 { return bitcast<f32>(u32(n + 127) << 23u); }
fn exact_exp(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (x > 88.72284) { var bits = INFINITE_BITS; return bitcast<f32>(bits); }
  let y = reduce_exp(max(x, -104.0));
  let n = i32(y.n);
  let half = n / 2;
  return (y.exp_minus_1 + 1.0) * power_of_2(half) * power_of_2(n - half);
}
fn exact_tanh(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let y = reduce_exp(max(-2.0 * abs(x), -40.0));
  let power = power_of_2(i32(y.n));
  let m = fma(power, y.exp_minus_1, power - 1.0);
  let t = -m / (m + 2.0);
  return select(t, -t, x < 0.0);
}
// x must be a positive normal number.
fn exact_log(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  var n = i32(bits >> 23u) - 127;
  var m = bitcast<f32>((bits & 0x7fffffu) | 0x3f800000u);
  if (m > 1.41421356) { m = m * 0.5; n = n + 1; }
  let s = (m - 1.0) / (m + 1.0);
  let z = s * s;
  var t = 2.0 / 11.0;
  t = fma(t, z, 2.0 / 9.0);
  t = fma(t, z, 2.0 / 7.0);
  t = fma(t, z, 2.0 / 5.0);
  t = fma(t, z, 2.0 / 3.0);
  let f = f32(n);
  return fma(f, 0.693359375, fma(f, -2.12194440e-4, fma(s * z, t, 2.0 * s)));
}
const INFINITE_BITS = 0x7f800000u;
fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > INFINITE_BITS; }
fn is_finite(x: f32) -> bool { return (bitcast<u32>(x) & INFINITE_BITS) != INFINITE_BITS; }
fn sigmoid(x: f32) -> f32 { return 1.0 / (1.0 + exact_exp(-x)); }
)";

const char* const kSortKeys = R"(
fn key_of(x: f32) -> u32 {
  if (is_nan(x)) { return 1u; }
  let bits = bitcast<u32>(x + 0.0);
  if (bits == 0x80000000u) { return 0x80000000u; }
  return select(bits | 0x80000000u, ~bits, bits > 0x80000000u);
}
fn number_of(key: u32) -> f32 {
  return bitcast<f32>(select(~key, key & 0x7fffffffu, key >= 0x80000000u));
}
)";

}  // namespace sluice::webgpu
