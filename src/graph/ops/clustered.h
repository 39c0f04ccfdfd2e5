// clustered_logits: logits of the tokens in a few clusters, for a small model that drafts with a large vocabulary.
#pragma once

#include <vector>

#include "base/result.h"
#include "graph/op_doc.h"
#include "graph/value.h"

namespace sluice {

struct OpCase;
struct Program;

struct ClusteredLogits {
  ValueId x = kNone;
  ValueId scores = kNone;
  WeightId table = kNone;
  WeightId order = kNone;
  uint32_t k = 1;  // clusters whose tokens are looked at
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "clustered_logits",
      .formula =
          "c_1 ... c_k = the columns of scores[r] with the largest numbers, of equal ones the first\n"
          "out[r][t] = sum_i table[t][i] x[r][i] for each token t = order[c_j][n]\n"
          "out[r][t] = the smallest of those - 1 for all other tokens",
      .source =
          "Gemma 4's assistants with use_ordered_embeddings (transformers modeling_gemma4_assistant.py, masked "
          "embedding)",
      .tolerance = {.exact = 1e-5f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "f32 sums in another order, of f32 activations in both arithmetics",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, columns of table]");
    v.input("scores", scores, "f32 [extent, clusters], one for each cluster");
    v.weight("table", table, "[tokens, columns]");
    v.weight("order", order, "[clusters, tokens of a cluster]: whole numbers below the table's rows");
    v.output("out", out, "f32 [extent, tokens]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

}  // namespace sluice
