// route: a workgroup a row. Its threads hold all choice scores on chip as keys that sort as numbers do, and find the
// largest key, equal ones the lowest index first, once for each expert chosen.
#include "device/webgpu/emitter.h"

namespace sluice::webgpu {
namespace {

// 0 is the key of an expert that is taken, 1 of one that is left out.
constexpr const char* kRoute = R"(
var<workgroup> keys: array<u32, EXPERTS>;
var<workgroup> group_score: array<f32, GROUPS>;
var<workgroup> chosen: array<u32, CHOSEN>;

fn choice_score(logits: u32, expert: u32) -> f32 {
  let x = load(logits + expert);
  if (IS_SIGMOID == 0u) { return x; }
  return sigmoid(x) + bias(expert);
}
fn probability(logits: u32, expert: u32, largest: f32) -> f32 {
  let x = load(logits + expert);
  if (IS_SIGMOID == 1u) { return sigmoid(x); }
  return exact_exp(x - largest);
}

// Marks it as taken; every thread knows it.
fn take_best(thread: u32) -> u32 {
  var key = 0u;
  var index = 0xffffffffu;
  for (var e = thread; e < EXPERTS; e += THREADS) {
    if (keys[e] > key) { key = keys[e]; index = e; }
  }
  let found = min(best_of_all(Token(key, index), thread).index, EXPERTS - 1u);
  workgroupBarrier();
  if (thread == 0u) { keys[found] = 0u; }
  workgroupBarrier();
  return found;
}

// Leaves out the experts of all but the best groups. A group's score is the sum of its two largest.
fn keep_best_groups(thread: u32) {
  const kSize = EXPERTS / GROUPS;
  for (var g = thread; g < GROUPS; g += THREADS) {
    var first = 0u;
    var second = 0u;
    for (var e = g * kSize; e < (g + 1u) * kSize; e++) {
      let key = keys[e];
      if (key > first) { second = first; first = key; } else if (key > second) { second = key; }
    }
    group_score[g] = number_of(first);
    if (kSize > 1u) { group_score[g] += number_of(second); }
  }
  workgroupBarrier();
  for (var g = thread; g < GROUPS; g += THREADS) {
    var better = 0u;
    for (var other = 0u; other < GROUPS; other++) {
      let is_better = group_score[other] > group_score[g] || (group_score[other] == group_score[g] && other < g);
      if (is_better) { better++; }
    }
    if (better >= GROUPS_USED) {
      for (var e = g * kSize; e < (g + 1u) * kSize; e++) { keys[e] = 1u; }
    }
  }
  workgroupBarrier();
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let row = group_index(group, groups);
  if (row >= rows()) { return; }
  let logits = p.logits + row * EXPERTS;
  for (var e = thread; e < EXPERTS; e += THREADS) { keys[e] = key_of(choice_score(logits, e)); }
  workgroupBarrier();
  if (GROUPS_USED < GROUPS) { keep_best_groups(thread); }
  for (var i = 0u; i < CHOSEN; i++) {
    let expert = take_best(thread);
    if (thread == 0u) { chosen[i] = expert; }
  }
  workgroupBarrier();
  let largest = load(logits + chosen[0]);
  var sum = 1.0;
  if (IS_NORMALISED == 1u) {
    sum = 0.0;
    for (var i = 0u; i < CHOSEN; i++) { sum += probability(logits, chosen[i], largest); }
    if (IS_SIGMOID == 1u) { sum += 1e-20; }
  } else if (IS_SIGMOID == 0u) {
    var part = 0.0;
    for (var e = thread; e < EXPERTS; e += THREADS) { part += probability(logits, e, largest); }
    sum = sum_all(part, thread);
  }
  for (var i = thread; i < CHOSEN; i += THREADS) {
    let expert = chosen[i];
    memory[p.index + row * CHOSEN + i] = expert;
    store(p.weight + row * CHOSEN + i, probability(logits, expert, largest) / sum * p.scale * expert_scale(expert));
  }
}
)";

}  // namespace

void Emitter::emit(const Route& op) {
  Kernel kernel{.name = "route", .body = kRoute, .extent = type(op.logits).extent};
  kernel.constants = {{"EXPERTS", columns(op.logits)},
                      {"CHOSEN", op.k},
                      {"GROUPS", op.groups},
                      {"GROUPS_USED", op.groups_used},
                      {"IS_SIGMOID", op.scoring == Scoring::sigmoid ? 1u : 0u},
                      {"IS_NORMALISED", op.normalise ? 1u : 0u}};
  kernel.params = {{"logits", at(op.logits)}, {"index", at(op.index)}, {"weight", at(op.weight)}, {"scale", op.scale}};
  kernel.bindings = {memory()};
  kernel.snippets = {kMath, kSortKeys};
  use_reduce(kernel, adapter_);
  use_best(kernel, adapter_);
  const auto factor = [&](const char* function, const char* param, WeightId id, const char* none) {
    if (id == kNone) {
      kernel.snippets.push_back(cat("fn ", function, "(expert: u32) -> f32 { return ", none, "; }\n"));
      return;
    }
    kernel.params.push_back({param, layout_.factor(id)});
    if (kernel.bindings.size() == 1) kernel.bindings.push_back(factors());
    kernel.snippets.push_back(
        cat("fn ", function, "(expert: u32) -> f32 { return factors[p.", param, " + expert]; }\n"));
  };
  factor("bias", "bias_at", op.bias, "0.0");
  factor("expert_scale", "expert_scale_at", op.per_expert_scale, "1.0");
  add(kernel);
}

}  // namespace sluice::webgpu
