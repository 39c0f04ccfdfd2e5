// Trains the factors of an adapter on examples, step by step: shuffled epochs, batches of a number of tokens that are
// computed in parts, a schedule of rates, evaluation on examples that are held out, and checkpoints.
//
// The objective is the cross entropy of targets, or direct preference optimization of pairs of answers (Rafailov et al.
// 2023, arXiv:2305.18290): -log sigmoid(beta ((r1 - l1) - (r2 - l2))), where l1 and l2 are the cross entropies of the
// preferred and the other answer, and r1 and r2 those with the factors that training began with. Its derivative for l1
// and l2 is a number each, so a step runs its batch twice: for the losses, then with these numbers as shares.
//
// All of it is a function of examples, options and seed. What a step sees depends on its number alone, so training that
// goes on from a checkpoint gives the bits of training that was not interrupted.
//
//   begin_step(), then poll_step() until it gives the report
//
// Neither waits, so that a page's GPU may work in between. step() and evaluate() wait, for callers that may.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "model/model.h"
#include "train/factor_optimizer.h"
#include "train/factors.h"
#include "train/optimizer.h"
#include "train/part_run.h"
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
  uint32_t kept_layers = 0;      // of TrainingParts; on the processor it changes no bit
  double held_out = 0;           // share of the examples that are only evaluated, the last ones of a shuffle
  uint64_t seed = 0;
  // Above 0: direct preference optimization with this beta. Examples 2 i and 2 i + 1 are then a pair, the answer that
  // is to be preferred first, and "examples" are pairs everywhere else.
  double dpo_beta = 0;
};

struct StepReport {
  uint64_t step = 0;   // from 1
  uint64_t epoch = 0;  // from 1
  double loss = 0;     // mean of the targets, or of the pairs; before the step
  double rate = 0;
  double gradient_norm = 0;  // before clipping
  uint64_t tokens = 0;
  std::optional<double> preferred = {};  // of pairs: the share in which the first answer is preferred
};

// How long training takes, measured on a piece of it.
struct TrainerPace {
  double tokens_per_second = 0;             // of steps, without the optimizer
  double update_seconds = 0;                // of the optimizer in a step
  double evaluation_tokens_per_second = 0;  // without gradients; 0 without examples held out and without pairs
};

class Trainer {
 public:
  // `examples` are not empty. Fails with one sentence when memory does not suffice.
  static Result<std::unique_ptr<Trainer>> create(const Model& model, TrainedFactors& factors, Device& device,
                                                 Budget& budget, std::vector<TrainSequence> examples,
                                                 const TrainerOptions& options);
  // The size of its steps, from the examples.
  static StepSize step_size(const std::vector<TrainSequence>& examples, const TrainerOptions& options);
  // The lines of the budget that create() takes, from shapes alone.
  static Result<std::vector<MemoryLine>> memory(const Model& model, TrainedFactors& factors, const Device& device,
                                                const std::vector<TrainSequence>& examples,
                                                const TrainerOptions& options);

  uint64_t steps() const { return steps_; }    // in all
  uint64_t tokens() const { return tokens_; }  // of all steps
  uint64_t steps_done() const { return done_; }
  size_t trained_examples() const { return trained_.size() / group(); }
  size_t held_out_examples() const { return held_out_.size() / group(); }
  uint64_t held_out_tokens() const;
  uint64_t reference_tokens() const;  // of all examples, which pairs see once before the first step

  // A step or an evaluation, one at a time. poll_...() goes on by one part at most, and gives nothing while there is
  // more to compute. An error ends it.
  void begin_step();  // there is one that is not done
  Result<std::optional<StepReport>> poll_step();
  void begin_evaluation();  // of examples held out, of which there are some
  Result<std::optional<double>> poll_evaluation();
  bool running() const { return run_.running() || updates_ || takes_; }
  // Gives up what was begun. The part at hand is still polled for, until running() is false; the factors stay as they
  // were, or the step is done.
  void stop();
  // Whether the tensors of the factors have the numbers of the last step; begins to take them from the device that
  // trains them. Not while something is under way.
  Result<bool> poll_factors() { return optimizer_->poll_factors(); }

