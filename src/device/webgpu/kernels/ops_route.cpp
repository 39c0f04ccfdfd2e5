// route: one workgroup for each row. It keeps all choice scores in workgroup memory, as keys that sort like numbers.
// For each score its threads count the scores before it: larger ones, and equal ones with a lower index.
#include <algorithm>
#include <bit>

#include "device/webgpu/emitter.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kMostThreads = 256;

// 1 is the key of an expert that is left out.
constexpr const char* kRoute = R"(
const FOURS = (EXPERTS + 15u) / 16u * 4u;  // vectors of keys; padding sorts behind all experts
var<workgroup> keys: array<vec4u, FOURS>;
var<workgroup> own_logits: array<f32, EXPERTS>;
var<workgroup> weights: array<f32, CHOSEN>;
var<workgroup> group_score: array<f32, GROUPS>;
var<workgroup> is_left_out: array<u32, GROUPS>;
var<workgroup> chosen: array<u32, CHOSEN>;

fn key(expert: u32) -> u32 { return keys[expert / 4u][expert % 4u]; }
fn choice_score(x: f32, expert: u32) -> f32 {
  if (IS_SIGMOID == 0u) { return x; }
  return sigmoid(x) + bias(expert);
}
fn probability(expert: u32, largest: f32) -> f32 {
  let x = own_logits[expert];
  if (is_nan(x)) { return x; }
  if (IS_SIGMOID == 1u) { return sigmoid(x); }
  return exact_exp(x - largest);
}

// Finds each expert's place in the order of keys, the largest first. Keys are read 16 at once.
fn choose_best(thread: u32) {
  for (var e = thread; e < EXPERTS; e += THREADS) {
    let own = key(e);
    var before = vec4u();
    for (var four = 0u; four < FOURS; four += 4u) {
      var others = array<vec4u, 4>(keys[four], keys[four + 1u], keys[four + 2u], keys[four + 3u]);
      for (var i = 0u; i < 4u; i++) {
        let index = vec4u(0u, 1u, 2u, 3u) + (four + i) * 4u;
        let is_equal = (others[i] == vec4u(own)) & (index < vec4u(e));
        before += select(vec4u(0u), vec4u(1u), (others[i] > vec4u(own)) | is_equal);
      }
    }
    let place = before.x + before.y + before.z + before.w;
    if (place < CHOSEN) { chosen[place] = e; }
  }
}

// Leaves out the experts of all but the best groups. A group's score is the sum of its two largest.
fn keep_best_groups(thread: u32) {
  const kSize = EXPERTS / GROUPS;
  for (var g = thread; g < GROUPS; g += THREADS) {
    var first = 0u;
    var second = 0u;
    for (var e = g * kSize; e < (g + 1u) * kSize; e++) {
      let own = key(e);
      if (own > first) { second = first; first = own; } else if (own > second) { second = own; }
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
    is_left_out[g] = u32(better >= GROUPS_USED);
  }
  workgroupBarrier();
  for (var four = thread; four < FOURS; four += THREADS) {
    var own = keys[four];
    for (var i = 0u; i < 4u; i++) {
      let expert = four * 4u + i;
      if (expert < EXPERTS && is_left_out[min(expert / kSize, GROUPS - 1u)] == 1u) { own[i] = 1u; }
    }
    keys[four] = own;
  }
  workgroupBarrier();
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let row = group_index(group, groups);
  if (row >= rows()) { return; }
  for (var four = thread; four < FOURS; four += THREADS) {
    var own = vec4u();
    for (var i = 0u; i < 4u; i++) {
      let expert = four * 4u + i;
      if (expert >= EXPERTS) { break; }
      let x = load(p.logits + row * EXPERTS + expert);
      own_logits[expert] = x;
      own[i] = key_of(choice_score(x, expert));
    }
    keys[four] = own;
  }
  workgroupBarrier();
  if (GROUPS_USED < GROUPS) { keep_best_groups(thread); }
  choose_best(thread);
  workgroupBarrier();
  let largest = own_logits[chosen[0]];
  for (var i = thread; i < CHOSEN; i += THREADS) { weights[i] = probability(chosen[i], largest); }
  workgroupBarrier();
  var sum = 1.0;
  if (IS_NORMALISED == 1u) {
    sum = 0.0;
    for (var i = 0u; i < CHOSEN; i++) { sum += weights[i]; }
    if (IS_SIGMOID == 1u) { sum += 1e-20; }
  } else if (IS_SIGMOID == 0u) {
    var part = 0.0;
    for (var e = thread; e < EXPERTS; e += THREADS) { part += probability(e, largest); }
    sum = sum_all(part, thread);
  }
  for (var i = thread; i < CHOSEN; i += THREADS) {
    memory[p.index + row * CHOSEN + i] = chosen[i];
    let weight = weights[i] / sum * p.scale * expert_scale(chosen[i]);
    // A driver may replace x - x by 0 and x / x by 1 even for a NaN, so a NaN is passed on explicitly.
    store(p.weight + row * CHOSEN + i, select(weight, weights[i], is_nan(weights[i])));
  }
}
)";

}  // namespace

void Emitter::emit(const Route& op) {
  const uint32_t threads = std::clamp(std::bit_ceil(columns(op.logits)), kThreads, kMostThreads);
  Kernel kernel{.name = "route", .body = kRoute, .extent = type(op.logits).extent, .threads = threads};
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
