// Gradients of ops that treat each row by itself, and what they are made of: a thread for each element, or a workgroup
// for each head or row.
#include "base/text.h"
#include "device/webgpu/emitter.h"

namespace sluice::webgpu {
namespace {

// slope(x) is the derivative of the activation, in the order of ActivationKind.
const char* slope_text(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::gelu_tanh:
      return R"(
fn slope(x: f32) -> f32 {
  let t = exact_tanh(0.7978845608 * fma(x * x, 0.044715 * x, x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * 0.7978845608 * fma(x * x, 0.134145, 1.0);
}
)";
    case ActivationKind::silu:
      return R"(
fn slope(x: f32) -> f32 {
  let s = sigmoid(x);
  return s * (1.0 + x * (1.0 - s));
}
)";
    case ActivationKind::sigmoid:
      return R"(
fn slope(x: f32) -> f32 {
  let s = sigmoid(x);
  return s * (1.0 - s);
}
)";
    case ActivationKind::relu:
    case ActivationKind::gelu: break;  // check() refuses them
  }
  CHECK(false);
  return "";
}

constexpr const char* kNormBackward = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let head = group_index(group, groups);
  if (head >= rows() * HEADS) { return; }
  let begin = head * WIDTH;
  var squares = 0.0;
  var both = 0.0;
  for (var i = thread; i < WIDTH; i += THREADS) {
    let x = load(p.x + begin + i);
    squares += x * x;
    both += weighted(load(p.d_out + begin + i), i) * x;
  }
  let root = sqrt(sum_all(squares, thread) / DIVISOR + p.eps);
  let share = sum_all(both, thread) / (DIVISOR * root * root);
  for (var i = thread; i < WIDTH; i += THREADS) {
    store(p.out + begin + i, (weighted(load(p.d_out + begin + i), i) - load(p.x + begin + i) * share) / root);
  }
}
)";

constexpr const char* kRopeBackward = R"(
fn element(i: u32) -> f32 {
  let at = i % WIDTH;
  if (at < FIRST || at >= FIRST + 2u * PAIRS) { return load(p.d_out + i); }
  let turned = at - FIRST;
  // The element's pair in x, whose elements lie as in the result or, for pairs that rope takes apart, side by side.
  let side_by_side = PAIRING != HALVES;
  let pair = select(turned % PAIRS, turned / 2u, side_by_side);
  let second = select(turned >= PAIRS, turned % 2u == 1u, side_by_side);
  let head = p.d_out + i - at + FIRST;
  let c = load(head + select(pair, 2u * pair, PAIRING == ADJACENT));
  let d = load(head + select(pair + PAIRS, 2u * pair + 1u, PAIRING == ADJACENT));
  let angle = step_row(i / COLUMNS) * PAIRS + pair;
  let cosine = load(p.cosines + angle);
  let sine = load(p.sines + angle);
  return select(c * cosine + d * sine, d * cosine - c * sine, second);
}
)";

constexpr const char* kRouteBackward = R"(
fn choice(row: u32, i: u32) -> u32 { return word(p.index + row * CHOSEN + i); }
fn gradient(row: u32, i: u32) -> f32 {
  return load(p.d_weight + row * CHOSEN + i) * p.scale * expert_scale(choice(row, i));
}
fn probability(row: u32, expert: u32, largest: f32) -> f32 {
  let x = load(p.logits + row * EXPERTS + expert);
  if (IS_SIGMOID == 1u) { return sigmoid(x); }
  return exact_exp(x - largest);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let row = group_index(group, groups);
  if (row >= rows()) { return; }
  var own = -3.0e38;
  for (var e = thread; e < EXPERTS; e += THREADS) { own = max(own, load(p.logits + row * EXPERTS + e)); }
  let largest = max_all(own, thread);
  var part = 0.0;
  for (var e = thread; e < EXPERTS; e += THREADS) { part += probability(row, e, largest); }
  var sum = sum_all(part, thread);
  if (IS_NORMALISED == 1u) {
    sum = select(0.0, 1e-20, IS_SIGMOID == 1u);
    for (var i = 0u; i < CHOSEN; i++) { sum += probability(row, choice(row, i), largest); }
  } else if (IS_SIGMOID == 1u) {
    sum = 1.0;
  }
  var mixed = 0.0;
  for (var i = 0u; i < CHOSEN; i++) { mixed += probability(row, choice(row, i), largest) / sum * gradient(row, i); }
  for (var e = thread; e < EXPERTS; e += THREADS) {
    var g = 0.0;
    var counts_here = IS_SIGMOID == 0u && IS_NORMALISED == 0u;
    for (var i = 0u; i < CHOSEN; i++) {
      if (choice(row, i) == e) {
        g = gradient(row, i);
        counts_here = true;
      }
    }
    var d = g;
    if (IS_SIGMOID == 0u || IS_NORMALISED == 1u) { d = (g - mixed) / sum; }
    let x = probability(row, e, largest);
    d *= x;
    if (IS_SIGMOID == 1u) { d *= 1.0 - x; }
    store(p.out + row * EXPERTS + e, select(0.0, d, counts_here));
  }
}
)";

}  // namespace

