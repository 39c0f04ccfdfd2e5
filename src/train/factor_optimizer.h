// What turns the gradients of a TrainingStep into new factors: on the processor, or on a device that trains factors by
// itself. Only the norm of all gradients comes from such a device in each step.
//
//   clear_gradients(), the parts of a batch, begin_update(), then poll_update() until it gives the norm
//
// Nothing here waits but what says so. On a device the factors' tensors stay behind until poll_factors() says that they
// have the device's numbers.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "train/factors.h"
#include "train/optimizer.h"
#include "train/training_step.h"

namespace sluice {

class FactorOptimizer {
 public:
  // AdamW's state, by stored tensor; empty for gradient descent. It stays until the next call.
  struct State {
    std::span<const std::vector<float>> means{}, squares{};
  };

  // Whether TrainingStep::Options::on_device suits: AdamW, and factors whose stored numbers lie in groups of weights.
  static bool is_on_device(TrainedFactors& factors, const Device& device, const OptimizerOptions& options);
  // Of the step's device if the step trains there. `factors` and `step` outlive it.
  static std::unique_ptr<FactorOptimizer> make(const OptimizerOptions& options, TrainedFactors& factors,
                                               TrainingStep& step);
  // Of the host's memory, that of checkpoints included.
  static uint64_t bytes(const OptimizerOptions& options, uint64_t elements) {
    return Optimizer::bytes(options, elements);
  }
  virtual ~FactorOptimizer() = default;

  virtual void clear_gradients() = 0;
  // A step with the gradients since then. No other one is under way.
  virtual void begin_update(double rate) = 0;
  // The norm of all gradients before clipping. If it is not finite, nothing was changed.
  virtual Result<std::optional<double>> poll_update() = 0;
  virtual Result<bool> poll_factors() = 0;

  // These wait. update() also waits for the new numbers.
  Result<double> update(double rate);
  Status take_factors();
  virtual Result<std::vector<std::vector<float>>> gradients() = 0;  // by stored tensor
  virtual Result<State> state() = 0;
  // The state behind that many steps. The factors' tensors are the caller's to set.
  virtual void restore(uint64_t steps, std::vector<std::vector<float>> means,
                       std::vector<std::vector<float>> squares) = 0;

 private:
  virtual Status wait_for_numbers() { return {}; }
};

}  // namespace sluice
