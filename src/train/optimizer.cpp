#include "train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/check.h"

namespace sluice {

double clip_gradients(std::span<std::vector<float>> gradients, double clip) {
  double squares = 0;
  for (const std::vector<float>& tensor : gradients)
    for (const float one : tensor) squares += static_cast<double>(one) * static_cast<double>(one);
  const double norm = std::sqrt(squares);
  const double factor = clip / (norm + 1e-6);
  if (clip <= 0 || !(factor < 1)) return norm;
  for (std::vector<float>& tensor : gradients)
    for (float& one : tensor) one *= static_cast<float>(factor);
  return norm;
}

double scheduled_rate(double rate, uint64_t step, uint64_t warm_up, uint64_t steps) {
  if (step < warm_up) return rate * static_cast<double>(step) / static_cast<double>(warm_up);
  if (steps <= warm_up) return rate;
  const double progress = static_cast<double>(step - warm_up) / static_cast<double>(steps - warm_up);
  return rate * 0.5 * (1 + std::cos(std::numbers::pi * std::min(progress, 1.0)));
}

Optimizer::Optimizer(const OptimizerOptions& options, std::span<const StoredFactor> tensors) : options_(options) {
  if (!options.adam) return;
  for (const StoredFactor& tensor : tensors) {
    means_.emplace_back(tensor.numbers.size());
    squares_.emplace_back(tensor.numbers.size());
  }
}

uint64_t Optimizer::bytes(const OptimizerOptions& options, uint64_t elements) {
  return options.adam ? 2 * elements * sizeof(float) : 0;
}

void Optimizer::restore(uint64_t steps, std::vector<std::vector<float>> means,
                        std::vector<std::vector<float>> squares) {
  CHECK(means.size() == means_.size() && squares.size() == squares_.size());
  steps_ = steps;
  means_ = std::move(means);
  squares_ = std::move(squares);
}

void Optimizer::step(std::span<StoredFactor> tensors, std::span<const std::vector<float>> gradients, double rate) {
  ++steps_;
  const auto count = static_cast<double>(steps_);
  const double of_mean = 1 - std::pow(options_.beta1, count);
  const double of_square = std::sqrt(1 - std::pow(options_.beta2, count));
  const auto decay = static_cast<float>(1 - rate * options_.weight_decay);
  const auto beta1 = static_cast<float>(options_.beta1), beta2 = static_cast<float>(options_.beta2);
  for (size_t t = 0; t < tensors.size(); ++t) {
    std::vector<float>& numbers = tensors[t].numbers;
    const std::vector<float>& gradient = gradients[t];
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (!options_.adam) {
        numbers[i] -= static_cast<float>(rate) * gradient[i];
        continue;
      }
      float &mean = means_[t][i], &square = squares_[t][i];
      numbers[i] *= decay;
      mean += (gradient[i] - mean) * (1 - beta1);
      square = square * beta2 + (1 - beta2) * gradient[i] * gradient[i];
      const double root = std::sqrt(static_cast<double>(square)) / of_square + options_.eps;
      numbers[i] -= static_cast<float>(rate / of_mean * static_cast<double>(mean) / root);
    }
  }
}

}  // namespace sluice
