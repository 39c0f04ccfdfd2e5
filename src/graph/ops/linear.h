// linear: a matrix times each row.
// The order of the sum along i belongs to (device, arithmetic, format, columns) and never to the number of rows.
#pragma once

#include <vector>

#include "base/result.h"
#include "graph/op_doc.h"
#include "graph/value.h"

namespace sluice {

struct OpCase;
struct Program;

struct Linear {
  ValueId x = kNone;
  WeightId weight = kNone;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "linear",
      .formula = "out[r][o] = sum_i weight[o][i] x[r][i]",
      .source = "a matrix product; weights lie as PyTorch's nn.Linear keeps them, [out features, in features]",
      .tolerance = {.exact = 1e-5f, .fast = 1e-2f, .fast_8bit = 3e-2f},
      .reason =
          "exact: f32 sums in another order. fast: activations rounded to bf16 (2^-9 each), or to 8 bits a block "
          "(1/254 of the block's largest)",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, columns of weight], heads flattened");
    v.weight("weight", weight, "[rows, columns]");
    v.output("out", out, "f32 [extent, rows of weight]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

}  // namespace sluice
