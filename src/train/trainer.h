// Trains the factors of an adapter on examples, step by step: shuffled epochs, batches of a number of tokens that are
// computed in parts, a schedule of rates, evaluation on examples that are held out, and checkpoints.
//
// All of it is a function of examples, options and seed. What a step sees depends on its number alone, so training that
// goes on from a checkpoint gives the bits of training that was not interrupted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "model/model.h"
#include "train/factors.h"
#include "train/optimizer.h"
#include "train/training_step.h"

namespace sluice {

struct TrainerOptions {
  Arithmetic arithmetic = Arithmetic::fast;
  OptimizerOptions optimizer = {};
  double rate = 2e-4;
  uint64_t warm_up = 0;  // steps
  uint64_t epochs = 1;
  uint64_t steps = 0;            // at most; 0: as the epochs have
  uint32_t batch_tokens = 2048;  // of a step; a batch has at least one example
  uint32_t part_tokens = 512;    // of it that are computed at once; at least the longest example
  double held_out = 0;           // share of the examples that are only evaluated, the last ones of a shuffle
  uint64_t seed = 0;
};

struct StepReport {
  uint64_t step = 0;   // from 1
  uint64_t epoch = 0;  // from 1
  double loss = 0;     // mean of the targets, before the step
  double rate = 0;
  double gradient_norm = 0;  // before clipping
  uint64_t tokens = 0;
};

// How long training takes, measured on a piece of it.
struct TrainerPace {
  double tokens_per_second = 0;             // of steps, without the optimizer
  double update_seconds = 0;                // of the optimizer in a step
  double evaluation_tokens_per_second = 0;  // 0 without examples held out
};

class Trainer {
 public:
  // `examples` are not empty. Fails with one sentence when memory does not suffice.
  static Result<std::unique_ptr<Trainer>> create(const Model& model, TrainedFactors& factors, Device& device,
                                                 Budget& budget, std::vector<TrainSequence> examples,
                                                 const TrainerOptions& options);
  // The size of its steps, from the examples.
  static StepSize step_size(const std::vector<TrainSequence>& examples, const TrainerOptions& options);
  // The lines of the budget that the factors hold and create() takes, from shapes alone.
  static Result<std::vector<MemoryLine>> memory(const Model& model, TrainedFactors& factors, const Device& device,
                                                const std::vector<TrainSequence>& examples,
                                                const TrainerOptions& options);

  uint64_t steps() const { return steps_; }    // in all
  uint64_t tokens() const { return tokens_; }  // of all steps
  uint64_t steps_done() const { return done_; }
  size_t trained_examples() const { return trained_.size(); }
  size_t held_out_examples() const { return held_out_.size(); }
  uint64_t held_out_tokens() const;

  Result<StepReport> step();
  // Mean loss of the targets of the examples held out; of none without them.
  Result<std::optional<double>> evaluate();

  // Trains parts of the first steps for some seconds, one part at least behind a first one that is not counted: it
  // reads the model's file. The factors have changed then, so this trainer is of no more use.
  Result<TrainerPace> measure(double seconds);

  // A checkpoint: a folder of factors, optimizer and the number of steps done. load() refuses one of other examples,
  // options or factors.
  Status save(const std::string& folder) const;
  Status load(const std::string& folder);

 private:
  struct Batch {
    uint64_t epoch = 0;
    std::vector<size_t> examples;
  };
  Trainer(TrainedFactors& factors, const TrainerOptions& options)
      : factors_(&factors), options_(options), optimizer_(options.optimizer, factors.tensors()) {}
  static size_t held_out_count(size_t examples, const TrainerOptions& options);
  void divide(std::vector<TrainSequence> examples);
  std::vector<Batch> batches_of(uint64_t epoch) const;
  const Batch& batch(uint64_t step);
  using Part = std::vector<BatchPart>;
  std::vector<Part> parts_of(const std::vector<const TrainSequence*>& sequences, float share) const;
  Result<double> run_parts(TrainingStep& step, const std::vector<const TrainSequence*>& sequences, float share);
  std::vector<const TrainSequence*> sequences_of(const Batch& batch) const;
  std::vector<const TrainSequence*> sequences_held_out() const;
  // Tokens a second of the parts of a step, or of an evaluation.
  Result<double> measure_parts(TrainingStep& step, const std::vector<Part>& parts, double seconds);
  Status update(StepReport& report);
  std::string fingerprint() const;

  TrainedFactors* factors_;
  const TrainerOptions options_;
  StepSize size_;
  std::vector<TrainSequence> trained_, held_out_;
  Optimizer optimizer_;
  Reservation reserved_;
  std::unique_ptr<TrainingStep> step_, evaluation_;
  uint64_t steps_ = 0, tokens_ = 0, done_ = 0;
  std::vector<Batch> epoch_;  // of the epoch whose first step is epoch_begin_
  uint64_t epoch_begin_ = 0, epoch_number_ = 0;
};

}  // namespace sluice
