// A model with an adapter of all its products, for tests of training.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/budget.h"
#include "train/training_step.h"

namespace sluice {

constexpr uint32_t kTokens = 11;  // of the longest sequence

double drawn(uint32_t kind, uint32_t i);  // from -0.5 to 0.5, always the same
TrainSequence drawn_sequence(const Model& model, uint32_t number, uint32_t tokens);

// The factors are not zero.
class TrainedModel {
 public:
  explicit TrainedModel(const std::string& folder);

  std::unique_ptr<TrainingStep> step(Device& device, Arithmetic arithmetic = Arithmetic::exact,
                                     uint32_t kept_layers = 0);
  std::vector<std::vector<float>> gradients() const;

 private:
  std::string folder_;

 public:
  const Model model;
  ThreadPool pool{2};
  Budget budget;
  std::unique_ptr<TrainedFactors> factors;
};

// The sum that is differentiated.
double loss_of(TrainingStep& step, const std::vector<BatchPart>& batch);

}  // namespace sluice
