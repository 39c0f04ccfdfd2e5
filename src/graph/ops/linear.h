// linear: a matrix times each row, and an adapter's product of the row added to it (adapter.h).
// The order of the sum along i belongs to (device, arithmetic, format, columns) and never to the number of rows.
#pragma once

#include <vector>

#include "base/result.h"
#include "graph/op_doc.h"
#include "graph/ops/adapter.h"
#include "graph/value.h"

namespace sluice {

struct OpCase;
struct Program;

struct Linear {
  ValueId x = kNone;
  WeightId weight = kNone;
  AdapterOperand adapter{};
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "linear",
      .formula =
          "out[r][o] = sum_i weight[o][i] x[r][i]\n"
          "with an adapter, where r has a slot s and a scale other than 0:\n"
          "out[r][o] = (sum_i weight[o][i] x[r][i]) + scale[r] sum_k b[s][o][k] (sum_i a[s][k][i] x[r][i])",
      .source =
          "a matrix product; weights lie as PyTorch's nn.Linear keeps them, [out features, in features]. The adapter: "
          "Hu "
          "et al. 2021 (arXiv:2106.09685)",
      .tolerance = {.exact = 1e-5f, .fast = 1e-2f, .fast_8bit = 3e-2f},
      .reason =
          "exact: f32 sums in another order. fast: activations rounded to bf16 (2^-9 each), or to 8 bits a block "
          "(1/254 of the block's largest). The adapter's own products are of f32 activations in both",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, columns of weight], heads flattened");
    v.weight("weight", weight, "[rows, columns]");
    adapter.operands(v);
    v.output("out", out, "f32 [extent, rows of weight]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

}  // namespace sluice
