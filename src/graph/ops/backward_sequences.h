// Gradients of ops in which rows of a sequence see one another. Sequences begin with the step: nothing before its rows
// is seen, and nothing behind them has a gradient. Sums over rows and heads run in ascending order.
#pragma once

#include <vector>

#include "base/result.h"
#include "graph/op_doc.h"
#include "graph/ops/attention.h"
#include "graph/ops/recurrent.h"
#include "graph/value.h"

namespace sluice {

struct OpCase;
struct Program;

// Of attention to the step's own rows.
struct AttentionBackward {
  ValueId q = kNone, k = kNone, v = kNone;
  ValueId first = kNone, last = kNone;
  float scale = 1.0f;
  uint32_t window = 0;
  float softcap = 0.0f;
  ValueId d_out = kNone;
  ValueId d_q = kNone, d_k = kNone, d_v = kNone;

  static constexpr OpDoc kDoc = {
      .name = "attention_backward",
      .formula =
          "s and p = softmax(s) of each query head as in attention over own rows\n"
          "d_v[j] += p_j d_out; d_p_j = d_out . v[j]; d_s_j = p_j (d_p_j - sum_i p_i d_p_i)\n"
          "with a softcap d_s_j is multiplied by 1 - (s_j / softcap)^2\n"
          "d_q += scale d_s_j k[j]; d_k[j] += scale d_s_j q",
      .source = "Dao et al. 2022 (arXiv:2205.14135), appendix B.2",
      .tolerance = {.exact = 2e-5f, .fast = 2e-5f, .fast_8bit = 2e-5f},
      .reason = "f32 in both arithmetics: three f32 sums in another order, exp within 2 ulp, one difference",
  };
  template <class Visitor>
  void operands(Visitor& visitor) const {
    visitor.input("q", q, "f32 [rows or wanted, heads, key width]");
    visitor.input("k", k, "f32 [rows, kv heads, key width]");
    visitor.input("v", v, "f32 [rows, kv heads, value width]");
    visitor.input("first", first, "i32 [extent of q, 1], an input of the program; or none");
    visitor.input("last", last, "likewise");
    visitor.input("d_out", d_out, "f32 [extent of q, heads, value width]");
    visitor.output("d_q", d_q, "as q");
    visitor.output("d_k", d_k, "as k");
    visitor.output("d_v", d_v, "as v");
  }
  Attention forward() const;  // whose gradient it is; for seen()
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct ShortConvBackward {
  ValueId x = kNone;
  WeightId weight = kNone;
  ValueId d_out = kNone;
  ValueId d_x = kNone;

  static constexpr OpDoc kDoc = {
      .name = "short_conv_backward",
      .formula =
          "s[t][c] = sum_j weight[c][j] x[t - taps + 1 + j][c]; d_s = d_out silu'(s)\n"
          "d_x[t][c] = sum_j weight[c][j] d_s[t + taps - 1 - j][c], over rows of the sequence",
      .source = "the derivative of short_conv",
      .tolerance = {.exact = 1e-5f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "f32 in both arithmetics: sums of a few products, exp within a few ulp",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [rows, channels]");
    v.weight("weight", weight, "[channels, taps], 2 to 16 taps");
    v.input("d_out", d_out, "as x");
    v.output("d_x", d_x, "as x");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct DeltaGatesBackward {
  ValueId a = kNone;
  ValueId b = kNone;
  WeightId rate = kNone;
  WeightId bias = kNone;
  ValueId d_decay = kNone;
  ValueId d_beta = kNone;
  ValueId d_a = kNone;
  ValueId d_b = kNone;

  static constexpr OpDoc kDoc = {
      .name = "delta_gates_backward",
      .formula =
          "d_a[r][h] = d_decay[r][h] rate[h] sigmoid(a[r][h] + bias[h])\n"
          "d_b[r][h] = d_beta[r][h] beta (1 - beta), beta = sigmoid(b[r][h])",
      .source = "the derivative of delta_gates",
      .tolerance = {.exact = 5e-6f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "exp within a few ulp",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("a", a, "f32 [extent, value heads]");
    v.input("b", b, "as a");
    v.weight("rate", rate, "[1, value heads]");
    v.weight("bias", bias, "[1, value heads]");
    v.input("d_decay", d_decay, "as a");
    v.input("d_beta", d_beta, "as a");
    v.output("d_a", d_a, "as a");
    v.output("d_b", d_b, "as a");
  }
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct DeltaRuleBackward {
  ValueId q = kNone, k = kNone, v = kNone;
  ValueId decay = kNone, beta = kNone;
  float scale = 1.0f;
  KeyHeads key_heads = KeyHeads::block;
  ValueId d_out = kNone;
  ValueId d_q = kNone, d_k = kNone, d_v = kNone;
  ValueId d_decay = kNone, d_beta = kNone;

  static constexpr OpDoc kDoc = {
      .name = "delta_rule_backward",
      .formula =
          "forward, row by row: S' = exp(decay) S, p = S'^T k, e = beta (v - p), S = S' + k e^T\n"
          "backward, from the last row: D = D + scale q d_out^T; d_q = scale S d_out; d_k = D e\n"
          "d_e = D^T k; d_v = beta d_e; d_beta = d_e . (v - p); D = D - k d_v^T; d_k = d_k - S' d_v\n"
          "d_decay = sum of the elements of D S'; D = exp(decay) D\n"
          "d_q and d_k of a key head are the sums over its value heads",
      .source = "Yang et al. 2024 (arXiv:2412.06464), the derivative of equation 10",
      .tolerance = {.exact = 2e-4f, .fast = 2e-4f, .fast_8bit = 2e-4f},
      .reason = "f32 in both arithmetics: every row rounds the state and its gradient anew",
  };
  template <class Visitor>
  void operands(Visitor& visitor) const {
    visitor.input("q", q, "f32 [rows, key heads, key width]");
    visitor.input("k", k, "as q");
    visitor.input("v", v, "f32 [rows, value heads, value width], value heads a multiple of key heads");
    visitor.input("decay", decay, "f32 [rows, value heads], not above 0");
    visitor.input("beta", beta, "as decay");
    visitor.input("d_out", d_out, "as v");
    visitor.output("d_q", d_q, "as q");
    visitor.output("d_k", d_k, "as q");
    visitor.output("d_v", d_v, "as v");
    visitor.output("d_decay", d_decay, "as decay");
    visitor.output("d_beta", d_beta, "as decay");
  }
  uint32_t key_head(uint32_t value_head, uint32_t value_head_count, uint32_t key_head_count) const {
    return DeltaRule{.key_heads = key_heads}.key_head(value_head, value_head_count, key_head_count);
  }
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

}  // namespace sluice
