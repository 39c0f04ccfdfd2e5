// rms_norm, l2_norm, layer_norm: one workgroup for each head. A thread adds every kThreads-th square, and then the
// threads' sums are added as a tree.
#include "base/text.h"
#include "device/webgpu/emitter.h"

namespace sluice::webgpu {
namespace {

constexpr const char* kNorm = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let head = group_index(group, groups);
  if (head >= rows() * HEADS) { return; }
  let begin = head * WIDTH;
  var squares = 0.0;
  for (var i = thread; i < WIDTH; i += THREADS) {
    let x = load(p.x + begin + i);
    squares += x * x;
  }
  let root = sqrt(sum_all(squares, thread) / DIVISOR + p.eps);
  for (var i = thread; i < WIDTH; i += THREADS) { store(p.out + begin + i, weighted(load(p.x + begin + i) / root, i)); }
}
)";

constexpr const char* kLayerNorm = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let head = group_index(group, groups);
  if (head >= rows() * HEADS) { return; }
  let begin = head * WIDTH;
  var sum = 0.0;
  for (var i = thread; i < WIDTH; i += THREADS) { sum += load(p.x + begin + i); }
  let mean = sum_all(sum, thread) / f32(WIDTH);
  // The rounding error of the mean can be as large as the differences between nearly equal numbers, so the mean of the
  // differences is subtracted, too.
  sum = 0.0;
  for (var i = thread; i < WIDTH; i += THREADS) { sum += load(p.x + begin + i) - mean; }
  let left = sum_all(sum, thread) / f32(WIDTH);
  var squares = 0.0;
  for (var i = thread; i < WIDTH; i += THREADS) {
    let x = load(p.x + begin + i) - mean - left;
    squares += x * x;
  }
  let root = sqrt(sum_all(squares, thread) / f32(WIDTH) + p.eps);
  for (var i = thread; i < WIDTH; i += THREADS) {
    store(p.out + begin + i, weighted((load(p.x + begin + i) - mean - left) / root, i));
  }
}
)";

}  // namespace

Kernel Emitter::norm(const char* name, ValueId x, ValueId out, float eps) const {
  Kernel kernel{.name = name, .body = kNorm, .extent = type(x).extent};
  kernel.constants = {{"HEADS", type(x).heads}, {"WIDTH", type(x).width}};
  kernel.params = {{"x", at(x)}, {"out", at(out)}, {"eps", eps}};
  kernel.bindings = {memory()};
  use_reduce(kernel, adapter_);
  kernel.grid = {.items = type(x).heads};
  return kernel;
}

void Emitter::use_weighted(Kernel& kernel, WeightId weight) const {
  if (weight == kNone) {
    kernel.snippets.emplace_back("fn weighted(x: f32, i: u32) -> f32 { return x; }\n");
    return;
  }
  kernel.params.push_back({"weight", layout_.factor(weight)});
  kernel.bindings.push_back(factors());
  kernel.snippets.emplace_back("fn weighted(x: f32, i: u32) -> f32 { return x * factors[p.weight + i]; }\n");
}

void Emitter::emit(const RmsNorm& op) {
  if (type(op.x).heads == 1 && is_row(program_, kFusionLimits, op.out)) return emit_rows(op_, op_ + 1);
  Kernel kernel = norm("rms_norm", op.x, op.out, op.eps);
  kernel.constants.push_back({"DIVISOR", static_cast<float>(type(op.x).width)});
  use_weighted(kernel, op.weight);
  add(kernel);
}

void Emitter::emit(const L2Norm& op) {
  Kernel kernel = norm("l2_norm", op.x, op.out, op.eps);
  kernel.constants.push_back({"DIVISOR", 1.0f});
  use_weighted(kernel, kNone);
  add(kernel);
}

void Emitter::emit(const LayerNorm& op) {
  if (type(op.x).heads == 1 && is_row(program_, kFusionLimits, op.out)) return emit_rows(op_, op_ + 1);
  Kernel kernel = norm("layer_norm", op.x, op.out, op.eps);
  kernel.body = kLayerNorm;
  const auto factor = [&](const char* name, WeightId id) {
    if (id == kNone) return false;
    if (kernel.bindings.size() == 1) kernel.bindings.push_back(factors());
    kernel.params.push_back({name, layout_.factor(id)});
    return true;
  };
  const bool weighted = factor("weight", op.weight), biased = factor("bias", op.bias);
  kernel.snippets.push_back(cat("fn weighted(x: f32, i: u32) -> f32 { return x",
                                weighted ? " * factors[p.weight + i]" : "", biased ? " + factors[p.bias + i]" : "",
                                "; }\n"));
  add(kernel);
}

}  // namespace sluice::webgpu
