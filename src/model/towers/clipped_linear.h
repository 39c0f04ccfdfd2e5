// Linear layers of Gemma 4's towers, whose input and output some checkpoints clamp by stored bounds
// (transformers' Gemma4ClippableLinear).
#pragma once

#include <string>

#include "model/weight_table.h"

namespace sluice {

// Where a checkpoint stores the bounds.
struct ClipBounds {
  bool stored = false;  // false: nothing is clamped
  // Ollama's files store the bounds of all layers in one vector of `total` numbers. The bounds of this layer begin at
  // `first`.
  uint32_t first = 0, total = 0;
};

// Adds the matrix and its bounds: lowest and highest input, lowest and highest output. Names are those of the linear
// layer, without ".weight".
void add_clipped_linear(WeightTable& table, const std::string& name, WeightShape shape, const std::string& hugging_face,
                        const std::string& gguf, const ClipBounds& bounds);

Value clipped_linear(const WeightScope& w, const std::string& name, Value x);

}  // namespace sluice