void Emitter::emit(const NormBackward& op) {
  Kernel kernel = norm("norm_backward", op.x, op.d_x, op.eps);
  kernel.body = kNormBackward;
  kernel.constants.push_back({"DIVISOR", op.mean ? static_cast<float>(type(op.x).width) : 1.0f});
  kernel.params.push_back({"d_out", at(op.d_out)});
  use_weighted(kernel, op.weight);
  add(kernel);
}

void Emitter::emit(const ActivationBackward& op) {
  Kernel kernel = elementwise_by_parts("activation_backward", R"(
fn part(i: u32) -> Part { return load_part(p.d_out + i) * slope_part(load_part(p.x + i)); }
)",
                                       op.d_x, {{"x", op.x}, {"d_out", op.d_out}}, "slope");
  kernel.snippets.insert(kernel.snippets.end(), {kMath, slope_text(op.kind)});
  add(kernel);
}

void Emitter::emit(const RopeBackward& op) {
  const RopeDecl& table = program_.ropes[op.table];
  Kernel kernel = elementwise("rope_backward", kRopeBackward, op.d_x);
  kernel.constants.insert(kernel.constants.end(), {{"WIDTH", type(op.d_out).width},
                                                   {"FIRST", op.first},
                                                   {"PAIRS", static_cast<uint32_t>(table.inverse_frequencies.size())},
                                                   {"PAIRING", static_cast<uint32_t>(table.pairing)},
                                                   {"HALVES", static_cast<uint32_t>(Pairing::halves)},
                                                   {"ADJACENT", static_cast<uint32_t>(Pairing::adjacent)}});
  kernel.params.insert(kernel.params.end(), {{"d_out", at(op.d_out)},
                                             {"cosines", layout_.step().cosines[op.table]},
                                             {"sines", layout_.step().sines[op.table]}});
  use_step_rows(kernel);
  add(kernel);
}

void Emitter::emit(const Broadcast& op) {
  Kernel kernel = elementwise("broadcast", R"(
fn element(i: u32) -> f32 {
  let row = i / COLUMNS;
  return p.factor * share(i / WIDTH) * load(p.x + row * WIDTH + i % WIDTH);
}
)",
                              op.out);
  kernel.constants.push_back({"WIDTH", type(op.x).width});
  kernel.params.insert(kernel.params.end(), {{"x", at(op.x)}, {"factor", op.factor}});
  use_shares(kernel, op.shares);
  add(kernel);
}

void Emitter::emit(const Dots& op) {
  Kernel kernel = elementwise("dots", R"(
fn element(i: u32) -> f32 {
  var sum = 0.0;
  for (var at = 0u; at < WIDTH; at++) {
    sum = fma(load(p.a + i * WIDTH + at), load(p.b + i / COLUMNS * WIDTH + at), sum);
  }
  return sum * p.factor;
}
)",
                              op.out);
  kernel.constants.push_back({"WIDTH", type(op.a).width});
  kernel.params.insert(kernel.params.end(), {{"a", at(op.a)}, {"b", at(op.b)}, {"factor", op.factor}});
  add(kernel);
}

void Emitter::emit(const SliceBackward& op) {
  Kernel kernel = elementwise("slice_backward", R"(
fn element(i: u32) -> f32 {
  let head = i % COLUMNS / WIDTH;
  if (head < p.first_head || (head - p.first_head) % p.stride != 0u) { return 0.0; }
  let own = (head - p.first_head) / p.stride;
  if (own >= PART_HEADS) { return 0.0; }
  return load(p.d_out + (i / COLUMNS * PART_HEADS + own) * WIDTH + i % WIDTH);
}
)",
                              op.d_x);
  kernel.constants.insert(kernel.constants.end(),
                          {{"WIDTH", type(op.d_out).width}, {"PART_HEADS", type(op.d_out).heads}});
  kernel.params.insert(kernel.params.end(),
                       {{"d_out", at(op.d_out)}, {"first_head", op.first_head}, {"stride", op.stride}});
  add(kernel);
}

