// The program of a training step: a text program's ops on whole sequences, the loss, and the gradients of an adapter's
// factors, all as one list of ops that any device with the ops of training plays.
//
//   forward    the recorded ops. Keys and values are those of the step's own rows, an adapter's product is written as
//              plain ops beside the product that it belongs to, and `experts` as its products by choice.
//   loss       cross_entropy of the wanted rows
//   backward   layer by layer from the last: the layer's ops once more (recomputation: Chen et al. 2016,
//              arXiv:1604.06174), then the gradient of each as ops (train/gradients.h)
//
// The arena keeps a value from its making to its last use, so a step's memory is what layers hand to one another, and
// the activations of one layer. A layer that is kept computes only its cheap ops once more, because the results of the
// others stay in the arena. The gradients are the same to the bit on the processor. On a GPU they are the same but for
// rounding, because its compiler contracts each kernel in its own way.
//
// The step fills "tokens", "wanted" (rows with a loss), "target" (the token that is to follow a wanted row) and
// "share" (by which its loss is multiplied in the sum that is differentiated). Sequences begin with the step.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "graph/program.h"

namespace sluice {

// A weight whose adapter is trained. Its factors are the weights "w.adapter_a" [rank, columns] and "w.adapter_b"
// [rows, rank], of each expert.
struct TrainedWeight {
  std::string weight;  // canonical
  uint32_t rank = 0;
  float scale = 1;  // of the product of the factors
};

struct FactorGradient {
  std::string factor;     // "layer.3.q_proj.adapter_a"
  ValueId value = kNone;  // f32 [experts x rows one, columns]
};

struct TrainingProgram {
  Program program;
  ValueId loss = kNone;  // f32 [wanted, 1]; the output "loss"
  std::vector<FactorGradient> gradients;
};

struct TrainingParts {
  bool gradients = true;     // without them the program is that of an evaluation
  uint32_t kept_layers = 0;  // the last ones, at most all
};

// `text` has no adapters, and no inputs but tokens, wanted rows and those of media. Fails with one sentence when a
// trained weight is in no product of the program.
Result<TrainingProgram> record_training(const Program& text, const std::vector<TrainedWeight>& trained,
                                        const TrainingParts& parts = {});

}  // namespace sluice
