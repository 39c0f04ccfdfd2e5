// embed: rows of a table by token id, one or several a row.
#pragma once

#include <vector>

#include "base/result.h"
#include "graph/op_doc.h"
#include "graph/value.h"

namespace sluice {

struct OpCase;
struct Program;

struct Embed {
  ValueId ids = kNone;
  WeightId weight = kNone;
  float scale = 1.0f;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "embed",
      .formula = "out[r][h] = scale weight[ids[r][h]]",
      .source =
          "transformers Gemma4TextScaledWordEmbedding (scale = sqrt(hidden)); elsewhere scale = 1. Several ids: the "
          "position tables of vision towers, by row and by column",
      .tolerance = {.exact = 1e-6f, .fast = 1e-6f, .fast_8bit = 1e-6f},
      .reason = "a decoded weight times one factor: one f32 rounding",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("ids", ids, "i32 [extent, heads], each in [0, rows of weight)");
    v.weight("weight", weight, "[rows = vocabulary, columns = width]");
    v.output("out", out, "f32 [extent, heads, columns of weight]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

}  // namespace sluice
