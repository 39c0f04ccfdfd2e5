// Gradients of ops that treat each row by itself, and what they are made of. `d_out` is the gradient of an op's
// result, `d_x` that of its input x.
#pragma once

#include <vector>

#include "base/result.h"
#include "graph/op_doc.h"
#include "graph/ops/elementwise.h"
#include "graph/ops/experts.h"
#include "graph/value.h"

namespace sluice {

struct OpCase;
struct Program;

struct NormBackward {
  ValueId x = kNone;
  WeightId weight = kNone;  // or kNone
  float eps = 1e-6f;
  bool mean = true;  // of rms_norm, else of l2_norm
  ValueId d_out = kNone;
  ValueId d_x = kNone;

  static constexpr OpDoc kDoc = {
      .name = "norm_backward",
      .formula =
          "of each head: g[i] = d_out[i] weight[i], s = mean ? width : 1, n = sqrt(sum_i x[i]^2 / s + eps)\n"
          "d_x[i] = g[i] / n - x[i] sum_j(g[j] x[j]) / (s n^3)",
      .source = "the derivative of rms_norm and l2_norm",
      .tolerance = {.exact = 2e-5f, .fast = 2e-5f, .fast_8bit = 2e-5f},
      .reason = "f32 in both arithmetics: two f32 sums in another order, one root, one difference",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, heads, width]");
    v.weight("weight", weight, "[1, width], or none: no factor");
    v.input("d_out", d_out, "as x");
    v.output("d_x", d_x, "as x");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct ActivationBackward {
  ValueId x = kNone;
  ActivationKind kind = ActivationKind::gelu_tanh;
  ValueId d_out = kNone;
  ValueId d_x = kNone;

  static constexpr OpDoc kDoc = {
      .name = "activation_backward",
      .formula =
          "d_x = d_out kind'(x), kind as in activation\n"
          "gelu_tanh'(x) = 0.5 (1 + t) + 0.5 x (1 - t^2) sqrt(2/pi) (1 + 0.134145 x^2), "
          "t = tanh(sqrt(2/pi) (x + 0.044715 x^3))\n"
          "silu'(x) = s (1 + x (1 - s)), s = sigmoid(x); sigmoid'(x) = s (1 - s)",
      .source = "the derivative of activation; relu and gelu belong to towers, which are not trained",
      .tolerance = {.exact = 5e-6f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "exp and tanh within a few ulp; fast may use a shorter polynomial",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, heads, width]");
    v.input("d_out", d_out, "as x");
    v.output("d_x", d_x, "as x");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct RopeBackward {
  ValueId d_out = kNone;
  RopeId table = kNone;
  uint32_t first = 0;
  ValueId d_x = kNone;

  static constexpr OpDoc kDoc = {
      .name = "rope_backward",
      .formula =
          "d_x[a] = d_out[c] cos_i + d_out[d] sin_i\n"
          "d_x[b] = d_out[d] cos_i - d_out[c] sin_i\n"
          "a, b, c, d as in rope",
      .source = "the rotation of rope, turned back",
      .tolerance = {.exact = 1e-6f, .fast = 1e-6f, .fast_8bit = 1e-6f},
      .reason = "two products and a sum in f32; no angle is computed on a device",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("d_out", d_out, "f32 [extent, heads, width], width >= first + 2 pairs");
    v.output("d_x", d_x, "as d_out");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

// A row for each head: the gradient of pool for x.
struct Spread {
  ValueId x = kNone;
  ValueId shares = kNone;  // or kNone
  uint32_t heads = 1;
  float factor = 1.0f;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "spread",
      .formula = "out[r][h][i] = factor shares[r][h] x[r][i], without shares factor x[r][i]",
      .source = "the gradient of pool for x; of experts' results, which their weights have multiplied",
      .tolerance = {.exact = 1e-6f, .fast = 1e-6f, .fast_8bit = 1e-6f},
      .reason = "two f32 roundings",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, width]");
    v.input("shares", shares, "f32 [extent, heads], or none");
    v.output("out", out, "f32 [extent, heads, width]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct Dots {
  ValueId a = kNone;
  ValueId b = kNone;
  float factor = 1.0f;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "dots",
      .formula = "out[r][h] = factor sum_i a[r][h][i] b[r][i]",
      .source = "the gradient of pool for its shares, and of a gate of one column",
      .tolerance = {.exact = 1e-5f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "f32 in both arithmetics: an f32 sum in another order",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("a", a, "f32 [extent, heads, width]");
    v.input("b", b, "f32 [extent, width]");
    v.output("out", out, "f32 [extent, heads]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct SliceBackward {
  ValueId d_out = kNone;
  uint32_t first_head = 0;
  uint32_t stride = 1;
  uint32_t heads = 1;  // of x
  ValueId d_x = kNone;

  static constexpr OpDoc kDoc = {
      .name = "slice_backward",
      .formula = "d_x[r][first_head + stride h] = d_out[r][h], all other heads 0",
      .source = "the gradient of slice",
      .tolerance = {},
      .reason = "a copy",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("d_out", d_out, "f32 [extent, part of the heads, width]");
    v.output("d_x", d_x, "f32 [extent, heads, width]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

// Of narrowing: the rows that are not wanted have no gradient.
struct GatherBackward {
  ValueId d_out = kNone;
  ValueId index = kNone;
  ValueId d_x = kNone;

  static constexpr OpDoc kDoc = {
      .name = "gather_backward",
      .formula = "d_x[r] = d_out[w] where index[w] = r, or zeros where r is not wanted",
      .source = "the gradient of gather by the program's input \"wanted\"",
      .tolerance = {},
      .reason = "a copy",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("d_out", d_out, "f32 [wanted, heads, width]");
    v.input("index", index, "i32 [wanted, 1], ascending: the input \"wanted\"");
    v.output("d_x", d_x, "f32 [rows, heads, width]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

// Each head's own elements, then those that all heads share.
struct Join {
  ValueId own = kNone;
  ValueId shared = kNone;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "join",
      .formula = "out[r][h] = [own[r][h], shared[r]]",
      .source = "keys of multi-head latent attention: DeepSeek-V2 (arXiv:2405.04434) section 2.1",
      .tolerance = {},
      .reason = "a copy",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("own", own, "f32 [extent, heads, a]");
    v.input("shared", shared, "f32 [extent, b]");
    v.output("out", out, "f32 [extent, heads, a + b]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct JoinBackward {
  ValueId d_out = kNone;
  ValueId d_own = kNone;
  ValueId d_shared = kNone;

  static constexpr OpDoc kDoc = {
      .name = "join_backward",
      .formula = "d_own[r][h][i] = d_out[r][h][i]; d_shared[r][i] = sum_h d_out[r][h][a + i]",
      .source = "the gradient of join",
      .tolerance = {.exact = 1e-5f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "f32 in both arithmetics: an f32 sum over the heads",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("d_out", d_out, "f32 [extent, heads, a + b]");
    v.output("d_own", d_own, "f32 [extent, heads, a]");
    v.output("d_shared", d_shared, "f32 [extent, b]");
  }
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

// The choice itself has no gradient; the weights of the chosen experts have one.
struct RouteBackward {
  ValueId logits = kNone;
  ValueId index = kNone;
  ValueId d_weight = kNone;
  Scoring scoring = Scoring::softmax;
  bool normalise = true;
  float scale = 1.0f;
  WeightId per_expert_scale = kNone;  // or kNone
  ValueId d_logits = kNone;

  static constexpr OpDoc kDoc = {
      .name = "route_backward",
      .formula =
          "g[i] = scale per_expert_scale[index[r][i]] d_weight[r][i]; p as in route, p[i] of expert index[r][i]\n"
          "softmax, normalised: u = p / sum of the chosen p; d_logits of choice i = u[i] (g[i] - sum_j u[j] g[j])\n"
          "softmax: d_logits[e] = p[e] ((g of e, if chosen, else 0) - sum_j p[j] g[j])\n"
          "sigmoid: d_p[i] = normalise ? (g[i] - sum_j g[j] p[j] / s) / s : g[i], s = 1e-20 + sum of the chosen p; "
          "d_logits of choice i = d_p[i] p[i] (1 - p[i])\n"
          "0 for experts that are named nowhere above",
      .source = "the derivative of route's weights, as torch differentiates transformers' routers",
      .tolerance = {.exact = 1e-5f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "routers are f32 in both arithmetics: exp within 2 ulp, two sums, one difference",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("logits", logits, "f32 [extent, experts]");
    v.input("index", index, "i32 [extent, k]: route's choice");
    v.input("d_weight", d_weight, "f32 [extent, k]");
    v.weight("per_expert_scale", per_expert_scale, "[1, experts], or none");
    v.output("d_logits", d_logits, "as logits");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

}  // namespace sluice