// The wanted rows are ascending, so a row is found by halving.
void Emitter::emit(const GatherBackward& op) {
  Kernel kernel = elementwise("gather_backward", R"(
fn element(i: u32) -> f32 {
  let row = i / COLUMNS;
  var low = 0u;
  var high = counts.wanted;
  while (low < high) {
    let middle = (low + high) / 2u;
    if (word(p.index + middle) < row) { low = middle + 1u; } else { high = middle; }
  }
  if (low >= counts.wanted || word(p.index + low) != row) { return 0.0; }
  return load(p.d_out + low * COLUMNS + i % COLUMNS);
}
)",
                              op.d_x);
  kernel.params.insert(kernel.params.end(), {{"d_out", at(op.d_out)}, {"index", at(op.index)}});
  add(kernel);
}

void Emitter::emit(const Join& op) {
  Kernel kernel = elementwise("join", R"(
fn element(i: u32) -> f32 {
  let at = i % (OWN + SHARED);
  let head = i / (OWN + SHARED);
  if (at < OWN) { return load(p.own + head * OWN + at); }
  return load(p.shared_part + head / HEADS * SHARED + at - OWN);
}
)",
                              op.out);
  kernel.constants.insert(
      kernel.constants.end(),
      {{"OWN", type(op.own).width}, {"SHARED", type(op.shared).width}, {"HEADS", type(op.own).heads}});
  kernel.params.insert(kernel.params.end(), {{"own", at(op.own)}, {"shared_part", at(op.shared)}});
  add(kernel);
}

void Emitter::emit(const JoinBackward& op) {
  const auto use = [&](Kernel& kernel) {
    kernel.constants.insert(
        kernel.constants.end(),
        {{"OWN", type(op.d_own).width}, {"SHARED", type(op.d_shared).width}, {"HEADS", type(op.d_own).heads}});
    kernel.params.push_back({"d_out", at(op.d_out)});
    add(kernel);
  };
  Kernel own = elementwise("join_backward_own", R"(
fn element(i: u32) -> f32 { return load(p.d_out + i / OWN * (OWN + SHARED) + i % OWN); }
)",
                           op.d_own);
  Kernel shared = elementwise("join_backward_shared", R"(
fn element(i: u32) -> f32 {
  var sum = 0.0;
  for (var head = 0u; head < HEADS; head++) {
    sum += load(p.d_out + (i / SHARED * HEADS + head) * (OWN + SHARED) + OWN + i % SHARED);
  }
  return sum;
}
)",
                              op.d_shared);
  use(own);
  use(shared);
}

void Emitter::emit(const RouteBackward& op) {
  Kernel kernel{.name = "route_backward", .body = kRouteBackward, .extent = type(op.logits).extent};
  kernel.constants = {{"EXPERTS", columns(op.logits)},
                      {"CHOSEN", columns(op.index)},
                      {"IS_SIGMOID", op.scoring == Scoring::sigmoid ? 1u : 0u},
                      {"IS_NORMALISED", op.normalise ? 1u : 0u}};
  kernel.params = {{"logits", at(op.logits)},
                   {"index", at(op.index)},
                   {"d_weight", at(op.d_weight)},
                   {"out", at(op.d_logits)},
                   {"scale", op.scale}};
  kernel.bindings = {memory()};
  kernel.snippets = {kMath};
  use_reduce(kernel, adapter_);
  if (op.per_expert_scale == kNone) {
    kernel.snippets.emplace_back("fn expert_scale(expert: u32) -> f32 { return 1.0; }\n");
  } else {
    kernel.params.push_back({"expert_scale_at", layout_.factor(op.per_expert_scale)});
    kernel.bindings.push_back(factors());
    kernel.snippets.emplace_back(
        "fn expert_scale(expert: u32) -> f32 { return factors[p.expert_scale_at + expert]; }\n");
  }
  add(kernel);
}

}  // namespace sluice::webgpu
