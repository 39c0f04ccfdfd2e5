// Weights of a head for multi-token prediction: its own weights, and those that it shares with the text model.
//
// The first matrix of the head multiplies an embedding and a hidden row, joined into one row. The program uses the left
// and the right half of its columns as two matrices and adds the results. Neither half is copied.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "graph/recorder.h"
#include "graph/weights.h"
#include "model/weight_table.h"

namespace sluice {

// left half * e + right half * h, for the matrix [rows, 2 hidden] that the weight table names "draft.fc".
Value join_for_draft(Recorder& recorder, Value e, Value h, uint32_t rows);

class DraftWeights final : public WeightSource {
 public:
  DraftWeights(const BoundWeights& text, const BoundWeights& own) : text_(&text), own_(&own) {}
  Result<TensorSource> find(const std::string& name) const override;

 private:
  const BoundWeights* text_;
  const BoundWeights* own_;
};

}  // namespace sluice
