// add, add_bias, mul, scale, clamp, softcap, activation, gated_activation, rope: a thread for each element, or for
// four.
#include "device/webgpu/emitter.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

// gelu_tanh: 0.5 x (1 + tanh(u)) is x / (1 + exp(-2 u)), which keeps its precision for negative u.
constexpr const char* kActivations[kActivationKinds] = {
    R"(
fn ${name}(x: f32) -> f32 {
  let inner = x * fma(x * x, 0.044715, 1.0);
  return x / (1.0 + exact_exp(-1.5957691216 * inner));
}
)",
    R"(
fn ${name}(x: f32) -> f32 { return x / (1.0 + exact_exp(-x)); }
)",
    R"(
fn ${name}(x: f32) -> f32 { return sigmoid(x); }
)",
    R"(
fn ${name}(x: f32) -> f32 {
  // Compilers turn a comparison and a select into max(), which loses a NaN, so is_nan looks at the bits.
  return select(select(x, 0.0, x < 0.0), x, is_nan(x));
}
)",
    // x Phi(x) = max(x, 0) - |x| erfc(|x| / sqrt(2)) / 2, erfc as the CPU has it (device/cpu/kernels/math.h).
    R"(
fn ${name}(x: f32) -> f32 {
  let size = abs(x);
  let t = 1.0 / fma(size, 0.353553391, 1.0);
  var fit = 0.182045102;
  fit = fma(fit, t, -0.872641623);
  fit = fma(fit, t, 1.58359671);
  fit = fma(fit, t, -1.23176146);
  fit = fma(fit, t, 0.336006463);
  fit = fma(fit, t, -0.206139565);
  fit = fma(fit, t, 0.1006542);
  fit = fma(fit, t, 0.373714834);
  fit = fma(fit, t, 1.00003779);
  fit = fma(fit, t, -1.26551235);
  let tail = t * exact_exp(fma(x * x, -0.5, fit));
  return fma(-0.5 * size, tail, select(x, 0.0, x < 0.0));
}
)"};

constexpr const char* kRope = R"(
fn element(i: u32) -> f32 {
  let at = i % WIDTH;
  if (at < FIRST || at >= FIRST + 2u * PAIRS) { return load(p.x + i); }
  let turned = at - FIRST;
  let halves = PAIRING != ADJACENT;
  let pair = select(turned / 2u, turned % PAIRS, halves);
  let second = select(turned % 2u == 1u, turned >= PAIRS, halves);
  let head = p.x + i - at + FIRST;
  let a = load(head + select(2u * pair, pair, PAIRING == HALVES));
  let b = load(head + select(2u * pair + 1u, pair + PAIRS, PAIRING == HALVES));
  let angle = step_row(i / COLUMNS) * PAIRS + pair;
  let c = load(p.cosines + angle);
  let s = load(p.sines + angle);
  return select(a * c - b * s, b * c + a * s, second);
}
)";

}  // namespace

std::string activation_text(ActivationKind kind, std::string_view name) {
  return fill(kActivations[static_cast<int>(kind)], {{"name", name}});
}

void Emitter::emit(const Add& op) {
  add(elementwise_by_parts("add", "fn part(i: u32) -> Part { return load_part(p.a + i) + load_part(p.b + i); }", op.out,
                           {{"a", op.a}, {"b", op.b}}));
}

void Emitter::emit(const AddBias& op) {
  if (is_row(program_, kFusionLimits, op.out)) return emit_rows(op_, op_ + 1);
  Kernel kernel = elementwise(
      "add_bias", "fn element(i: u32) -> f32 { return load(p.x + i) + factors[p.bias + i % COLUMNS]; }", op.out);
  kernel.params.insert(kernel.params.end(), {{"x", at(op.x)}, {"bias", layout_.factor(op.bias)}});
  kernel.bindings.push_back(factors());
  add(kernel);
}

void Emitter::emit(const Mul& op) {
  add(elementwise_by_parts("mul", "fn part(i: u32) -> Part { return load_part(p.a + i) * load_part(p.b + i); }", op.out,
                           {{"a", op.a}, {"b", op.b}}));
}

