// rms_norm, l2_norm and layer_norm, over each head's width; weights are applied as stored (no 1 + w).
#pragma once

#include <vector>

#include "base/result.h"
#include "graph/op_doc.h"
#include "graph/value.h"

namespace sluice {

struct OpCase;
struct Program;

struct RmsNorm {
  ValueId x = kNone;
  WeightId weight = kNone;  // or kNone
  float eps = 1e-6f;        // inside the root
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "rms_norm",
      .formula = "out[r][h][i] = x[r][h][i] / sqrt(mean_i(x[r][h][i]^2) + eps) weight[i]",
      .source = "Zhang and Sennrich 2019 (arXiv:1910.07467), eps inside the root",
      .tolerance = {.exact = 1e-5f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "norms are f32 in both arithmetics: an f32 sum in another order, one root",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, heads, width]");
    v.weight("weight", weight, "[1, width], or none: no factor");
    v.output("out", out, "as x");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct L2Norm {
  ValueId x = kNone;
  float eps = 1e-6f;  // inside the root
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "l2_norm",
      .formula = "out[r][h][i] = x[r][h][i] / sqrt(sum_i x[r][h][i]^2 + eps)",
      .source = "queries and keys of the gated delta rule: transformers modeling_qwen3_next.py, l2norm",
      .tolerance = {.exact = 1e-5f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "norms are f32 in both arithmetics: an f32 sum in another order, one root",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, heads, width]");
    v.output("out", out, "as x");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct LayerNorm {
  ValueId x = kNone;
  WeightId weight = kNone;  // or kNone
  WeightId bias = kNone;    // or kNone
  float eps = 1e-6f;        // inside the root
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "layer_norm",
      .formula =
          "m = mean_i(x[r][h][i])\n"
          "out[r][h][i] = (x[r][h][i] - m) / sqrt(mean_i((x[r][h][i] - m)^2) + eps) weight[i] + bias[i]",
      .source = "Ba, Kiros and Hinton 2016 (arXiv:1607.06450); the variance as torch.nn.LayerNorm has it",
      .tolerance = {.exact = 1e-5f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "norms are f32 in both arithmetics: two f32 sums in another order, one root",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, heads, width]");
    v.weight("weight", weight, "[1, width], or none: no factor");
    v.weight("bias", bias, "[1, width], or none");
    v.output("out", out, "as x");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

}  // namespace sluice
