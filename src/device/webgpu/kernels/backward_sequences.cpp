// short_conv_backward, delta_gates_backward.
#include "device/webgpu/emitter.h"

namespace sluice::webgpu {
namespace {

// A row's sums are made again for each of the rows that they reach: at most TAPS times.
constexpr const char* kConvBackward = R"(
fn is_of(row: u32, sequence_of: u32) -> bool { return row < counts.rows && sequence(min(row, counts.rows - 1u)) == sequence_of; }
fn d_sum(row: u32, channel: u32) -> f32 {
  var sum = 0.0;
  for (var tap = 0u; tap < TAPS; tap++) {
    let back = TAPS - 1u - tap;
    if (back <= row && is_of(row - back, sequence(row))) {
      sum += factors[p.weight + channel * TAPS + tap] * load(p.x + (row - back) * COLUMNS + channel);
    }
  }
  let s = sigmoid(sum);
  return load(p.d_out + row * COLUMNS + channel) * s * (1.0 + sum * (1.0 - s));
}
fn element(i: u32) -> f32 {
  let row = i / COLUMNS;
  let channel = i % COLUMNS;
  var sum = 0.0;
  for (var tap = 0u; tap < TAPS; tap++) {
    let later = row + TAPS - 1u - tap;
    if (is_of(later, sequence(row))) { sum += factors[p.weight + channel * TAPS + tap] * d_sum(later, channel); }
  }
  return sum;
}
)";

}  // namespace

void Emitter::emit(const ShortConvBackward& op) {
  Kernel kernel = elementwise("short_conv_backward", kConvBackward, op.d_x);
  kernel.constants.push_back({"TAPS", program_.weights[op.weight].shape.columns});
  kernel.params.insert(kernel.params.end(),
                       {{"x", at(op.x)}, {"d_out", at(op.d_out)}, {"weight", layout_.factor(op.weight)}});
  kernel.bindings.push_back(factors());
  kernel.snippets = {kMath};
  use_step_rows(kernel);
  add(kernel);
}

void Emitter::emit(const DeltaGatesBackward& op) {
  Kernel a = elementwise("delta_gates_backward_a", R"(
fn element(i: u32) -> f32 {
  let head = i % COLUMNS;
  return load(p.d_decay + i) * factors[p.rate + head] * sigmoid(load(p.a + i) + factors[p.rate_bias + head]);
}
)",
                         op.d_a);
  a.params.insert(a.params.end(), {{"a", at(op.a)},
                                   {"d_decay", at(op.d_decay)},
                                   {"rate", layout_.factor(op.rate)},
                                   {"rate_bias", layout_.factor(op.bias)}});
  a.bindings.push_back(factors());
  a.snippets = {kMath};
  add(a);
  Kernel b = elementwise("delta_gates_backward_b", R"(
fn element(i: u32) -> f32 {
  let beta = sigmoid(load(p.b + i));
  return load(p.d_beta + i) * beta * (1.0 - beta);
}
)",
                         op.d_b);
  b.params.insert(b.params.end(), {{"b", at(op.b)}, {"d_beta", at(op.d_beta)}});
  b.snippets = {kMath};
  add(b);
}

}  // namespace sluice::webgpu
