// Plays a training program on a device: a batch of whole sequences goes in, their losses come out, and gradients are
// added to those of the factors, or to those of a device that trains the factors by itself. Sums over a batch run in
// the order of its sequences; the number of threads changes no bit.
//
//   start(batch), then poll() until it gives the losses
//
// Neither waits, so that a page's GPU may work in between. run() waits, for callers that may.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "engine/experts/held_weights.h"
#include "engine/plan/layout.h"
#include "engine/step_fill.h"
#include "graph/step.h"
#include "model/model.h"
#include "train/factors.h"
#include "train/media_rows.h"
#include "train/training_program.h"

namespace sluice {

struct TrainSequence {
  std::vector<int32_t> tokens;
  std::vector<uint8_t>
      is_target;  // by token: whether its being foretold is learnt; that of the first token is not used
  std::vector<TrainMedia> media = {};  // ascending
  uint32_t targets() const;
};

// A sequence of a batch, and by what each of its losses is multiplied in the sum that is differentiated.
struct BatchPart {
  const TrainSequence* sequence = nullptr;
  float share = 1;
};

struct StepSize {
  uint32_t rows = 0;       // tokens of all sequences of a batch, at most
  uint32_t targets = 0;    // likewise
  uint32_t sequences = 0;  // likewise
  bool shows_media = false;
};

// What a batch gave.
struct BatchLoss {
  std::vector<double> sums;  // by sequence: of the losses of its targets
};

class TrainingStep {
 public:
  // With `gradients` a run adds to the factors' gradients; without them it is an evaluation.
  struct Options {
    Arithmetic arithmetic = Arithmetic::fast;
    StepSize size{};
    bool gradients = true;
    uint32_t kept_layers = 0;          // of TrainingParts
    bool on_device = false;            // the device trains the factors; only where DeviceInfo::trains_factors
    const MediaRows* media = nullptr;  // outlives the step; of all media, if StepSize::shows_media
  };
  static Result<std::unique_ptr<TrainingStep>> create(const Model& model, TrainedFactors& factors, Device& device,
                                                      Budget& budget, const Options& options);
  // The lines of the budget that create() takes, from shapes alone.
  static Result<std::vector<MemoryLine>> memory(const Model& model, TrainedFactors& factors, const Device& device,
                                                const Options& options);

  // The batch fits Options::size, and each sequence has a target. No other batch is under way.
  void start(std::span<const BatchPart> batch);
  // What the batch gave; none while the device computes. Fails with one sentence when a loss is not finite. Either ends
  // the batch.
  Result<std::optional<BatchLoss>> poll();
  // start() and poll() to the end.
  Result<BatchLoss> run(std::span<const BatchPart> batch);

  const Program& program() const { return training_.program; }

  // For what trains the factors on the device; not while a batch is under way.
  Runner& runner() { return *runner_; }
  bool trains_on_device() const { return options_.on_device; }
  // The device has the numbers that the factors have now.
  void keep_factors() { placed_version_ = written_version_ = factors_->version(); }

 private:
  TrainingStep(TrainedFactors& factors, const Options& options) : factors_(&factors), options_(options) {}
  Status prepare(const Model& model);
  uint64_t staging_bytes() const;  // of the step buffer and of gradients that are read
  Status place(const Model& model, Device& device, Budget& budget);
  void reload_factors();
  void write_factors();
  void fill(std::span<const BatchPart> batch);
  void fill_sequence(const TrainSequence& sequence, uint32_t number, const PartPlace& at);
  BatchLoss take_losses();
  static uint32_t wanted_of(std::span<const BatchPart> batch);

  TrainedFactors* factors_;
  const Options options_;
  TrainingProgram training_;
  StepMaxima maxima_;
  PlanRequest request_;
  TextPorts ports_;
  uint32_t target_ = 0, share_ = 0;  // inputs
  std::unique_ptr<StepBuffer> step_;
  std::unique_ptr<HeldWeights> held_;
  Reservation reserved_;
  std::vector<float> losses_;
  std::vector<std::vector<float>> read_;  // by gradient
  std::vector<uint32_t> targets_;         // by sequence of the batch that is under way
  bool looks_ = false;                    // it is played again to find the op whose result is not finite
  Ticket ticket_ = 0;                     // of the batch that is under way
  std::unique_ptr<Runner> runner_;
  uint64_t placed_version_ = 0;   // of the factors that the device has
  uint64_t written_version_ = 0;  // of those that its optimizer has
};

}  // namespace sluice
