// embed: rows of a table by token id, one or several a row.
#pragma once

#include <vector>

#include "base/result.h"
#include "graph/op_doc.h"
#include "graph/ops/adapter.h"
#include "graph/value.h"

namespace sluice {

class OpCheck;
struct OpCase;
struct Program;

struct Embed {
  ValueId ids = kNone;
  WeightId weight = kNone;
  float scale = 1.0f;
  // Of a token's row: one token a row of the step. The tokens are `ids`, but stay where those become rows of a part of
  // the table.
  AdapterOperand adapter{};
  ValueId adapter_tokens = kNone;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "embed",
      .formula =
          "out[r][h] = scale weight[ids[r][h]]\n"
          "with an adapter, where r has a slot s and a scale other than 0:\n"
          "out[r] = scale weight[ids[r]] + (scale adapter.scales[r]) b[s] a[s][tokens[r]]",
      .source =
          "transformers Gemma4TextScaledWordEmbedding (scale = sqrt(hidden)); elsewhere scale = 1. Several ids: the "
          "position tables of vision towers, by row and by column. The adapter: Hu et al. 2021 (arXiv:2106.09685), "
          "PEFT's "
          "lora_embedding",
      .tolerance = {.exact = 1e-6f, .fast = 1e-6f, .fast_8bit = 1e-6f},
      .reason = "a decoded weight times one factor: one f32 rounding; an adapter adds a short f32 sum",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("ids", ids, "i32 [extent, heads], each in [0, rows of weight)");
    v.weight("weight", weight, "[rows = vocabulary, columns = width]");
    v.weight("adapter.a", adapter.a, "slots x [vocabulary, rank], or none: no adapter");
    v.weight("adapter.b", adapter.b, "slots x [width, rank]");
    v.input("adapter.tokens", adapter_tokens, "i32 [rows, 1], each in [0, vocabulary)");
    v.input("adapter.slots", adapter.slots, "i32 [rows, 1]: 0 for no adapter, or 1 + a slot");
    v.input("adapter.scales", adapter.scales, "f32 [rows, 1]");
    v.output("out", out, "f32 [extent, heads, columns of weight]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  void check_adapter(OpCheck& check) const;
  static std::vector<OpCase> cases();
};

}  // namespace sluice
