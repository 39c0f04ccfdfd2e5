// The time of a training step of one sequence, and that of its forward pass alone.
#pragma once

#include <string>
#include <vector>

#include "app/bench/bench_ops.h"
#include "app/bench/bench_report.h"
#include "app/bench/bench_runs.h"
#include "app/cli/args.h"
#include "app/open/open.h"
#include "base/result.h"
#include "model/model.h"

namespace sluice {

struct TrainingTest {
  uint32_t tokens = 0;  // of the sequence; each but the first is a target
  uint32_t rank = 16;   // of the adapter, on all products
  uint32_t rounds = 3;
  bool ops = false;
};

struct TrainingResult {
  TrainingTest test;
  // Seconds: the layers and the losses of all tokens; the same with gradients; the optimizer.
  Spread forward, step, update;
  Spread step_in_forwards;        // round by round: step and optimizer, in forward passes
  uint32_t kept_layers = 0;       // of the step (train/training_program.h)
  double bandwidth = 0;           // bytes a second of memory; 0: unknown
  std::vector<OpShare> ops = {};  // of the step, if asked for
};
// `device` is the machine's, and measures by `meter`.
Result<TrainingResult> bench_training(const Model& model, MeteredDevice& device, Meter& meter, Machine& machine,
                                      const Arguments& arguments, const TrainingTest& test);
std::string training_text(const BenchFacts& facts, const TrainingResult& result);

}  // namespace sluice
