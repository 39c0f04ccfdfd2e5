// gather, slice: parts of values.
#pragma once

#include <vector>

#include "base/result.h"
#include "graph/op_doc.h"
#include "graph/value.h"

namespace sluice {

struct OpCase;
struct Program;

// Narrows the rows of a step to those whose logits are wanted.
struct Gather {
  ValueId x = kNone;
  ValueId index = kNone;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "gather",
      .formula = "out[w] = x[index[w]]",
      .source = "narrowing: after the last layer that writes state only wanted rows go on (docs/architecture.md)",
      .tolerance = {},
      .reason = "a copy",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [rows, heads, width]");
    v.input("index", index, "i32 [wanted, 1]: rows of x, ascending; the program input \"wanted\"");
    v.output("out", out, "f32 [wanted, heads, width]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

// `heads` heads from first_head on, every `stride`-th.
struct Slice {
  ValueId x = kNone;
  uint32_t first_head = 0;
  uint32_t heads = 1;
  uint32_t stride = 1;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "slice",
      .formula = "out[r][h] = x[r][first_head + stride h]",
      .source = "parts of a merged product; Gemma 4's per-layer inputs; Qwen3.5's queries, each followed by its gate",
      .tolerance = {},
      .reason = "a copy",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, all heads, width]");
    v.output("out", out, "f32 [extent, heads, width]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

}  // namespace sluice
