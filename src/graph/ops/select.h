// gather, scatter, pool, slice: rows and heads of values.
#pragma once

#include <vector>

#include "base/result.h"
#include "graph/op_doc.h"
#include "graph/value.h"

namespace sluice {

struct OpCase;
struct Program;

// Rows by their number. With the program's input "wanted" it narrows a step to the rows whose logits are wanted.
struct Gather {
  ValueId x = kNone;
  ValueId index = kNone;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "gather",
      .formula = "out[r][n] = x[index[r][n]], or zeros where that is -1",
      .source =
          "narrowing: after the last layer that writes state only wanted rows go on (docs/architecture.md); the "
          "patches of a strided convolution, side by side",
      .tolerance = {},
      .reason = "a copy",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, heads, width]");
    v.input("index", index, "i32 [extent of out, n]: rows of x, or -1; \"wanted\": [wanted, 1] of rows, ascending");
    v.output("out", out, "f32 [extent of index, n, columns of x]; n = 1: [extent of index, heads, width]");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

// Puts rows in the place of others: those of a picture in the place of its tokens.
struct Scatter {
  ValueId x = kNone;
  ValueId index = kNone;
  ValueId rows = kNone;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "scatter",
      .formula = "out[r] = rows[index[r]], or x[r] where index[r] is -1",
      .source = "pictures and sounds in a prompt: transformers' masked_scatter of soft tokens into the embeddings",
      .tolerance = {},
      .reason = "a copy",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, heads, width]");
    v.input("index", index, "i32 [extent, 1]: rows of rows, or -1");
    v.input("rows", rows, "f32 [any extent, columns of x]");
    v.output("out", out, "as x");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

// The heads of a row as one.
struct Pool {
  ValueId x = kNone;
  ValueId shares = kNone;  // or kNone
  float factor = 1.0f;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "pool",
      .formula = "out[r] = factor sum_h shares[r][h] x[r][h], without shares factor sum_h x[r][h]",
      .source =
          "Gemma 4's vision pooler (transformers Gemma4VisionPooler); with shares: position tables read between their "
          "entries (transformers Qwen3VLVisionModel.fast_pos_embed_interpolate)",
      .tolerance = {.exact = 2e-6f, .fast = 2e-6f, .fast_8bit = 2e-6f},
      .reason = "an f32 sum of a few products",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, heads, width]");
    v.input("shares", shares, "f32 [extent, heads], or none");
    v.output("out", out, "f32 [extent, width]");
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
