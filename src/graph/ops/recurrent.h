// short_conv, delta_gates, delta_rule: the recurrent layers of the gated delta net (Yang et al. 2024,
// arXiv:2412.06464).
//
// Their state is a slot (program.h). Rows of one sequence follow one another in a step: each row sees what the row
// before it left, the first one what the slot holds that the step reads, and the last one leaves what the slot holds
// that the step writes. Rows before the last may have slots of their own, which keep what they left.
#pragma once

#include <vector>

#include "base/result.h"
#include "graph/op_doc.h"
#include "graph/value.h"

namespace sluice {

struct OpCase;
struct Program;

inline constexpr uint32_t kMaxConvTaps = 16;

struct ShortConv {
  ValueId x = kNone;
  WeightId weight = kNone;
  StateRef state{};
  ValueId out = kNone;
  StateRef next{};

  static constexpr OpDoc kDoc = {
      .name = "short_conv",
      .formula =
          "out[t][c] = silu(sum_j weight[c][j] x[t - taps + 1 + j][c]) for the row at t of its sequence\n"
          "x before the step's first row comes from the state; next = the last taps - 1 rows of x",
      .source = "the causal depthwise convolution of Gu and Dao 2023 (arXiv:2312.00752); transformers Qwen3.5",
      .tolerance = {.exact = 1e-5f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "f32 in both arithmetics: a sum of a few products, exp within a few ulp",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [rows, channels]");
    v.weight("weight", weight, "[channels, taps], 2 to 16 taps");
    v.reads("state", state, "slot [1, taps - 1, channels]: rows of x, the oldest first");
    v.output("out", out, "as x");
    v.writes("next", next, "the version after");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

struct DeltaGates {
  ValueId a = kNone;
  ValueId b = kNone;
  WeightId rate = kNone;
  WeightId bias = kNone;
  ValueId decay = kNone;
  ValueId beta = kNone;

  static constexpr OpDoc kDoc = {
      .name = "delta_gates",
      .formula =
          "decay[r][h] = rate[h] softplus(a[r][h] + bias[h]), softplus(x) = x > 20 ? x : log(1 + exp(x))\n"
          "beta[r][h] = 1 / (1 + exp(-b[r][h]))",
      .source = "Yang et al. 2024 (arXiv:2412.06464), with Mamba's parameters: rate = -exp(A_log), bias = dt_bias",
      .tolerance = {.exact = 2e-6f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "exp and log within a few ulp",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("a", a, "f32 [extent, value heads]");
    v.input("b", b, "as a");
    v.weight("rate", rate, "[1, value heads], of a decaying state not above 0");
    v.weight("bias", bias, "[1, value heads]");
    v.output("decay", decay, "as a: the logarithm of the factor");
    v.output("beta", beta, "as a");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

// Which key head a value head reads: h / (value heads / key heads), or h % key heads.
enum class KeyHeads : uint8_t { block, tiled };

struct DeltaRule {
  ValueId q = kNone;
  ValueId k = kNone;
  ValueId v = kNone;
  ValueId decay = kNone;
  ValueId beta = kNone;
  StateRef state{};
  float scale = 1.0f;
  KeyHeads key_heads = KeyHeads::block;
  ValueId out = kNone;
  StateRef next{};

  static constexpr OpDoc kDoc = {
      .name = "delta_rule",
      .formula =
          "of each value head, row by row, with q and k of its key head (block: h key heads / value heads; "
          "tiled: h % key heads):\n"
          "S = exp(decay) S\n"
          "S = S + k (beta (v - S^T k))^T\n"
          "out = scale S^T q",
      .source = "Yang et al. 2024 (arXiv:2412.06464), equation 10; transformers' recurrent_gated_delta_rule",
      .tolerance = {.exact = 1e-4f, .fast = 1e-4f, .fast_8bit = 1e-4f},
      .reason = "f32 in both arithmetics: every row rounds the state anew",
  };
  template <class Visitor>
  void operands(Visitor& visitor) const {
    visitor.input("q", q, "f32 [rows, key heads, key width], normed");
    visitor.input("k", k, "as q");
    visitor.input("v", v, "f32 [rows, value heads, value width], value heads a multiple of key heads");
    visitor.input("decay", decay, "f32 [rows, value heads], not above 0");
    visitor.input("beta", beta, "as decay");
    visitor.reads("state", state, "slot [value heads, key width, value width]: S");
    visitor.output("out", out, "as v");
    visitor.writes("next", next, "the version after");
  }
  uint32_t key_head(uint32_t value_head, uint32_t value_head_count, uint32_t key_head_count) const {
    return key_heads == KeyHeads::tiled ? value_head % key_head_count
                                        : value_head / (value_head_count / key_head_count);
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

}  // namespace sluice
