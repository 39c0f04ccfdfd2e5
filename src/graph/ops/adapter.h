// The adapter operand of a product: a second, low-rank product of the same row, scaled and added to the first.
// Hu et al. 2021 (LoRA, arXiv:2106.09685).
//
// Each weight has its own pair of factors, one matrix of each a slot, or one an expert and slot: matrix s * experts + e
// is that of expert e in slot s. Slot s of all weights together is one adapter;
// the step names a slot for each of its rows, so rows with different adapters share a step. Adapters of a lower rank
// than the slots have lie there with rows and columns of zeros.
//
// A row of slot 0 or of scale 0 is left as it is: it has the bits of a product without the operand. For every other row
// the sum over the rank stands alone, is multiplied by the scale and is then added. A device may instead
// add the scaled products of the rank one after another. No part of either order depends on the number of rows or on
// the slots of other rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/value.h"

namespace sluice {

class OpCheck;
struct WeightShape;

// Which products and embeddings of a program take the operand, and the room that each has for adapters. Only those of
// the step's rows or of wanted rows take it.
struct AdapterOptions {
  uint32_t slots = 0;                     // 0: no product takes one
  uint32_t rank = 0;                      // the highest of any adapter
  std::vector<std::string> weights{};     // the products' weights by canonical name; empty: all
  bool no_products = false;               // no product takes one, though `weights` is empty
  std::vector<std::string> embeddings{};  // tables of `embed`, by canonical name
};

struct AdapterOperand {
  WeightId a = kNone;
  WeightId b = kNone;
  ValueId slots = kNone;
  ValueId scales = kNone;

  explicit operator bool() const { return a != kNone; }

  template <class Visitor>
  void operands(Visitor& v) const {
    v.weight("adapter.a", a, "slots x [rank, columns], or none: no adapter");
    v.weight("adapter.b", b, "slots x [rows, rank]");
    v.input("adapter.slots", slots, "i32 [rows, 1], for each row of the step: 0 for no adapter, or 1 + a slot");
    v.input("adapter.scales", scales, "f32 [rows, 1]");
  }
  // `x` meets `weight`, which has that shape. Nothing to check of a missing operand.
  void check(OpCheck& check, ValueId x, const WeightShape& weight) const;
};

}  // namespace sluice