  // The same, begun and polled to the end.
  Result<StepReport> step();
  // Mean loss of the targets, or of the pairs, of the examples held out; of none without them.
  Result<std::optional<double>> evaluate();
  Status take_factors() { return optimizer_->take_factors(); }

  // Trains parts of the first steps for some seconds, one part at least behind a first one that is not counted: it
  // reads the model's file. The factors have changed then, so this trainer is of no more use.
  Result<TrainerPace> measure(double seconds);

  // A checkpoint: a folder of factors, optimizer and the number of steps done. load() refuses one of other examples,
  // options or factors.
  Status save(const std::string& folder);
  Status load(const std::string& folder);

 private:
  struct Batch {
    uint64_t epoch = 0;
    std::vector<size_t> examples;  // of trained_
  };
  // Pairs of some sequences: their mean loss, and its derivative for the loss of each sequence.
  struct Preference {
    double loss = 0;
    double preferred = 0;
    std::vector<float> shares;
  };
  // What is computed of a step or an evaluation: the losses that pairs had before training, those that they have now,
  // and what all of this is for, with gradients in a step.
  enum class Stage : uint8_t { reference, preference, losses };

  Trainer(TrainedFactors& factors, const TrainerOptions& options) : factors_(&factors), options_(options) {}
  bool has_pairs() const { return options_.dpo_beta > 0; }
  size_t group() const { return has_pairs() ? 2 : 1; }  // sequences of an example
  Status compute_media(const Model& model, Device& device, Budget& budget);
  static size_t held_out_count(size_t sequences, const TrainerOptions& options);
  static bool evaluates(size_t sequences, const TrainerOptions& options);
  void divide(std::vector<TrainSequence> examples);
  std::vector<Batch> batches_of(uint64_t epoch) const;
  const Batch& batch(uint64_t step);
  TrainPart sequences_of(const Batch& batch) const;
  TrainPart sequences_held_out() const;
  TrainPart all_sequences() const;
  void begin(Stage stage, TrainingStep& step, const TrainPart& sequences);
  void begin_pairs();
  Result<std::optional<std::vector<double>>> poll_run();
  Result<std::optional<std::vector<double>>> poll_losses();
  void keep_reference(const std::vector<double>& sums);
  Status take_reference();
  Preference prefer(const std::vector<double>& sums) const;
  void weigh(const Preference& preference);
  // Tokens a second of the parts of a step, or of an evaluation.
  Result<double> measure_parts(TrainingStep& step, const std::vector<TrainPart>& parts, double seconds);
  void begin_update();
  Status check_gradient(double norm) const;
  Result<std::optional<StepReport>> poll_update();
  std::string fingerprint() const;

  TrainedFactors* factors_;
  const TrainerOptions options_;
  StepSize size_;
  std::vector<TrainSequence> trained_, held_out_;
  std::unordered_map<const TrainSequence*, double> reference_;  // of pairs: the losses with the factors at the start
  Reservation reserved_;
  std::unique_ptr<MediaRows> media_;  // null: the examples show none
  std::unique_ptr<TrainingStep> step_, evaluation_;
  std::unique_ptr<FactorOptimizer> optimizer_;
  // Of the step or the evaluation that is under way.
  Stage stage_{};
  TrainPart sequences_;
  StepReport report_;
  PartRun run_;
  bool updates_ = false;  // the optimizer is at work
  bool takes_ = false;    // the stage waits for factors of the device
  bool stops_ = false;
  uint64_t steps_ = 0, tokens_ = 0, done_ = 0;
  std::vector<Batch> epoch_;  // of the epoch whose first step is epoch_begin_
  uint64_t epoch_begin_ = 0, epoch_number_ = 0;
};

}  // namespace sluice