void Emitter::emit(const Scale& op) {
  if (op.weight == kNone) {
    Kernel kernel = elementwise_by_parts("scale", "fn part(i: u32) -> Part { return load_part(p.x + i) * p.factor; }",
                                         op.out, {{"x", op.x}});
    kernel.params.push_back({"factor", op.factor});
    return void(add(kernel));
  }
  Kernel kernel = elementwise(
      "scale", "fn element(i: u32) -> f32 { return load(p.x + i) * p.factor * factors[p.weight + i % FACTORS]; }",
      op.out);
  kernel.params.insert(kernel.params.end(),
                       {{"x", at(op.x)}, {"factor", op.factor}, {"weight", layout_.factor(op.weight)}});
  kernel.constants.push_back({"FACTORS", program_.weights[op.weight].shape.columns});
  kernel.bindings.push_back(factors());
  add(kernel);
}

// A NaN stays; see relu above.
void Emitter::emit(const Clamp& op) {
  Kernel kernel = elementwise_by_parts("clamp", R"(
fn clamped(x: f32) -> f32 {
  let low = factors[p.low];
  let high = factors[p.high];
  return select(select(select(x, high, x > high), low, x < low), x, is_nan(x));
}
fn part(i: u32) -> Part { return clamped_part(load_part(p.x + i)); }
)",
                                       op.out, {{"x", op.x}}, "clamped");
  kernel.params.insert(kernel.params.end(), {{"low", layout_.factor(op.low)}, {"high", layout_.factor(op.high)}});
  kernel.bindings.push_back(factors());
  kernel.snippets.emplace_back(kMath);
  add(kernel);
}

void Emitter::emit(const Softcap& op) {
  Kernel kernel =
      elementwise("softcap", "fn element(i: u32) -> f32 { return p.cap * exact_tanh(load(p.x + i) / p.cap); }", op.out);
  kernel.params.insert(kernel.params.end(), {{"x", at(op.x)}, {"cap", op.cap}});
  kernel.snippets = {kMath};
  add(kernel);
}

void Emitter::emit(const Activation& op) {
  Kernel kernel =
      elementwise_by_parts("activation", "fn part(i: u32) -> Part { return activate_part(load_part(p.x + i)); }",
                           op.out, {{"x", op.x}}, "activate");
  kernel.snippets.insert(kernel.snippets.end(), {kMath, activation_text(op.kind)});
  add(kernel);
}

void Emitter::emit(const GatedActivation& op) {
  if (columns(op.gate) == columns(op.out)) {
    Kernel kernel = elementwise_by_parts("gated_activation", R"(
fn part(i: u32) -> Part { return activate_part(load_part(p.gate + i)) * load_part(p.up + i); }
)",
                                         op.out, {{"gate", op.gate}, {"up", op.up}}, "activate");
    kernel.snippets.insert(kernel.snippets.end(), {kMath, activation_text(op.kind)});
    return void(add(kernel));
  }
  Kernel kernel = elementwise("gated_activation", R"(
fn element(i: u32) -> f32 { return activate(load(p.gate + i * GATE_COLUMNS / COLUMNS)) * load(p.up + i); }
)",
                              op.out);
  kernel.constants.push_back({"GATE_COLUMNS", columns(op.gate)});
  kernel.params.insert(kernel.params.end(), {{"gate", at(op.gate)}, {"up", at(op.up)}});
  kernel.snippets = {kMath, activation_text(op.kind)};
  add(kernel);
}

void Emitter::emit(const Rope& op) {
  const RopeDecl& table = program_.ropes[op.table];
  Kernel kernel = elementwise("rope", kRope, op.out);
  kernel.constants.insert(kernel.constants.end(), {{"WIDTH", type(op.x).width},
                                                   {"FIRST", op.first},
                                                   {"PAIRS", static_cast<uint32_t>(table.inverse_frequencies.size())},
                                                   {"PAIRING", static_cast<uint32_t>(table.pairing)},
                                                   {"HALVES", static_cast<uint32_t>(Pairing::halves)},
                                                   {"ADJACENT", static_cast<uint32_t>(Pairing::adjacent)}});
  kernel.params.insert(
      kernel.params.end(),
      {{"x", at(op.x)}, {"cosines", layout_.step().cosines[op.table]}, {"sines", layout_.step().sines[op.table]}});
  use_step_rows(kernel);
  add(kernel);
}

}  // namespace sluice::webgpu
