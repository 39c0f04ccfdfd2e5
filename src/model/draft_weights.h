// Weights of a head for multi-token prediction: its own, and those that it shares with the text model.
//
// Its first matrix joins an embedding and a hidden row that follow one another; a program takes it as two matrices of
// half the columns, whose results it adds. They are used where they lie.
#pragma once

#include <utility>

#include "base/result.h"
#include "graph/recorder.h"
#include "graph/weights.h"
#include "model/weight_table.h"

namespace sluice {

// embedding half * e + hidden half * h, of the matrix [hidden, 2 hidden] in the table as "draft.fc".
Value join_for_draft(Recorder& recorder, Value e, Value h);

class DraftWeights final : public WeightSource {
 public:
  DraftWeights(const BoundWeights& text, const BoundWeights& own) : text_(&text), own_(&own) {}
  Result<TensorSource> find(const std::string& name) const override;

 private:
  const BoundWeights* text_;
  const BoundWeights* own_;
};

}  // namespace sluice
