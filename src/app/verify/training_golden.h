// The training case of a golden (kind "train"): the batch, the optimizer's settings, and what another implementation's
// training of the same adapter gave, run by run.
//
//   "input_ids", "answer_mask"  [sequences][tokens], right-padded; mask 1: the loss counts the token
//   "lengths"                   tokens without padding; absent: up to the last token of the mask
//   "settings", "results"       either settings.adamw with results.float32 (its "lr" by step, gradients clipped to 1)
//                               and results.float32_accumulated (a sequence at a time), final adapters "final/...";
//                               or one run for each of settings.sgd and settings.adamw, final adapters "sgd/..." and
//                               "adamw/..."
//   tensors "grad64/..."        gradients of the first step, before clipping
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "train/optimizer.h"
#include "train/training_step.h"

namespace sluice {

struct TrainingRun {
  std::string name;  // "float32"
  OptimizerOptions optimizer = {};
  std::vector<double> rates = {};   // by step
  std::vector<double> losses = {};  // before each step
  double loss_after = 0;
  bool accumulated = false;  // a step sees one sequence at a time
  std::string finals = {};   // prefix of the names of the final factors; empty: none
};

struct TrainingGolden {
  std::vector<TrainSequence> sequences;
  std::vector<TrainingRun> runs;
};

// Every error begins with `where`.
Result<TrainingGolden> read_training(const Json& golden_case, const std::string& where);

}  // namespace sluice
