// Products of training, forward and backward: transposed products, sums of outer products, products with the experts
// that rows have chosen, and the loss with its gradient.
//
// The gradient of a product y = W x for its input is the transposed product of the gradient of y; for W it is the sum
// over rows of the outer products of both. Gradients of matrices are values whose extent is in Symbol::one: a row of
// the value for each row of the matrix. Sums over rows run in ascending order of rows.
//
// "choices": each row of extent E meets k experts. With an index i32 [E, k], choice i of row r is expert index[r][i];
// without one k is the number of experts, and choice i is expert i (the matrices of attention heads). Values by choice
// have extent k E: row r * k + i belongs to choice i of row r.
#pragma once

#include <vector>

#include "base/result.h"
#include "graph/op_doc.h"
#include "graph/value.h"

namespace sluice {

struct OpCase;
struct Program;

struct LinearTransposed {
  ValueId x = kNone;
  WeightId weight = kNone;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "linear_transposed",
      .formula = "out[r][i] = sum_o weight[o][i] x[r][o]",
      .source = "the gradient of linear for x: Rumelhart, Hinton and Williams 1986 (Nature 323)",
      .tolerance = {.exact = 1e-5f, .fast = 1e-5f, .fast_8bit = 3e-2f},
      .reason =
          "f32 sums in another order, of decoded weights. fast: both factors rounded to 8 bits a block of rows of "
          "the weight (1/254 of the block's largest), where these are a multiple of 32",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, rows of weight], heads flattened");
    v.weight("weight", weight, "[rows, columns]");
    v.output("out", out, "f32 [extent, columns of weight]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct OuterSum {
  ValueId left = kNone;
  ValueId right = kNone;
  float factor = 1.0f;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "outer_sum",
      .formula = "out[m][n] = factor sum_r left[r][m] right[r][n]",
      .source = "the gradient of linear for its matrix, left being that of the result and right its input",
      .tolerance = {.exact = 1e-5f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "f32 in both arithmetics: one f32 sum over the rows",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("left", left, "f32 [extent, m], heads flattened");
    v.input("right", right, "f32 [extent, n], heads flattened");
    v.output("out", out, "f32 [m one, n]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct ExpertLinear {
  ValueId x = kNone;
  ValueId index = kNone;
  WeightId weight = kNone;
  bool by_choice = false;  // x has a row for each choice, else one for all choices of a row
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "expert_linear",
      .formula = "out[r k + i][o] = sum_c weight[expert i of r][o][c] x[by choice ? r k + i : r][c]",
      .source = "one of the products of `experts`, by itself; the matrices of heads in multi-head latent attention",
      .tolerance = {.exact = 1e-5f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "f32 activations against decoded weights in both arithmetics; f32 sums in another order",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [E, columns of weight], or by choice [k E, columns of weight]");
    v.input("index", index, "i32 [E, k], or none: all experts");
    v.weight("weight", weight, "experts x [rows, columns]");
    v.output("out", out, "f32 [k E, rows of weight]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct ExpertLinearTransposed {
  ValueId x = kNone;
  ValueId index = kNone;
  WeightId weight = kNone;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "expert_linear_transposed",
      .formula = "out[r k + i][c] = sum_o weight[expert i of r][o][c] x[r k + i][o]",
      .source = "the gradient of expert_linear for x, by choice",
      .tolerance = {.exact = 1e-5f, .fast = 1e-5f, .fast_8bit = 3e-2f},
      .reason = "as linear_transposed",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [k E, rows of weight]");
    v.input("index", index, "i32 [E, k], or none: all experts");
    v.weight("weight", weight, "experts x [rows, columns]");
    v.output("out", out, "f32 [k E, columns of weight]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct ExpertOuterSum {
  ValueId left = kNone;
  ValueId right = kNone;
  ValueId index = kNone;
  uint32_t experts = 1;
  bool by_choice = false;  // as expert_linear's, of right
  float factor = 1.0f;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "expert_outer_sum",
      .formula =
          "out[e M + m][n] = factor sum over choices i of rows r that are expert e of "
          "left[r k + i][m] right[by choice ? r k + i : r][n]",
      .source = "the gradient of expert_linear for its matrices; zeros for an expert that no row has chosen",
      .tolerance = {.exact = 1e-5f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "f32 in both arithmetics: one f32 sum over the rows",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("left", left, "f32 [k E, M]");
    v.input("right", right, "f32 [E, N], or by choice [k E, N]");
    v.input("index", index, "i32 [E, k], or none: all experts");
    v.output("out", out, "f32 [experts M one, N]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

// The loss of each row, and the gradient of the sum of all rows' losses times their shares. It never holds more than a
// part of the logits. `inner` and `b` are an adapter of the head: inner = a x. An evaluation has no gradients, and
// `share` is then not used.
struct CrossEntropy {
  ValueId x = kNone;
  WeightId weight = kNone;
  ValueId inner = kNone;
  WeightId b = kNone;
  float factor = 1.0f;   // of the adapter's product
  float softcap = 0.0f;  // of the logits; 0: none
  ValueId target = kNone;
  ValueId share = kNone;
  ValueId loss = kNone;
  ValueId d_x = kNone;
  ValueId d_inner = kNone;
  ValueId d_b = kNone;

  static constexpr OpDoc kDoc = {
      .name = "cross_entropy",
      .formula =
          "z[r][o] = sum_i weight[o][i] x[r][i] + factor sum_k b[o][k] inner[r][k]; "
          "y = z, or softcap tanh(z / softcap)\n"
          "loss[r] = log sum_o exp(y[r][o]) - y[r][target[r]]\n"
          "d_y[r][o] = share[r] (exp(y[r][o]) / sum_o exp(y[r][o]) - (o == target[r])); d_z = d_y dy/dz\n"
          "d_x[r][i] = sum_o weight[o][i] d_z[r][o]\n"
          "d_inner[r][k] = factor sum_o b[o][k] d_z[r][o]\n"
          "d_b[o][k] = factor sum_r d_z[r][o] inner[r][k]",
      .source = "torch.nn.functional.cross_entropy; the loss of transformers' ForCausalLMLoss",
      .tolerance = {.exact = 2e-5f, .fast = 2e-5f, .fast_8bit = 2e-5f},
      .reason = "f32 in both arithmetics, with decoded weights; two sums over the vocabulary, exp within 2 ulp",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, columns of weight]");
    v.weight("weight", weight, "[vocabulary, columns]");
    v.input("inner", inner, "f32 [extent, rank], or none: no adapter");
    v.weight("b", b, "[vocabulary, rank]");
    v.input("target", target, "i32 [extent, 1], each in [0, vocabulary)");
    v.input("share", share, "f32 [extent, 1]");
    v.output("loss", loss, "f32 [extent, 1]");
    v.output("d_x", d_x, "as x, or none: no gradients");
    v.output("d_inner", d_inner, "as inner");
    v.output("d_b", d_b, "f32 [vocabulary one, rank]");
  }
  bool has_gradients() const { return d_x != kNone; }
  ValueType loss_result(const Program& program) const;
  ValueType d_b_result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

}  // namespace sluice
