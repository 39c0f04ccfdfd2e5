// route, experts: mixture-of-experts layers.
#pragma once

#include <vector>

#include "base/result.h"
#include "graph/op_doc.h"
#include "graph/ops/adapter.h"
#include "graph/ops/elementwise.h"
#include "graph/value.h"

namespace sluice {

struct OpCase;
struct Program;

enum class Scoring : uint8_t { softmax, sigmoid };

// Chooses k experts for each row. With softmax, choosing by logits is choosing by p without the ties that underflow
// makes. Groups are runs of as many experts each; only those of the best `groups_used` groups are chosen from.
struct Route {
  ValueId logits = kNone;
  uint32_t k = 0;
  Scoring scoring = Scoring::softmax;
  bool normalise = true;
  float scale = 1.0f;
  uint32_t groups = 1;
  uint32_t groups_used = 1;
  WeightId bias = kNone;              // of sigmoid: added for choosing only; or kNone
  WeightId per_expert_scale = kNone;  // or kNone
  ValueId index = kNone;
  ValueId weight = kNone;

  static constexpr OpDoc kDoc = {
      .name = "route",
      .formula =
          "softmax: p = softmax(logits[r]) over all experts, c = logits[r]\n"
          "sigmoid: p = sigmoid(logits[r]), c = p + bias\n"
          "a group's score = the sum of its two largest c; c of all but the groups_used best groups = -infinity\n"
          "index[r] = the k largest c, in that order (groups and experts: ties to the lower index)\n"
          "weight[r][i] = scale p[index[r][i]] / (normalise ? sum of the chosen p : 1) "
          "per_expert_scale[index[r][i]], the sum with 1e-20 more for sigmoid",
      .source =
          "Shazeer et al. 2017 (arXiv:1701.06538); transformers Gemma4TextRouter (per-expert scale after the "
          "renormalisation, none after it); DeepSeek-V3 (arXiv:2412.19437) section 2.1.2, transformers "
          "DeepseekV3TopkRouter",
      .tolerance = {.exact = 1e-5f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "routers are f32 in both arithmetics: exp within 2 ulp and one sum; indices are equal",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("logits", logits, "f32 [extent, experts]");
    v.weight("bias", bias, "[1, experts], or none");
    v.weight("per_expert_scale", per_expert_scale, "[1, experts], or none");
    v.output("index", index, "i32 [extent, k], in [0, experts) whatever the logits are");
    v.output("weight", weight, "f32 [extent, k]");
  }
  ValueType index_result(const Program& program) const;
  ValueType weight_result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

// The adapters of the three products (adapter.h). A product without one has kNone for both factors.
struct ExpertAdapters {
  WeightId gate_a = kNone, gate_b = kNone;
  WeightId up_a = kNone, up_b = kNone;
  WeightId down_a = kNone, down_b = kNone;
  ValueId slots = kNone;
  ValueId scales = kNone;

  explicit operator bool() const { return slots != kNone; }
  AdapterOperand gate() const { return {.a = gate_a, .b = gate_b, .slots = slots, .scales = scales}; }
  AdapterOperand up() const { return {.a = up_a, .b = up_b, .slots = slots, .scales = scales}; }
  AdapterOperand down() const { return {.a = down_a, .b = down_b, .slots = slots, .scales = scales}; }

  template <class Visitor>
  void operands(Visitor& v) const {
    v.weight("gate_a", gate_a, "slots x experts x [rank, hidden], or none: no adapter");
    v.weight("gate_b", gate_b, "slots x experts x [width, rank]");
    v.weight("up_a", up_a, "slots x experts x [rank, hidden], or none");
    v.weight("up_b", up_b, "slots x experts x [width, rank]");
    v.weight("down_a", down_a, "slots x experts x [rank, width], or none");
    v.weight("down_b", down_b, "slots x experts x [hidden, rank]");
    v.input("adapter.slots", slots, "i32 [rows, 1], for each row of the step: 0 for no adapter, or 1 + a slot");
    v.input("adapter.scales", scales, "f32 [rows, 1]");
  }
};

// The weighted sum of the chosen experts' gated MLPs, added in ascending expert index.
struct Experts {
  ValueId x = kNone;
  ValueId index = kNone;
  ValueId weight = kNone;
  WeightId gate = kNone;
  WeightId up = kNone;
  WeightId down = kNone;
  ActivationKind kind = ActivationKind::gelu_tanh;
  ExpertAdapters adapters{};
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "experts",
      .formula =
          "out[r] = sum_e weight[r][e] down_e(kind(gate_e x[r]) * up_e x[r]), "
          "e over index[r] in ascending order, kind as in activation\n"
          "with an adapter, where r has a slot s and a scale other than 0, each of the three products W_e y is\n"
          "(W_e y) + scale[r] b[s][e] (a[s][e] y)",
      .source =
          "Shazeer et al. 2017 (arXiv:1701.06538); transformers Gemma4TextExperts. The adapters: Hu et al. 2021 "
          "(arXiv:2106.09685)",
      .tolerance = {.exact = 2e-5f, .fast = 2e-2f, .fast_8bit = 6e-2f},
      .reason = "two linears in a row: twice linear's tolerance",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, hidden]");
    v.input("index", index, "i32 [extent, k], distinct in a row");
    v.input("weight", weight, "f32 [extent, k]");
    v.weight("gate", gate, "experts x [width, hidden]");
    v.weight("up", up, "experts x [width, hidden]");
    v.weight("down", down, "experts x [hidden, width]");
    adapters.operands(v);
    v.output("out", out, "f32 [extent, hidden]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

}  // namespace sluice
