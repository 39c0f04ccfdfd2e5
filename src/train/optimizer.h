// How gradients change the factors: stochastic gradient descent, or AdamW (Loshchilov and Hutter 2017,
// arXiv:1711.05101) in the order of torch.optim.AdamW: decay first, then the step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/adapters/adapter.h"
#include "train/pieces.h"

namespace sluice {

struct OptimizerOptions {
  bool adam = true;  // else gradient descent
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;  // of AdamW
  double clip = 1.0;           // of the norm of all gradients together; 0: none
};

// The norm of all gradients together, and scales them to at most `clip`: by clip / (norm + 1e-6), as
// torch.nn.utils.clip_grad_norm_. The number of threads changes no bit, here and in Optimizer::step().
double clip_gradients(std::span<std::vector<float>> gradients, double clip, ThreadPool& pool);

// With warm-up: the rate grows from 0 in equal steps, then falls as half a cosine to 0 at the last step, as
// transformers' get_cosine_schedule_with_warmup. Step counts from 0.
double scheduled_rate(double rate, uint64_t step, uint64_t warm_up, uint64_t steps);

// By what gradients of that norm are multiplied, so that it becomes `clip` at most.
double clip_factor(double norm, double clip);

// The numbers of AdamW's step t, from 1: w = decay w - rate mean / (sqrt(square) / root + eps).
struct AdamStep {
  double decay = 1, rate = 0, root = 1;
};
AdamStep adam_step(const OptimizerOptions& options, uint64_t step, double rate);

class Optimizer {
 public:
  Optimizer(const OptimizerOptions& options, std::span<const StoredFactor> tensors);
  static uint64_t bytes(const OptimizerOptions& options, uint64_t elements);

  void step(std::span<StoredFactor> tensors, std::span<const std::vector<float>> gradients, double rate,
            ThreadPool& pool);

  // The state, for checkpoints: by tensor; empty for gradient descent.
  uint64_t steps() const { return steps_; }
  std::span<const std::vector<float>> means() const { return means_; }
  std::span<const std::vector<float>> squares() const { return squares_; }
  void restore(uint64_t steps, std::vector<std::vector<float>> means, std::vector<std::vector<float>> squares);

 private:
  void adam(const TensorPiece& piece, float* numbers, const float* gradient, double rate);

  const OptimizerOptions options_;
  uint64_t steps_ = 0;
  std::vector<std::vector<float>> means_, squares_;
};

}  // namespace sluice
