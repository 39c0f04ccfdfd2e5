// Element by element: add, add_bias, mul, scale, clamp, softcap, activation, gated_activation.
#pragma once

#include <vector>

#include "base/result.h"
#include "graph/op_doc.h"
#include "graph/value.h"

namespace sluice {

struct OpCase;
struct Program;

enum class ActivationKind : uint8_t {
  gelu_tanh,  // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  silu,       // x / (1 + exp(-x))
  sigmoid,    // 1 / (1 + exp(-x))
  relu,       // max(x, 0)
  gelu,       // 0.5 x (1 + erf(x / sqrt(2)))
};
inline constexpr int kActivationKinds = 5;

struct Add {
  ValueId a = kNone, b = kNone, out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "add",
      .formula = "out = a + b",
      .source = "residual streams: He et al. 2015 (arXiv:1512.03385)",
      .tolerance = {.exact = 1e-6f, .fast = 1e-6f, .fast_8bit = 1e-6f},
      .reason = "one f32 rounding",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("a", a, "f32 [extent, heads, width]");
    v.input("b", b, "as a");
    v.output("out", out, "as a");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct AddBias {
  ValueId x = kNone;
  WeightId bias = kNone;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "add_bias",
      .formula = "out[r][c] = x[r][c] + bias[c]",
      .source = "linears with a bias, as vision towers have them: Dosovitskiy et al. 2020 (arXiv:2010.11929)",
      .tolerance = {.exact = 1e-6f, .fast = 1e-6f, .fast_8bit = 1e-6f},
      .reason = "one f32 rounding",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, heads, width]");
    v.weight("bias", bias, "[1, columns of x]");
    v.output("out", out, "as x");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct Mul {
  ValueId a = kNone, b = kNone, out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "mul",
      .formula = "out = a b",
      .source = "gates; Gemma 4's per-layer inputs",
      .tolerance = {.exact = 1e-6f, .fast = 1e-6f, .fast_8bit = 1e-6f},
      .reason = "one f32 rounding",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("a", a, "f32 [extent, heads, width]");
    v.input("b", b, "as a");
    v.output("out", out, "as a");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct Scale {
  ValueId x = kNone;
  float factor = 1.0f;
  WeightId weight = kNone;  // or kNone
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "scale",
      .formula = "out[r][c] = x[r][c] factor weight[c], where a weight of one element goes for every column",
      .source = "Gemma 4's layer_scalar and router.scale (transformers Gemma4TextDecoderLayer, Gemma4TextRouter)",
      .tolerance = {.exact = 1e-6f, .fast = 1e-6f, .fast_8bit = 1e-6f},
      .reason = "two f32 roundings",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, heads, width]");
    v.weight("weight", weight, "[1, 1] or [1, columns of x], or none");
    v.output("out", out, "as x");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct Clamp {
  ValueId x = kNone;
  WeightId low = kNone, high = kNone;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "clamp",
      .formula = "out = low where x < low, else high where x > high, else x",
      .source = "the clipped linears of Gemma 4's towers (transformers Gemma4ClippableLinear)",
      .tolerance = {},
      .reason = "a copy",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, heads, width]");
    v.weight("low", low, "[1, 1]");
    v.weight("high", high, "[1, 1], not below low");
    v.output("out", out, "as x");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct Softcap {
  ValueId x = kNone;
  float cap = 0.0f;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "softcap",
      .formula = "out = cap tanh(x / cap)",
      .source = "Gemma 2 (arXiv:2408.00118), section 2",
      .tolerance = {.exact = 2e-6f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "tanh within a few ulp; fast may use a shorter polynomial",
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

struct Activation {
  ValueId x = kNone;
  ActivationKind kind = ActivationKind::gelu_tanh;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "activation",
      .formula =
          "out = kind(x)\n"
          "gelu_tanh(x) = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))\n"
          "silu(x) = x / (1 + exp(-x))\n"
          "sigmoid(x) = 1 / (1 + exp(-x))\n"
          "relu(x) = max(x, 0)\n"
          "gelu(x) = 0.5 x (1 + erf(x / sqrt(2)))",
      .source =
          "Hendrycks and Gimpel 2016 (arXiv:1606.08415), the tanh form as PyTorch's gelu(approximate=\"tanh\"); relu: "
          "Nair and Hinton 2010",
      .tolerance = {.exact = 2e-6f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "exp, tanh and erf within a few ulp; fast may use a shorter polynomial",
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

struct GatedActivation {
  ValueId gate = kNone, up = kNone;
  ActivationKind kind = ActivationKind::gelu_tanh;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "gated_activation",
      .formula = "out = kind(gate) up, kind as in activation; a gate of one column goes for every column of up",
      .source = "Shazeer 2020 (arXiv:2002.05202); one column: the gate of Qwen3.5's shared expert",
      .tolerance = {.exact = 2e-6f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "as activation, and one more f32 rounding",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("gate", gate, "as up, or f32 [extent, 1]");
    v.input("up", up, "f32 [extent, heads, width]");
    v.output("out", out, "as up");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

}  // namespace sluice
